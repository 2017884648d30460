"""Stacks that a loop writes step by step, and the places where later loops read them.

A stack is a carried array. Step k writes one slice to it, in a slot that is an affine function of
k. A later loop that is given the array slices it at such a function, too. So its own step j reads
what was written in a step that is an affine function of j: most often the steps in reverse.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from lowtide.analysis.loop_trip_count import trip_count
from lowtide.ir import Instruction, Opcode, Shape
from lowtide.ir.attributes import Pad
from lowtide.passes.editing import element_index, is_element, read_elements
from lowtide.passes.matching import is_all
from lowtide.records import dataclass
from lowtide.transforms.control_flow.loops import WhileLoop
from lowtide.transforms.memory.loop_residuals.steps import (
    Affines,
    StepAffine,
    affine_values,
    has_unit_scale,
)


@dataclass(frozen=True, slots=True)
class Walk:
    """A loop of a known number of steps, 2 or more, and what its body counts and reads.

    `reads` has what in condition and body is an element, by element; `carried` the elements that
    each step passes on, by what they are before the loop; `passed` those of them that no one reads
    after the loop.
    """

    loop: WhileLoop
    steps: int
    affines: Affines
    reads: Mapping[int, list[Instruction]]
    carried: Mapping[Instruction, int]
    passed: frozenset[int]

    @classmethod
    def of(cls, loop: WhileLoop) -> Walk | None:
        """Return the walk of a loop; None where nobody knows how long it runs."""
        found = trip_count(loop.instruction)
        if found is None or found.count < 2:
            return None
        starts, invariants = loop.starts, loop.invariants()
        known = [(starts.known(i), i) for i in reversed(invariants)]
        return cls(
            loop,
            found.count,
            affine_values(loop, found.count),
            loop.all_read_inside(),
            {x: i for x, i in known if x is not None},
            _only_passed_on(loop, invariants),
        )

    @property
    def can_count(self) -> bool:
        """Whether a scalar of the body follows the steps one by one."""
        return any(has_unit_scale(x) for x in self.affines.values())


def _only_passed_on(loop: WhileLoop, invariants: Sequence[int]) -> frozenset[int]:
    """The elements that no step uses as another element, and nobody reads after the loop."""
    after = read_elements(loop.instruction)
    if after is None:
        return frozenset()
    parameter = loop.body.parameters[0]
    moved = {
        element_index(x)
        for i, x in enumerate(loop.results)
        if x.opcode is Opcode.GET_TUPLE_ELEMENT
        and x.operands[0] is parameter
        and element_index(x) != i
    }
    return frozenset([i for i in invariants if i not in after and i not in moved])


@dataclass(frozen=True, slots=True)
class Stack:
    """Element `element` of a loop, to which step k writes `update` in slot `slot(k)`.

    The slots lie along `dimension`, in which `update` has size 1; its other sizes are those of the
    element. Where what is stacked is the end of a carried element, and the slot before that of step
    0 has what the element starts with, `start` is the element as the body reads it: what step k
    starts with is in slot `slot(k - 1)`.
    """

    element: int
    update: Instruction
    dimension: int
    slot: StepAffine
    start: Instruction | None

    @property
    def values(self) -> tuple[Instruction, ...]:
        """What is stacked, in the shapes that it had before it got that of a slice, and in that."""
        found = [self.update]
        while found[-1].opcode is Opcode.RESHAPE:
            found.append(found[-1].operands[0])
        return tuple(found)


@dataclass(frozen=True, slots=True)
class StackRead:
    """A slice of a stack that step j of a later loop takes: `value` as of step `source(j)`."""

    stack: Stack
    slice: Instruction
    source: StepAffine
    value: Instruction


@dataclass(frozen=True, slots=True)
class StackReader:
    """A later loop, and all it reads of the stacks of an earlier one."""

    walk: Walk
    reads: tuple[StackRead, ...]


@dataclass(frozen=True, slots=True)
class Residuals:
    """What later loops read of the stacks of a loop, slice by slice.

    Nothing else is done with `stacks`; something else is with `kept`, which all readers carry, and
    with `others`, which they do not.
    """

    walk: Walk
    stacks: tuple[Stack, ...]
    kept: tuple[Stack, ...]
    others: tuple[Stack, ...]
    readers: tuple[StackReader, ...]


def residuals_of(walk: Walk, walks: Mapping[Instruction, Walk]) -> Residuals | None:
    """Return what a loop stacks for others; None where there is nothing.

    `walks` has the loops that may read it, by instruction.
    """
    sources = read_elements(walk.loop.instruction)
    if sources is None or not walk.can_count:
        return None
    reads: dict[Instruction, list[StackRead]] = {}
    stacks: list[Stack] = []
    others: list[Stack] = []
    for stack in _stacks(walk):
        found = _reads(stack, walk, sources.get(stack.element, []), walks)
        (stacks if found else others).append(stack)
        for loop, read in found:
            reads.setdefault(loop, []).append(read)
    if not stacks:
        return None
    readers = tuple([StackReader(walks[x], tuple(found)) for x, found in reads.items()])
    kept = [x for x in others if _is_carried(sources.get(x.element, []), readers)]
    rest = [x for x in others if x not in kept]
    return Residuals(walk, tuple(stacks), tuple(kept), tuple(rest), readers)


def _is_carried(sources: Sequence[Instruction], readers: Sequence[StackReader]) -> bool:
    return all(any(x in reader.walk.carried for x in sources) for reader in readers)


def _stacks(walk: Walk) -> Iterator[Stack]:
    loop = walk.loop
    root, parameter = loop.body.root, loop.body.parameters[0]
    starts_of_ends = _StartsOfEnds(walk)
    for index, x in enumerate(loop.results):
        if x.opcode is not Opcode.DYNAMIC_UPDATE_SLICE or x.has_control_edges:
            continue
        base, update, *starts = x.operands
        if walk.reads.get(index) != [base] or list(base.users) != [x] or list(x.users) != [root]:
            continue
        if base is update or not is_element(base, parameter, index):
            continue
        dimension = _sliced_dimension(base.shape, update.shape)
        slot = None if dimension is None else walk.affines.get(starts[dimension])
        if dimension is None or slot is None or not slot.scale:
            continue
        if slot.stays_within(0, base.shape.dimensions[dimension] - 1, walk.steps):
            stack = Stack(index, update, dimension, slot, None)
            yield replace(stack, start=starts_of_ends.find(stack))


class _StartsOfEnds:
    """Finds the stacks that have, before what steps end with, what the first one starts with."""

    def __init__(self, walk: Walk) -> None:
        self._walk = walk
        self._starts = walk.loop.starts
        self._elements: dict[Instruction, int] = {}
        for index, x in enumerate(walk.loop.results):
            self._elements.setdefault(x, index)

    def find(self, stack: Stack) -> Instruction | None:
        """Return the carried element of which a stack has all values, or None."""
        before = self._starts.known(stack.element)
        first = _first_slice(before, stack.update.shape) if before is not None else None
        if first is None or stack.slot(-1):
            return None
        for x in stack.values:
            index = self._elements.get(x, stack.element)
            start = self._starts.known(index)
            if start is not None and _unshaped(start) is _unshaped(first):
                reads = [y for y in self._walk.reads.get(index, []) if y.parent is x.parent]
                return reads[0] if reads else None
        return None


def _first_slice(x: Instruction, part: Shape) -> Instruction | None:
    """What lies in the first slot of a new stack: it was padded, or written there."""
    if x.opcode is Opcode.PAD:
        sides = x.attributes_as(Pad).dimensions
        source = x.operands[0]
        at_front = not any(side.low or side.interior for side in sides)
    elif x.opcode is Opcode.DYNAMIC_UPDATE_SLICE:
        source = x.operands[1]
        at_front = all(is_all(y, 0) for y in x.operands[2:])
    else:
        return None
    return source if at_front and source.shape is part else None


def _unshaped(x: Instruction) -> Instruction:
    while x.opcode is Opcode.RESHAPE:
        x = x.operands[0]
    return x


def _sliced_dimension(whole: Shape, part: Shape) -> int | None:
    """The one dimension in which a slice is smaller, if it has size 1 there."""
    pairs = zip(whole.dimensions, part.dimensions, strict=True)
    found = [i for i, (n, m) in enumerate(pairs) if n != m]
    return found[0] if len(found) == 1 and part.dimensions[found[0]] == 1 else None


def _reads(
    stack: Stack, walk: Walk, sources: Sequence[Instruction], walks: Mapping[Instruction, Walk]
) -> list[tuple[Instruction, StackRead]]:
    """All slices that loops take of a stack; nothing where anything else is done with it."""
    found: list[tuple[Instruction, StackRead]] = []
    for source in sources:
        for start in source.users:
            loop = _started_by(start, walks)
            if loop is None or source.is_root:
                return []
            elements = [i for i, x in enumerate(start.operands) if x is source]
            slices = _slices_of(walks[loop], elements)
            reads = [_read(stack, walk, walks[loop], x) for x in slices or ()]
            if not reads or None in reads:
                return []
            found += [(loop, x) for x in reads if x is not None]
    return found


def _started_by(start: Instruction, walks: Mapping[Instruction, Walk]) -> Instruction | None:
    """The loop, one of `walks`, for which a tuple is made, and for nothing else."""
    if start.opcode is not Opcode.TUPLE or start.is_root or len(start.users) != 1:
        return None
    loop = next(iter(start.users))
    return loop if loop in walks else None


def _slices_of(walk: Walk, elements: Sequence[int]) -> list[Instruction] | None:
    """The dynamic slices that are all a loop does with elements, besides passing them on."""
    loop = walk.loop
    found = []
    if not walk.passed.issuperset(elements):
        return None
    for index in elements:
        for x in walk.reads.get(index, []):
            if x.parent is not loop.body:
                return None
            for user in x.users:
                if user is loop.body.root:
                    continue
                if user.opcode is not Opcode.DYNAMIC_SLICE or user.has_control_edges:
                    return None
                found.append(user)
    return found


def _read(stack: Stack, walk: Walk, later: Walk, x: Instruction) -> StackRead | None:
    """The read that a slice of a stack is, if it is what one step wrote."""
    dimension = stack.dimension
    slot = later.affines.get(x.operands[1 + dimension])
    if slot is None or not later.can_count or x.shape is not stack.update.shape:
        return None
    extent = x.operands[0].shape.dimensions[dimension]
    if not slot.stays_within(0, extent - 1, later.steps):
        return None
    source = _step_of(stack.slot, slot)
    if source is None:
        return None
    if source.stays_within(0, walk.steps - 1, later.steps):
        return StackRead(stack, x, source, stack.update)
    following = StepAffine(source.scale, source.offset + 1)
    if stack.start is None or not following.stays_within(0, walk.steps - 1, later.steps):
        return None
    return StackRead(stack, x, following, stack.start)


def _step_of(written: StepAffine, read: StepAffine) -> StepAffine | None:
    """The step that wrote, to slot `written` of it, what a step reads at `read` of it."""
    scale, rest = divmod(read.scale, written.scale)
    offset, other_rest = divmod(read.offset - written.offset, written.scale)
    return None if rest or other_rest else StepAffine(scale, offset)
