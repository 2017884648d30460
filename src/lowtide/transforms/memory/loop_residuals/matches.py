"""Values that both a loop and a later one compute, from the stacks that the later one reads.

A step that reads slices often computes from them what the earlier loop had: a checkpoint around
each step does just that. Then the step needs the values at the end of such computations, whichever
of them are stacked today.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from lowtide.ir import Instruction, Opcode
from lowtide.ir.traversal import post_order
from lowtide.passes.editing import element_index
from lowtide.records import dataclass
from lowtide.transforms.memory.loop_residuals.stacks import Residuals, StackRead, StackReader, Walk
from lowtide.transforms.memory.loop_residuals.steps import StepAffine
from lowtide.transforms.memory.squeezed_numbers import SqueezedNumbers, passes_on


@dataclass(frozen=True, slots=True)
class ResidualUse:
    """An instruction of a later loop that is, in step j, what `value` was in step `source(j)`."""

    inside: Instruction
    value: Instruction
    source: StepAffine


@dataclass(frozen=True, slots=True)
class Matches:
    """The `uses` of a later loop, which are all it needs.

    `repeated` is what it computes again, `work` how many of these operations follow from slices.
    """

    uses: tuple[ResidualUse, ...]
    repeated: frozenset[Instruction]
    work: int


def matches_of(residuals: Residuals, reader: StackReader) -> Matches:
    """Return what a later loop needs of the values of an earlier one."""
    uses: list[ResidualUse] = []
    repeated: set[Instruction] = set()
    work = 0
    for source, reads in reads_by_source(reader).items():
        found = _Matching(residuals, reader.walk, source, reads)
        uses += found.uses()
        repeated |= found.repeated()
        work += found.work()
    return Matches(tuple(uses), frozenset(repeated), work)


def equal_values(residuals: Residuals, reader: StackReader) -> dict[Instruction, Instruction]:
    """Return what the earlier loop has in equal shape of values that a later one has.

    All slices are read at one place.
    """
    (source,) = {x.source for x in reader.reads}
    matched = _Matching(residuals, reader.walk, source, reader.reads).matched
    found = {x: value for x, value in matched.items() if x.shape is value.shape}
    return found | {x.slice: x.value for x in reader.reads if x.slice.shape is x.value.shape}


def reads_by_source(reader: StackReader) -> dict[StepAffine, list[StackRead]]:
    """Return what a later loop reads, by the step in which it was written."""
    found: dict[StepAffine, list[StackRead]] = {}
    for read in reader.reads:
        found.setdefault(read.source, []).append(read)
    return found


_TRIVIAL: Final = frozenset(
    {
        *(Opcode.BITCAST, Opcode.BROADCAST, Opcode.CONSTANT, Opcode.COPY, Opcode.DYNAMIC_SLICE),
        *(Opcode.GET_TUPLE_ELEMENT, Opcode.IOTA, Opcode.RESHAPE, Opcode.SLICE, Opcode.TRANSPOSE),
    }
)


def is_work(x: Instruction) -> bool:
    """Whether an instruction computes, and does not only move values."""
    return x.opcode not in _TRIVIAL


class _Matching:
    """Equal values of the steps of two loops, by value numbers."""

    def __init__(
        self, residuals: Residuals, later: Walk, source: StepAffine, reads: Sequence[StackRead]
    ) -> None:
        self._source = source
        self._later = later
        numbers = SqueezedNumbers()
        earlier = residuals.walk
        outside = numbers.of_instructions(earlier.loop.instruction.parent, {})
        given = _given(numbers, outside, earlier, "earlier", source)
        before = numbers.of_instructions(earlier.loop.body, given)
        given = _given(numbers, outside, later, "later", None)
        given |= {x.slice: before[x.value] for x in reads}
        after = numbers.of_instructions(later.loop.body, given)
        values: dict[int, Instruction] = {}
        for x, number in before.items():
            values.setdefault(number, x)
        self._read = {x.slice for x in reads}
        order = post_order(later.loop.body)
        parameter = later.loop.body.parameters[0]
        self.matched = {
            x: values[after[x]]
            for x in order
            if after[x] in values and x is not parameter and parameter not in x.operands
        }
        self._from_slices = set(self._read)
        for x in order:
            if any(y in self._from_slices for y in x.operands):
                self._from_slices.add(x)
            if passes_on(x) and x.operands[0] in self._read:
                self._read.add(x)

    def uses(self) -> list[ResidualUse]:
        """Return what follows from the slices read, and is read by something that does not match.

        Shapes agree but for dimensions of size 1.
        """
        arrays = {x: value for x, value in self.matched.items() if x.shape.is_array}
        return [
            ResidualUse(x, value, self._source)
            for x, value in arrays.items()
            if x in self._from_slices and (x.is_root or any(y not in arrays for y in x.users))
        ]

    def repeated(self) -> set[Instruction]:
        """Return the values that the later loop computes, and does not only read."""
        return {value for x, value in self.matched.items() if x not in self._read}

    def work(self) -> int:
        """Return how many operations compute, from the slices read, what matches."""
        again = [x for x in self.matched if x in self._from_slices and x not in self._read]
        return sum([is_work(x) for x in again])


def _given(
    numbers: SqueezedNumbers,
    outside: Mapping[Instruction, int],
    walk: Walk,
    name: str,
    source: StepAffine | None,
) -> dict[Instruction, int]:
    """Numbers of the elements and counts of a body; steps are those of the later loop."""
    starts = {index: x for x, index in walk.carried.items()}
    found: dict[Instruction, int] = {}
    for x in walk.loop.body.parameters[0].users:
        index = element_index(x)
        known = index in starts
        found[x] = outside[starts[index]] if known else numbers.of_key((name, index))
    for x, value in walk.affines.items():
        count = value if source is None else value.of(source)
        found[x] = numbers.of_key(("count", count, x.shape))
    return found
