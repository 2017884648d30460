"""Groups of the devices that meet in a collective operation, over replicas and partitions.

The number of a device is replica times partitions plus partition.
"""

from __future__ import annotations

from typing import Final

from lowtide.ir.attributes import Collective, CollectivePermute
from lowtide.ir.errors import unsupported
from lowtide.ir.instruction import Instruction
from lowtide.ir.module import Module
from lowtide.ir.opcode import OVER_PARTITIONS, Opcode
from lowtide.ir.partitioning import check_device_count
from lowtide.ir.replica_groups import device_count
from lowtide.ir.traversal import all_callees

Groups = tuple[tuple[int, ...], ...]


def devices_of(module: Module) -> int:
    """Return how many devices run a module at once."""
    return module.replica_count * module.num_partitions


def groups_of(instruction: Instruction) -> Groups:
    """Return the groups of devices that meet in a collective operation, each in its order.

    Raises UnsupportedOpError unless each device of the module is in one, InputError for more
    devices than programs are made for.
    """
    module = instruction.parent.module
    check_device_count(module)
    replicas, partitions = module.replica_count, module.num_partitions
    attributes = instruction.attributes
    if isinstance(attributes, CollectivePermute):
        across = attributes.channel_id is not None
        return _over_partitions(((),), module) if across else _over_replicas(((),), module)
    how = instruction.attributes_as(Collective)
    lists: Groups = ((),)
    if device_count(how.replica_groups):
        lists = how.replica_groups.as_lists()
    if how.channel_id is None:
        found = _over_replicas(lists, module)
    elif instruction.opcode in OVER_PARTITIONS:
        found = _over_partitions(lists, module)
    elif how.use_global_device_ids:
        found = tuple([group or tuple(range(replicas * partitions)) for group in lists])
    else:
        each = range(partitions)
        found = tuple(
            [
                tuple([r * partitions + p for r in group or range(replicas) for p in each])
                for group in lists
            ]
        )
    _check(instruction, found)
    return found


def _over_replicas(lists: Groups, module: Module) -> Groups:
    """The groups of replicas, once for each partition."""
    count = module.num_partitions
    return tuple(
        [
            tuple([replica * count + partition for replica in group or range(module.replica_count)])
            for partition in range(count)
            for group in lists
        ]
    )


def _over_partitions(lists: Groups, module: Module) -> Groups:
    """The groups of partitions, once for each replica."""
    count = module.num_partitions
    return tuple(
        [
            tuple([replica * count + partition for partition in group or range(count)])
            for replica in range(module.replica_count)
            for group in lists
        ]
    )


def _check(instruction: Instruction, groups: Groups) -> None:
    count = devices_of(instruction.parent.module)
    named = sorted([device for group in groups for device in group])
    if named == list(range(count)):
        return
    present = frozenset(named)
    missing = [device for device in range(count) if device not in present]
    if missing:
        raise unsupported(instruction, f"device {missing[0]} of {count} is in none of its groups")
    raise unsupported(
        instruction,
        f"its groups name a device twice, or device {named[-1]} of {count}: numbers go from 0 on",
    )


def check_members(module: Module) -> None:
    """Raise UnsupportedOpError where a collective that may run names devices that there are not."""
    for computation in [module.entry, *all_callees(module.entry)]:
        for x in computation.instructions.values():
            if isinstance(x.attributes, Collective):
                groups_of(x)
            elif isinstance(x.attributes, CollectivePermute):
                check_pairs(x)


def check_pairs(instruction: Instruction) -> None:
    """Raise UnsupportedOpError where the pairs of a permute name a device that there is not."""
    how = instruction.attributes_as(CollectivePermute)
    count = len(groups_of(instruction)[0])
    most = max([x for pair in how.source_target_pairs for x in pair], default=0)
    if most >= count:
        raise unsupported(instruction, f"device {most} of its pairs is none of {count}")


def meets_devices(module: Module) -> bool:
    """Return whether an instruction needs other devices, or asks for the number of its own."""
    return any(
        isinstance(x.attributes, Collective | CollectivePermute) or x.opcode in _NUMBERS
        for computation in module.computations.values()
        for x in computation.instructions.values()
    )


_NUMBERS: Final = frozenset({Opcode.PARTITION_ID, Opcode.REPLICA_ID})
