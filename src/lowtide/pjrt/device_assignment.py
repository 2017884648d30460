"""Devices of programs, as JAX names them in the options of a compilation."""

from __future__ import annotations

from typing import Any

from lowtide.records import dataclass


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """What a compilation is for: the numbers of its devices, replica by replica.

    `serialized` is what JAX handed over, `assignment` says the same of devices as protobuf. The
    compiler chooses the sharding of arguments and results that are free, where nothing else says
    it; a list of one flag is that of all. `overrides` are the `compiler_options` of `jax.jit`.
    """

    serialized: bytes
    devices: tuple[int, ...]
    replicas: int = 1
    partitions: int = 1
    free_arguments: tuple[bool, ...] = ()
    free_results: tuple[bool, ...] = ()
    overrides: tuple[tuple[str, str | bool | int | float], ...] = ()

    @property
    def assignment(self) -> bytes:
        """The devices as a DeviceAssignmentProto, which has a list of replicas a partition."""
        parts = [self.devices[i :: self.partitions] for i in range(self.partitions)]
        lists = [b"".join([_number(x) for x in part]) for part in parts]
        messages = [b"\x0a" + _number(len(x)) + x for x in lists]
        whole = b"".join([b"\x1a" + _number(len(x)) + x for x in messages])
        return b"\x08" + _number(self.replicas) + b"\x10" + _number(self.partitions) + whole


def read_options(serialized: bytes) -> CompileOptions:
    """Return options of a serialized CompileOptionsProto; without devices they are the first."""
    from jaxlib import _jax

    library: Any = _jax
    options = library.CompileOptions.ParseFromString(serialized)
    replicas, partitions = options.num_replicas, options.num_partitions
    assignment = options.device_assignment
    devices = tuple(range(replicas * partitions))
    if assignment is not None:
        devices = _devices(assignment.serialize(), replicas, partitions)
    build = options.executable_build_options
    return CompileOptions(
        serialized,
        devices,
        replicas,
        partitions,
        tuple(build.allow_spmd_sharding_propagation_to_parameters),
        tuple(build.allow_spmd_sharding_propagation_to_output),
        tuple(options.env_option_overrides),
    )


def _devices(proto: bytes, replicas: int, partitions: int) -> tuple[int, ...]:
    """The numbers of a DeviceAssignmentProto, replica by replica."""
    parts = []
    for tag, part in _fields(proto):
        if tag == _PARTITION:
            parts.append([x for _, found in _fields(part) for x in _numbers(found)])
    return tuple([parts[i][j] for j in range(replicas) for i in range(partitions)])


_PARTITION = 3
"""The number of the field with the devices of a partition."""


def _fields(proto: bytes) -> list[tuple[int, bytes]]:
    """The fields of a message: their numbers, and bytes; of a single number these spell it."""
    found, at = [], 0
    while at < len(proto):
        key, at = _read(proto, at)
        value, end = _read(proto, at)
        if key & 7:
            found.append((key >> 3, proto[end : end + value]))
            end += value
        else:
            found.append((key >> 3, proto[at:end]))
        at = end
    return found


def _numbers(proto: bytes) -> list[int]:
    found, at = [], 0
    while at < len(proto):
        value, at = _read(proto, at)
        found.append(value)
    return found


def _read(proto: bytes, at: int) -> tuple[int, int]:
    """A number, seven bits a byte, the lowest first, and where it ends."""
    value = shift = 0
    while True:
        byte = proto[at]
        value |= (byte & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if not byte & 0x80:
            return value, at


def _number(value: int) -> bytes:
    """A number as protobuf writes it."""
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])
