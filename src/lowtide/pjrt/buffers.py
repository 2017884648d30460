"""Arrays in the hands of JAX: NumPy arrays in row-major order, on one of the devices."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import c_int, c_int64, c_size_t, c_void_p
from functools import lru_cache
from typing import Any, Final

import numpy as np

from lowtide.ir.literal import Array
from lowtide.pjrt.devices import PluginDevice
from lowtide.pjrt.element_types import dtype_of
from lowtide.pjrt.errors import INVALID_ARGUMENT, PluginError
from lowtide.pjrt.handles import sweep, value_of
from lowtide.pjrt.native_code import native_code
from lowtide.pjrt.queues import queue_of
from lowtide.pjrt.storage import Buffer, fill, new_cell
from lowtide.pjrt.table import serves


def new_buffer(array: Array, number: int, device: PluginDevice, event: int) -> int:
    """Return the handle of a new buffer with an element type by its number.

    It is ready when an event has happened; a reference to that is taken over.
    """
    sweep()
    storage = new_storage(device, array.nbytes)
    fill(storage, array)
    return new_cell(device.address, array.shape, number, array.nbytes, storage, event)


def new_storage(device: PluginDevice, nbytes: int) -> int:
    """Return a new storage on a device, with nothing in it and one reference."""
    storage: int = native_code().new_storage(queue_of(device).address, None, nbytes, 0)
    return storage


def pending() -> int:
    """Return a new event that has not happened, with a reference for C++ and one for its maker."""
    code = native_code()
    event: int = code.new_event()
    code.retain(event)
    return event


def happened() -> int:
    """Return a new reference to an event that has happened."""
    code = native_code()
    code.retain(_happened())
    return _happened()


@lru_cache(maxsize=1)
def _happened() -> int:
    code = native_code()
    event: int = code.new_event()
    code.complete(event, None)
    return event


def numbers(address: int | None, count: int) -> list[int]:
    """Return a list of 64-bit numbers at an address, which may be null for none."""
    return list((c_int64 * count).from_address(address)) if address and count else []


def _viewed(
    address: int, dtype: np.dtype[Any], sizes: Sequence[int], strides: Sequence[int]
) -> Array:
    """An array over memory of others, with strides in bytes, which may be below 0."""
    if 0 in sizes:
        return np.empty(sizes, dtype)
    ends = [(size - 1) * stride for size, stride in zip(sizes, strides, strict=True)]
    low = sum([x for x in ends if x < 0])
    nbytes = sum([x for x in ends if x > 0]) - low + dtype.itemsize
    block: Any = (ctypes.c_char * nbytes).from_address(address + low)
    return np.ndarray(tuple(sizes), dtype, block, -low, tuple(strides))


def _dense(sizes: Sequence[int], itemsize: int) -> list[int]:
    """The strides of an array in row-major order, in bytes."""
    strides: list[int] = []
    step = itemsize
    for size in reversed(sizes):
        strides.append(step)
        step *= size
    return strides[::-1]


def aligned_empty(sizes: Sequence[int], dtype: np.dtype[Any]) -> Array:
    """Return an array, not filled, at a multiple of a cache line, as JAX asks to share it."""
    nbytes = int(np.prod(sizes, dtype=np.int64)) * dtype.itemsize
    block = np.empty(nbytes + _LINE, np.uint8)
    start = -block.ctypes.data % _LINE
    return block[start : start + nbytes].view(dtype).reshape(sizes)


_LINE: Final = 64


@serves(
    "Client_BufferFromHostBuffer",
    client=c_void_p,
    data=c_void_p,
    type=c_int,
    dims=c_void_p,
    num_dims=c_size_t,
    byte_strides=c_void_p,
    num_byte_strides=c_size_t,
    semantics=c_int,
    device=c_void_p,
    memory=c_void_p,
    layout=c_void_p,
    done_with_host_buffer=c_void_p,
    buffer=c_void_p,
)
def _from_host(arguments: Any) -> None:
    sizes = numbers(arguments.dims, arguments.num_dims)
    dtype = dtype_of(arguments.type)
    strides = numbers(arguments.byte_strides, arguments.num_byte_strides)
    given = _viewed(arguments.data, dtype, sizes, strides or _dense(sizes, dtype.itemsize))
    array = aligned_empty(sizes, dtype)
    array[...] = given
    at = arguments.device or arguments.memory
    found = value_of(at)
    device = found if isinstance(found, PluginDevice) else found.device
    arguments.buffer = new_buffer(array, arguments.type, device, happened())
    arguments.done_with_host_buffer = happened()


class MemoryLayout(ctypes.Structure):
    """A layout of an array on the host: tiled, of which the order is read, or strided."""

    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("tiled_size", c_size_t),
        ("tiled_extension", c_void_p),
        ("minor_to_major", c_void_p),
        ("rank", c_size_t),
        ("tile_dims", c_void_p),
        ("tile_dim_sizes", c_void_p),
        ("num_tiles", c_size_t),
        ("kind", c_int),
    )


@serves(
    "Buffer_ToHostBuffer",
    buffer=c_void_p,
    host_layout=c_void_p,
    dst=c_void_p,
    dst_size=c_size_t,
    event=c_void_p,
)
def _to_host(arguments: Any) -> None:
    buffer: Buffer = value_of(arguments.buffer)
    if not arguments.dst:
        arguments.dst_size = buffer.nbytes
        return
    order = None
    if arguments.host_layout:
        layout = MemoryLayout.from_address(arguments.host_layout)
        if layout.kind == 0:
            order = numbers(layout.minor_to_major, layout.rank)[::-1]
    if arguments.dst_size < buffer.nbytes:
        found = f"{arguments.dst_size} bytes for an array of {buffer.nbytes}"
        raise PluginError(INVALID_ARGUMENT, f"too little room on the host: {found}")
    target = arguments.dst

    def copy(array: Array) -> None:
        dense = np.ascontiguousarray(array if order is None else array.transpose(order))
        ctypes.memmove(target, dense.ctypes.data, dense.nbytes)

    arguments.event = event = pending()
    buffer.then(copy, event)


@serves("Buffer_CopyToDevice", buffer=c_void_p, device=c_void_p, copy=c_void_p)
def _copy_to_device(arguments: Any) -> None:
    arguments.copy = _copied(arguments.buffer, value_of(arguments.device))


@serves("Buffer_CopyToMemory", buffer=c_void_p, memory=c_void_p, copy=c_void_p)
def _copy_to_memory(arguments: Any) -> None:
    arguments.copy = _copied(arguments.buffer, value_of(arguments.memory).device)


def _copied(address: int, device: PluginDevice) -> int:
    buffer: Buffer = value_of(address)
    event = pending()
    storage = new_storage(device, buffer.nbytes)

    def copy(array: Array) -> None:
        made = aligned_empty(array.shape, array.dtype)
        made[...] = array
        fill(storage, made)
        native_code().release_block(storage)

    code = native_code()
    code.retain(storage)
    code.retain(event)
    made = new_cell(device.address, buffer.shape, buffer.number, buffer.nbytes, storage, event)
    buffer.then(copy, event)
    return made
