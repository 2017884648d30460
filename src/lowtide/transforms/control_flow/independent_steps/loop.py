"""Loops of which no step reads what another one writes, and what they carry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from lowtide.analysis.loop_trip_count import trip_count
from lowtide.ir import ElementType, Instruction, Opcode
from lowtide.ir.attributes import DynamicSlice
from lowtide.ir.traversal import post_order
from lowtide.ops.effects import has_side_effect
from lowtide.passes.editing import element_index, is_element
from lowtide.passes.matching import scalar_value
from lowtide.records import dataclass
from lowtide.transforms.control_flow.independent_steps.addressing import (
    SlicePlace,
    slice_place,
    written_place,
)
from lowtide.transforms.control_flow.independent_steps.kinds import (
    Kind,
    StepKind,
    StepNumber,
    counted,
)
from lowtide.transforms.control_flow.independent_steps.rules import rule_of
from lowtide.transforms.control_flow.loops import WhileLoop

_TOTALS: Final = frozenset(
    {
        *(Opcode.ADD, Opcode.MULTIPLY, Opcode.AND, Opcode.OR, Opcode.XOR),
        *(Opcode.MAXIMUM, Opcode.MINIMUM),
    }
)
_WRITING: Final = frozenset({Opcode.DYNAMIC_UPDATE_SLICE, Opcode.SCATTER})
_DRAWN: Final = frozenset({Opcode.RNG, Opcode.RNG_GET_AND_UPDATE_STATE, Opcode.CUSTOM_CALL})
"""What may be another value each time."""


@dataclass(frozen=True, slots=True)
class IndependentLoop:
    """A loop of `count` steps that need nothing of one another.

    `kinds` has all that its body computes, operands first. By carried element, `counters` are those
    that count steps, and `places` where the slices lie that steps write; `totals` are those that
    are sums, or the like, over all steps.
    """

    loop: WhileLoop
    count: int
    kinds: Mapping[Instruction, Kind]
    counters: Mapping[int, StepNumber]
    places: Mapping[int, SlicePlace]
    totals: tuple[int, ...]
    rereads: bool
    """Whether a step reads the slice that it writes, so that it cannot be done twice."""


def independent_loop(loop: WhileLoop) -> IndependentLoop | None:
    """Return what makes a loop one of independent steps; None where a step may need another."""
    trips = trip_count(loop.instruction)
    if trips is None or trips.count < 2:
        return None
    found = _Carried.of(loop, trips.count)
    if found is None:
        return None
    kinds: dict[Instruction, Kind] = {}
    parameter, count = loop.body.parameters[0], trips.count
    ends = {found.stacks[i]: i for i in found.stacks} | {found.totals[i]: i for i in found.totals}
    places: dict[int, SlicePlace] = {}
    reads: list[tuple[int, SlicePlace]] = []
    for x in post_order(loop.body):
        if x is parameter or x is loop.body.root:
            continue
        if x.has_control_edges:
            return None
        if x.opcode is Opcode.GET_TUPLE_ELEMENT and x.operands[0] is parameter:
            kinds[x] = found.kind(element_index(x))
            continue
        operands = [kinds[y] for y in x.operands]
        if x in ends:
            index = ends[x]
            if index in found.stacks:
                place = written_place(x, kinds, count)
                if place is None or operands[0] is not StepKind.STACK:
                    return None
                places[index] = place
            if not _is_end(operands, index in found.totals) or x.users != {loop.body.root: None}:
                return None
            kinds[x] = StepKind.STACK
            continue
        if StepKind.STACK in operands or StepKind.TOTAL in operands:
            read = _read(x, operands, kinds, count)
            if read is None:
                return None
            reads.append((element_index(x.operands[0]), read))
            kinds[x] = StepKind.OWN
            continue
        kind = _kind(x, operands, kinds, count)
        if kind is None:
            return None
        kinds[x] = kind
    if any((a := places.get(i)) is None or not _same_place(a, b) for i, b in reads):
        return None
    return IndependentLoop(
        loop, count, kinds, found.counters, places, tuple(found.totals), bool(reads)
    )


def _kind(
    x: Instruction, operands: Sequence[Kind], kinds: Mapping[Instruction, Kind], count: int
) -> Kind | None:
    """What a value is from step to step, None where nobody knows how to make it for many."""
    if has_side_effect(x) or x.opcode in _DRAWN:
        return None
    if all(kind is StepKind.ALIKE for kind in operands):
        return StepKind.ALIKE
    found = counted(x, operands, count)
    if found is not None:
        return found
    rule = rule_of(x)
    if rule is None or not rule.fits(x, kinds):
        return None
    leaves = [leaf for _, leaf in x.shape.leaves()]
    if any(not y.is_array or y.is_dynamic or y is not y.with_default_layout() for y in leaves):
        return None
    return StepKind.OWN


def _is_end(operands: Sequence[Kind], is_total: bool) -> bool:
    """Whether nothing but its first operand is carried from step to step."""
    carried = [kind for kind in operands if kind in (StepKind.STACK, StepKind.TOTAL)]
    return carried == [StepKind.TOTAL if is_total else StepKind.STACK]


def _read(
    x: Instruction, operands: Sequence[Kind], kinds: Mapping[Instruction, Kind], count: int
) -> SlicePlace | None:
    """Where a step reads a stack, if it reads one slice of it."""
    if x.opcode is not Opcode.DYNAMIC_SLICE or operands[0] is not StepKind.STACK:
        return None
    if x.operands[0].opcode is not Opcode.GET_TUPLE_ELEMENT:
        return None
    return slice_place(x, x.attributes_as(DynamicSlice).sizes, 1, kinds, count)


def _same_place(a: SlicePlace, b: SlicePlace) -> bool:
    return (a.dimension, a.kind) == (b.dimension, b.kind)


@dataclass(frozen=True, slots=True)
class _Carried:
    """The carried elements: the counter, those passed on, and what steps write or add up."""

    counters: Mapping[int, StepNumber]
    invariants: frozenset[int]
    stacks: Mapping[int, Instruction]
    totals: Mapping[int, Instruction]

    @classmethod
    def of(cls, loop: WhileLoop, count: int) -> _Carried | None:
        invariants = frozenset(loop.invariants())
        stacks: dict[int, Instruction] = {}
        totals: dict[int, Instruction] = {}
        parameter = loop.body.parameters[0]
        counters: dict[int, StepNumber] = {}
        for index, x in enumerate(loop.results):
            if index in invariants:
                continue
            counter = _counter(loop, index, count)
            if counter is not None:
                counters[index] = counter
                continue
            is_own = [is_element(y, parameter, index) for y in x.operands]
            if x.opcode in _WRITING and is_own[0]:
                stacks[index] = x
            elif x.opcode in _TOTALS and any(is_own) and _is_exact(x):
                totals[index] = x
            else:
                return None
        if len({*stacks.values(), *totals.values()}) < len(stacks) + len(totals):
            return None
        return cls(counters, invariants, stacks, totals)

    def kind(self, index: int) -> Kind:
        """Return what a carried element is as the body reads it."""
        counter = self.counters.get(index)
        if counter is not None:
            return counter
        if index in self.invariants:
            return StepKind.ALIKE
        return StepKind.STACK if index in self.stacks else StepKind.TOTAL


def _counter(loop: WhileLoop, index: int, count: int) -> StepNumber | None:
    """How an element counts the steps, if it grows by the same constant in each."""
    x, first = loop.results[index], loop.starts.known(index)
    if x.opcode not in (Opcode.ADD, Opcode.SUBTRACT) or first is None or first.shape.rank:
        return None
    if not first.shape.element_type.is_integer:
        return None
    parameter = loop.body.parameters[0]
    own = [is_element(y, parameter, index) for y in x.operands]
    if sum(own) != 1 or (own[1] and x.opcode is Opcode.SUBTRACT):
        return None
    start, step = scalar_value(first), scalar_value(x.operands[own.index(False)])
    if start is None or step is None:
        return None
    found = StepNumber(int(start), int(step) if x.opcode is Opcode.ADD else -int(step))
    return found if found.fits(first.shape.element_type, count + 1) else None


def _is_exact(x: Instruction) -> bool:
    """Whether terms may be put together in any order."""
    if x.shape.rank:
        return False
    type_ = x.shape.element_type
    return type_.is_integer or type_ is ElementType.PRED
