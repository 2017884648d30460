"""Modules for several devices: arrays still whole, or already those of one device.

What runs one device refuses a module that would compute something else there.
"""

from __future__ import annotations

from lowtide.ir.errors import UnsupportedOpError, unsupported
from lowtide.ir.instruction import Instruction
from lowtide.ir.module import Module
from lowtide.ir.opcode import Opcode
from lowtide.ir.sharding import NamedSharding, Sharding, ShardingKind, TileSharding


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
        raise UnsupportedOpError(
            f"{module.name} is for {module.num_partitions} partitions and not partitioned yet: "
            f"%{sharded.name} has sharding={sharded.annotations.sharding}. `lowtide partition` "
            "writes the program of each device; num_partitions=1 runs whole arrays on one"
        )


def first_sharded(module: Module) -> Instruction | None:
    """Return the first instruction that waits to be partitioned, None where there is none.

    Modules for one partition have none: there XLA takes shardings away. Nor is there anything to
    do where every device has all of an array.
    """
    if module.num_partitions == 1:
        return None
    for computation in module.computations.values():
        for x in computation.instructions.values():
            sharding = x.annotations.sharding
            if sharding is not None and not is_whole(sharding):
                return x
    return None


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
