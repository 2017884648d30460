"""Collective operations among several devices, each of which runs an interpreter of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lowtide.evaluator.numeric import COMPUTE_DTYPES, element_type_of, narrow
from lowtide.evaluator.reducers import accumulation_dtype, wide_ufunc
from lowtide.evaluator.rendezvous import Rendezvous
from lowtide.evaluator.values import Value, Values, as_array, as_tuple, zeros
from lowtide.ir.attributes import Collective, CollectivePermute
from lowtide.ir.errors import unsupported
from lowtide.ir.literal import Array
from lowtide.ir.opcode import OVER_PARTITIONS, Opcode
from lowtide.ir.replica_groups import device_count
from lowtide.records import dataclass

if TYPE_CHECKING:
    from lowtide.ir.instruction import Instruction

Arrays = Sequence[Array]
Received = list[list[Array]]


@dataclass(frozen=True, slots=True)
class GroupDevice:
    """One of several devices: replica times partitions plus partition, and where all meet."""

    number: int
    replicas: int
    partitions: int
    rendezvous: Rendezvous

    @property
    def replica(self) -> int:
        """The number of the replica."""
        return self.number // self.partitions

    @property
    def partition(self) -> int:
        """The number of the partition."""
        return self.number % self.partitions

    def collective(self, instruction: Instruction, operands: Values) -> list[Array]:
        """Return what the device receives in a collective, one array per operand or part.

        Raises UnsupportedOpError where the group leaves the device out or the form has no rule.
        """
        rule = _COLLECTIVES.get(instruction.opcode)
        if rule is None:
            raise unsupported(instruction, "has no rule for several devices in the evaluator")
        group = self._group(instruction)

        def combined(brought: Values) -> Values:
            arrays = [[as_array(x) for x in as_tuple(one)] for one in brought]
            return [tuple(received) for received in rule(instruction, arrays)]

        meet = self.rendezvous.meet
        return [
            as_array(x)
            for x in as_tuple(meet(instruction, self.number, group, tuple(operands), combined))
        ]

    def permute(self, instruction: Instruction, operands: Values) -> list[Array]:
        """Return what the device receives in a collective-permute; zeros where nothing comes."""
        attributes = instruction.attributes_as(CollectivePermute)
        if attributes.channel_id is None:
            group = tuple([r * self.partitions + self.partition for r in range(self.replicas)])
        else:
            first = self.replica * self.partitions
            group = tuple(range(first, first + self.partitions))
        sources = {target: source for source, target in attributes.source_target_pairs}

        def combined(brought: Values) -> Values:
            empty = tuple([np.zeros_like(as_array(x)) for x in operands])
            return [
                brought[sources[place]] if place in sources else empty
                for place in range(len(brought))
            ]

        meet = self.rendezvous.meet
        return [
            as_array(x)
            for x in as_tuple(meet(instruction, self.number, group, tuple(operands), combined))
        ]

    def _group(self, instruction: Instruction) -> tuple[int, ...]:
        attributes = instruction.attributes_as(Collective)
        everyone = range(self.replicas * self.partitions)
        within = instruction.opcode in OVER_PARTITIONS
        if attributes.channel_id is None:
            place, count = self.replica, self.replicas
        elif within:
            place, count = self.partition, self.partitions
        elif attributes.use_global_device_ids:
            place, count = self.number, len(everyone)
        else:
            place, count = self.replica, self.replicas
        members: tuple[int, ...] = tuple(range(count))
        if device_count(attributes.replica_groups):
            lists = attributes.replica_groups.as_lists()
            members = next((group for group in lists if place in group), ())
        if not members:
            raise unsupported(instruction, f"device {self.number} is in none of its groups")
        if attributes.channel_id is None:
            return tuple([m * self.partitions + self.partition for m in members])
        if within:
            return tuple([self.replica * self.partitions + m for m in members])
        if attributes.use_global_device_ids:
            return members
        return tuple([m * self.partitions + p for m in members for p in range(self.partitions)])


# -- what is received --------------------------------------------------------------------------


def _reduced(instruction: Instruction, brought: Sequence[Array]) -> Array:
    ufunc = wide_ufunc(instruction.called_computations[0])
    if ufunc is None:
        raise unsupported(instruction, "reduces by more than one plain operation")
    element_type = element_type_of(brought[0])
    wide = accumulation_dtype(ufunc, COMPUTE_DTYPES[element_type])
    total: Any = brought[0].astype(wide)
    for array in brought[1:]:
        total = ufunc(total, array.astype(wide))
    return narrow(total, element_type)


def _all_reduce(instruction: Instruction, brought: Sequence[Arrays]) -> Received:
    count = len(brought[0])
    sums = [_reduced(instruction, [one[i] for one in brought]) for i in range(count)]
    return [sums for _ in brought]


def _all_gather(instruction: Instruction, brought: Sequence[Arrays]) -> Received:
    axis = instruction.attributes_as(Collective).dimension or 0
    count = len(brought[0])
    joined = [np.concatenate([one[i] for one in brought], axis) for i in range(count)]
    return [joined for _ in brought]


def _reduce_scatter(instruction: Instruction, brought: Sequence[Arrays]) -> Received:
    axis = instruction.attributes_as(Collective).dimension or 0
    sums = _all_reduce(instruction, brought)[0]
    parts = [np.split(x, len(brought), axis) for x in sums]
    return [[part[place] for part in parts] for place in range(len(brought))]


def _all_to_all(instruction: Instruction, brought: Sequence[Arrays]) -> Received:
    axis = instruction.attributes_as(Collective).dimension
    if axis is None:
        return [[one[place] for one in brought] for place in range(len(brought))]
    pieces = [np.split(one[0], len(brought), axis) for one in brought]
    return [[np.concatenate([own[place] for own in pieces], axis)] for place in range(len(brought))]


def _ragged(instruction: Instruction, brought: Sequence[Arrays]) -> Received:
    """Each device writes rows of its input over those of the output of each, in order."""
    found = [[one[1].copy()] for one in brought]
    for source, _, starts, sizes, places, _ in brought:
        count = len(starts) // len(brought)
        slices = zip(starts.tolist(), sizes.tolist(), places.tolist(), strict=True)
        for number, (start, size, place) in enumerate(slices):
            found[number // count][0][place : place + size] = source[start : start + size]
    return found


def _broadcast(instruction: Instruction, brought: Sequence[Arrays]) -> Received:
    return [list(brought[0]) for _ in brought]


_COLLECTIVES: Final[dict[Opcode, Callable[[Instruction, Sequence[Arrays]], Received]]] = {
    Opcode.ALL_GATHER: _all_gather,
    Opcode.ALL_GATHER_START: _all_gather,
    Opcode.ALL_REDUCE: _all_reduce,
    Opcode.ALL_REDUCE_START: _all_reduce,
    Opcode.ALL_TO_ALL: _all_to_all,
    Opcode.COLLECTIVE_BROADCAST: _broadcast,
    Opcode.RAGGED_ALL_TO_ALL: _ragged,
    Opcode.REDUCE_SCATTER: _reduce_scatter,
}


def device_number_of(device: GroupDevice, instruction: Instruction) -> Value:
    """Return the partition or the replica that the device runs, as the instruction asks."""
    is_partition = instruction.opcode is Opcode.PARTITION_ID
    number = device.partition if is_partition else device.replica
    return as_array(zeros(instruction.shape)) + np.uint32(number)
