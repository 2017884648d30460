"""Members of a collective operation, by the number of the device.

Device `r * partitions + p` is replica r, partition p.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lowtide.ir import Instruction, Module, Opcode
from lowtide.ir.attributes import Collective, CollectivePermute

COLLECTIVES: Final = frozenset(
    {
        *(Opcode.ALL_GATHER, Opcode.ALL_GATHER_START, Opcode.ALL_REDUCE, Opcode.ALL_REDUCE_START),
        *(Opcode.ALL_TO_ALL, Opcode.COLLECTIVE_BROADCAST, Opcode.COLLECTIVE_PERMUTE),
        *(Opcode.COLLECTIVE_PERMUTE_START, Opcode.RAGGED_ALL_TO_ALL, Opcode.REDUCE_SCATTER),
    }
)

_PARTITIONS_BY_CHANNEL: Final = frozenset(
    {Opcode.ALL_TO_ALL, Opcode.COLLECTIVE_BROADCAST, Opcode.RAGGED_ALL_TO_ALL}
)
"""With a channel their groups hold partitions; they have no flag for global numbers."""

Groups = tuple[tuple[int, ...], ...]


class GroupError(ValueError):
    """The groups of a collective cannot be those of the devices that there are."""


def groups_of(x: Instruction) -> Groups:
    """Return the groups of devices that exchange values in a collective, each in its order.

    Of a permutation it is one group, of all devices that its pairs name. Raises GroupError.
    """
    module = x.parent.module
    if isinstance(x.attributes, CollectivePermute):
        return _permuting(module, x.attributes)
    attributes = x.attributes_as(Collective)
    try:
        named = attributes.replica_groups.as_lists()
    except ValueError as error:
        raise GroupError(str(error)) from None
    replicas, partitions = module.replica_count, module.num_partitions
    if attributes.channel_id is None:
        groups = [
            tuple([r * partitions + p for r in group])
            for group in _checked(named, replicas, "replica")
            for p in range(partitions)
        ]
    elif x.opcode in _PARTITIONS_BY_CHANNEL:
        groups = [
            tuple([r * partitions + p for p in group])
            for r in range(replicas)
            for group in _checked(named, partitions, "partition")
        ]
    elif attributes.use_global_device_ids:
        groups = list(_checked(named, replicas * partitions, "device"))
    else:
        groups = [
            tuple([r * partitions + p for r in group for p in range(partitions)])
            for group in _checked(named, replicas, "replica")
        ]
    return tuple(groups)


def _checked(named: Sequence[tuple[int, ...]], count: int, what: str) -> Sequence[tuple[int, ...]]:
    """The groups that an instruction names, one of all where it names none."""
    if not any(named):
        return (tuple(range(count)),)
    members = [x for group in named for x in group]
    if len(set(members)) != len(members):
        twice = next(x for x in members if members.count(x) > 1)
        raise GroupError(f"replica_groups names {what} {twice} twice")
    for x in members:
        if not 0 <= x < count:
            raise GroupError(f"replica_groups names {what} {x}; there are {count}")
    if len(members) != count:
        missing = next(x for x in range(count) if x not in set(members))
        raise GroupError(f"{what} {missing} is in none of the replica_groups")
    return named


def _permuting(module: Module, attributes: CollectivePermute) -> Groups:
    """With a channel the pairs name partitions, without one replicas."""
    replicas, partitions = module.replica_count, module.num_partitions
    by_partition = attributes.channel_id is not None
    count, what = (partitions, "partition") if by_partition else (replicas, "replica")
    for side, role in enumerate(("source", "target")):
        named = [pair[side] for pair in attributes.source_target_pairs]
        for x in named:
            if not 0 <= x < count:
                raise GroupError(f"source_target_pairs names {what} {x}; there are {count}")
        if len(set(named)) != len(named) and not attributes.slice_sizes:
            raise GroupError(f"source_target_pairs names a {role} twice")
    everyone = sorted({x for pair in attributes.source_target_pairs for x in pair})
    if by_partition:
        return tuple([tuple([r * partitions + p for p in everyone]) for r in range(replicas)])
    return tuple([tuple([r * partitions + p for r in everyone]) for p in range(partitions)])
