"""Makes loops stack what was chosen, and later loops compute the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from lowtide.builder.literals import literal_of
from lowtide.ir import Computation, ElementType, Instruction, Opcode, Shape, array_shape
from lowtide.ir.attributes import Constant, Dimensions, DynamicSlice, Reshape
from lowtide.ir.clone import CloneMap, clone_computation
from lowtide.ir.literal import DTYPES
from lowtide.ir.opcode import CONTROL_FLOW
from lowtide.passes.dead_code import sweep
from lowtide.passes.editing import TupleElements, element_index, make, substitute
from lowtide.records import dataclass
from lowtide.transforms.control_flow.loops import add_invariants
from lowtide.transforms.memory.loop_residuals.choice import ResidualChoice
from lowtide.transforms.memory.loop_residuals.matches import Matches, ResidualUse, reads_by_source
from lowtide.transforms.memory.loop_residuals.stacks import Residuals, StackRead, StackReader, Walk
from lowtide.transforms.memory.loop_residuals.steps import STEP, StepAffine, make_affine

_INDEX: Final = array_shape(ElementType.S32)
_FIRST: Final = StepAffine(0, 0)


@dataclass(frozen=True, slots=True)
class ResidualPlace:
    """Where a value lies: what step k has is slot `slot(k)` of an element of the loop."""

    element: int
    dimension: int
    slot: StepAffine
    part: Shape


def rewrite(residuals: Residuals, matches: Sequence[Matches], choice: ResidualChoice) -> int:
    """Stack what is chosen and compute the rest where it is read; return how many stacks end.

    `matches` has what each reader needs. The stacks that end have no readers then; the loop still
    carries them.
    """
    places = _stack(residuals, choice)
    for reader, found in zip(residuals.readers, matches, strict=True):
        _use(residuals, choice, places, reader, found.uses)
    used = {x.element for x in places.values()}
    return sum([x.element not in used for x in residuals.stacks])


# -- the loop that stacks ----------------------------------------------------------------------


def _stack(residuals: Residuals, choice: ResidualChoice) -> dict[Instruction, ResidualPlace]:
    """Return where the chosen values lie: in the stacks that there are, or in new ones."""
    walk = residuals.walk
    loop = walk.loop
    present = (*residuals.stacks, *residuals.kept)
    known = {y: x for x in present for y in x.values}
    with_start = {x.start: x for x in residuals.stacks if x.start is not None}
    starts_of_ends = set(choice.ends.values())
    places: dict[Instruction, ResidualPlace] = {}
    new = []
    for x in choice.stacked:
        stack = with_start.get(x) if x in starts_of_ends else known.get(x)
        if stack is None:
            new.append(x)
            continue
        slot = stack.slot
        if x in starts_of_ends:
            slot = StepAffine(slot.scale, slot(-1))
        places[x] = ResidualPlace(stack.element, stack.dimension, slot, stack.update.shape)
    empty = [_empty(walk, x, with_start=x in starts_of_ends) for x in new]
    first = len(loop.shapes)
    stacks = add_invariants(loop, empty)
    for number, (x, into) in enumerate(zip(new, stacks, strict=True), first):
        ends = x in starts_of_ends
        value = loop.results[element_index(x)] if ends else x
        made = _written(into, value, StepAffine(1, 1) if ends else STEP, walk)
        loop.body.root.replace_operand(number, made)
        places[x] = ResidualPlace(number, 0, STEP, part_of(x.shape))
    return places


def _written(into: Instruction, value: Instruction, slot: StepAffine, walk: Walk) -> Instruction:
    """A stack with a value in a slot."""
    body, part = walk.loop.body, part_of(value.shape)
    update = make(body, Opcode.RESHAPE, part, (value,), value, Reshape())
    operands = (into, update, *_starts(slot, part, walk))
    return make(body, Opcode.DYNAMIC_UPDATE_SLICE, into.shape, operands, value)


def _empty(walk: Walk, x: Instruction, *, with_start: bool) -> Instruction:
    """A stack before the first step; its first slot is what the loop starts with, or not set."""
    outside = walk.loop.instruction.parent
    slots = walk.steps + with_start
    shape = array_shape(x.shape.element_type, (slots, *x.shape.dimensions))
    none = zero_of(outside, x.shape.element_type, x)
    empty = make(outside, Opcode.BROADCAST, shape, (none,), x, Dimensions(()))
    if not with_start:
        return empty
    start = walk.loop.starts[element_index(x)]
    part = part_of(x.shape)
    update = make(outside, Opcode.RESHAPE, part, (start,), start, Reshape())
    zero = zero_of(outside, _INDEX.element_type, x)
    operands = (empty, update, *[zero] * shape.rank)
    return make(outside, Opcode.DYNAMIC_UPDATE_SLICE, shape, operands, start)


def zero_of(parent: Computation, element_type: ElementType, like: Instruction) -> Instruction:
    """Return a new constant 0."""
    attributes = Constant(literal_of(np.zeros((), DTYPES[element_type]), element_type))
    return make(parent, Opcode.CONSTANT, array_shape(element_type), (), like, attributes)


def part_of(shape: Shape) -> Shape:
    """Return the shape of one slot of a stack."""
    return array_shape(shape.element_type, (1, *shape.dimensions))


def _starts(slot: StepAffine, part: Shape, walk: Walk, dimension: int = 0) -> list[Instruction]:
    """Where a slot begins, for each dimension of its stack."""
    wanted = [slot if i == dimension else _FIRST for i in range(part.rank)]
    return [make_affine(x, _INDEX, walk.affines) for x in wanted]


# -- the loops that read -----------------------------------------------------------------------


def _use(
    residuals: Residuals,
    choice: ResidualChoice,
    places: Mapping[Instruction, ResidualPlace],
    reader: StackReader,
    uses: Sequence[ResidualUse],
) -> None:
    """Make a later loop use the values that are stacked, or follow from those."""
    inside = _carried_in(residuals, choice, places, reader.walk)
    for source, reads in reads_by_source(reader).items():
        known = {x.value: _in_shape_of(x.value, x.slice) for x in reads if _stays(x, places)}
        values = _Values(residuals, places, reader.walk, inside, source)
        made = values.computed(choice, known)
        for use in uses:
            if use.source == source and made[use.value] is not use.inside:
                substitute(use.inside, _in_shape_of(use.inside, made[use.value]))
    sweep(reader.walk.loop.body)


def _in_shape_of(x: Instruction, value: Instruction) -> Instruction:
    """A value of a later loop in the shape of an equal one of any loop."""
    if value.shape is x.shape:
        return value
    return make(value.parent, Opcode.RESHAPE, x.shape, (value,), value, Reshape())


def _stays(read: StackRead, places: Mapping[Instruction, ResidualPlace]) -> bool:
    """Whether a slice is read, as what it is, from a stack that stays."""
    place = places.get(read.value)
    return place is not None and place.element == read.stack.element


def _carried_in(
    residuals: Residuals,
    choice: ResidualChoice,
    places: Mapping[Instruction, ResidualPlace],
    later: Walk,
) -> dict[Instruction, Instruction]:
    """What the body of a later loop reads for invariants, and for the stacks of values."""
    loop = residuals.walk.loop
    starts, results = loop.starts, TupleElements(loop.instruction)
    outside = {x: starts[element_index(x)] for x in choice.invariants}
    outside |= {x: results[place.element] for x, place in places.items()}
    missing = [x for x in dict.fromkeys(outside.values()) if x not in later.carried]
    made = dict(zip(missing, add_invariants(later.loop, missing), strict=True))
    elements = TupleElements(later.loop.body.parameters[0])
    return {x: made[y] if y in made else elements[later.carried[y]] for x, y in outside.items()}


class _Values:
    """What a step of a later loop has of a step, `source` of it, of the loop before."""

    def __init__(
        self,
        residuals: Residuals,
        places: Mapping[Instruction, ResidualPlace],
        later: Walk,
        inside: Mapping[Instruction, Instruction],
        source: StepAffine,
    ) -> None:
        self._earlier = residuals.walk.affines
        self._places = places
        self._later = later
        self._inside = inside
        self._source = source

    def computed(
        self, choice: ResidualChoice, known: Mapping[Instruction, Instruction]
    ) -> dict[Instruction, Instruction]:
        """Return all chosen values, those in `known` as they are, and what follows from them."""
        values = dict(known)
        for x in choice.stacked:
            if x not in values:
                values[x] = self._slice(x, 0)
        for x, start in choice.ends.items():
            values[x] = self._slice(start, self._places[start].slot.scale)
        for x in choice.invariants:
            values[x] = self._inside[x]
        for x in choice.repeated:
            operands = tuple([values[y] if y in values else self._count(y) for y in x.operands])
            values[x] = _copy(x, operands, self._later.loop.body)
        return values

    def _count(self, x: Instruction) -> Instruction:
        return make_affine(self._earlier[x].of(self._source), x.shape, self._later.affines)

    def _slice(self, x: Instruction, further: int) -> Instruction:
        """The value that lies so many slots further than a stacked one."""
        place, stack = self._places[x], self._inside[x]
        slot = place.slot.of(self._source)
        slot = StepAffine(slot.scale, slot.offset + further)
        starts = _starts(slot, place.part, self._later, place.dimension)
        parent, attributes = self._later.loop.body, DynamicSlice(place.part.dimensions)
        operands = (stack, *starts)
        part = make(parent, Opcode.DYNAMIC_SLICE, place.part, operands, x, attributes)
        return _in_shape_of(x, part)


def _copy(x: Instruction, operands: tuple[Instruction, ...], parent: Computation) -> Instruction:
    called = x.called_computations
    if x.opcode in CONTROL_FLOW:
        copies = CloneMap()
        called = tuple([clone_computation(c, parent.module, mapping=copies) for c in called])
    return parent.add_like(x, operands, called_computations=called)
