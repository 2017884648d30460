"""Modules for several devices: arrays still whole, or already those of one device.

What runs one device refuses a module that would compute something else there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lowtide.ir.attributes import CustomCall
from lowtide.ir.errors import InputError, UnsupportedOpError, unsupported
from lowtide.ir.instruction import Instruction
from lowtide.ir.mesh import Mesh
from lowtide.ir.module import Module
from lowtide.ir.opcode import Opcode
from lowtide.ir.sharding import NamedSharding, Sharding, ShardingKind, TileSharding
from lowtide.ir.tilings.shardy import BORDER_KEYS, MESHES_KEY, SHARDY_KEY, ShardySharding

MOST_DEVICES: Final = 1 << 16
"""Modules of more devices are read and written only: they are typing errors."""

MOST_RUN: Final = 1 << 12
"""The most devices that a program runs on: each has a thread, and a place in tables of all."""


def check_device_count(module: Module, most: int = MOST_DEVICES) -> None:
    """Raise InputError for a module of more devices than `most`."""
    count = module.replica_count * module.num_partitions
    if count > most:
        what = "a program is made for" if most == MOST_DEVICES else "a program is run on"
        raise InputError(
            f"{module.name} is for {count:,} devices, {what} at most {most:,}: correct --devices, "
            "or replica_count and num_partitions of the module"
        )


def check_one_device(module: Module) -> None:
    """Raise UnsupportedOpError for a module that would compute something else on one device.

    Collectives say so themselves, where others than device 0 take part in them.
    """
    check_partitioned(module)
    counts = {
        Opcode.PARTITION_ID: (module.num_partitions, "partitions"),
        Opcode.REPLICA_ID: (module.replica_count, "replicas"),
    }
    for computation in module.computations.values():
        for x in computation.instructions.values():
            count, what = counts.get(x.opcode, (1, ""))
            if count > 1:
                raise unsupported(
                    x,
                    f"this is the program of each of {count} {what}, and one device is run here: "
                    "`lowtide run` and lowtide.run_on_devices run all of them",
                )


def check_partitioned(module: Module) -> None:
    """Raise UnsupportedOpError for a module for several partitions that has sharded arrays yet."""
    sharded = first_sharded(module)
    if sharded is not None:
        sharding = sharded.annotations.sharding or _shardy_text(sharded).replace('\\"', '"')
        raise UnsupportedOpError(
            f"{module.name} is for {module.num_partitions} partitions and not partitioned yet: "
            f"%{sharded.name} has sharding={sharding}. `lowtide partition` writes the program of "
            "each device; num_partitions=1 runs whole arrays on one"
        )


def first_sharded(module: Module) -> Instruction | None:
    """Return the first instruction that waits to be partitioned, None where there is none.

    Modules for one partition have none: there XLA takes shardings away. Nor is there anything to
    do where every device has all of an array; at the border of a manual region there always is.
    """
    if module.num_partitions == 1:
        return None
    from lowtide.ir.tilings.shardy_reader import read_meshes, read_shardings  # Few are partitioned.

    meshes = read_meshes(dict(module.frontend_attributes).get(MESHES_KEY, "{}"))
    for computation in module.computations.values():
        for x in computation.instructions.values():
            sharding = x.annotations.sharding
            if sharding is not None and not is_whole(sharding):
                return x
            if _is_border(x):
                return x
            shardy = _shardy_text(x)
            if shardy and any(_splits(s, meshes) for s in read_shardings(shardy)):
                return x
    return None


def takes_whole_arrays(module: Module) -> bool:
    """Return whether a module for several partitions is one on whole arrays, cut or not.

    One that names meshes is, even where every device has all of each array.
    """
    if module.num_partitions == 1:
        return False
    return first_sharded(module) is not None or MESHES_KEY in dict(module.frontend_attributes)


def _is_border(x: Instruction) -> bool:
    """Return whether a custom call is where a manual region of Shardy begins or ends."""
    return isinstance(x.attributes, CustomCall) and x.attributes.target in BORDER_KEYS


def _shardy_text(x: Instruction) -> str:
    """Shardy's shardings of the arrays of an instruction, or of those at a border; "" for none."""
    key = BORDER_KEYS[x.attributes_as(CustomCall).target] if _is_border(x) else SHARDY_KEY
    return dict(x.annotations.frontend_attributes).get(key, "")


def _splits(sharding: ShardySharding, meshes: Mapping[str, Mesh]) -> bool:
    """Return whether devices hold different parts or terms of an array."""
    mesh = sharding.mesh if isinstance(sharding.mesh, Mesh) else meshes.get(sharding.mesh)
    sizes = dict(zip(mesh.axis_names, mesh.axis_sizes, strict=True)) if mesh else {}
    axes = [axis for dimension in sharding.dimensions for axis in dimension.axes]
    return any(sizes.get(axis.name, 2) > 1 for axis in (*axes, *sharding.unreduced))


def is_whole(sharding: Sharding) -> bool:
    """Return whether all devices, or device 0 alone, hold all of each array."""
    if isinstance(sharding, TileSharding):
        if sharding.kind is ShardingKind.MAXIMAL:
            return not isinstance(sharding.devices, tuple) or sharding.devices == (0,)
        return sharding.kind is ShardingKind.REPLICATED
    if isinstance(sharding, NamedSharding):
        if sharding.mesh.maximal_device is not None:
            return sharding.mesh.maximal_device == 0
        split = any(dimension.axes for dimension in sharding.dimensions)
        return sharding.whole in ("", ShardingKind.REPLICATED.value) and not (
            split or sharding.unreduced or sharding.manual
        )
    return all(is_whole(x) for x in sharding.elements)


def is_divided(module: Module) -> bool:
    """Return whether a module is one on whole arrays that devices are to have parts of.

    What is scheduled is taken as it is.
    """
    return not module.is_scheduled and first_sharded(module) is not None
