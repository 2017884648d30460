"""Writes a pair of loops so that the second one runs the first again, segment by segment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lowtide.builder.literals import literal_of
from lowtide.ir import Computation, ElementType, Instruction, Opcode, Shape, array_shape
from lowtide.ir.attributes import Compare, Constant, Dimensions, DynamicSlice, Parameter, Reshape
from lowtide.ir.clone import CloneMap, clone_computation
from lowtide.ir.shape import tuple_shape
from lowtide.passes.call_sites import drop_unreferenced
from lowtide.passes.editing import (
    TupleElements,
    element_index,
    make,
    make_tuple,
    remove_with_operands,
    reshape_tuple,
    set_elements,
    substitute,
)
from lowtide.records import dataclass
from lowtide.transforms.control_flow.loops import add_invariants
from lowtide.transforms.memory.loop_residuals.rewrite import part_of, zero_of
from lowtide.transforms.memory.loop_residuals.stacks import Residuals, Stack, Walk
from lowtide.transforms.memory.loop_residuals.steps import STEP, make_affine

_INDEX: Final = array_shape(ElementType.S32)


@dataclass(frozen=True, slots=True)
class Segments:
    """A loop, the one loop that reads its stacks, and how they run in segments.

    `state` are the elements that steps of the first loop hand on; `length` divides the steps.
    """

    residuals: Residuals
    state: tuple[int, ...]
    length: int

    @property
    def walk(self) -> Walk:
        """The loop that stacks."""
        return self.residuals.walk

    @property
    def later(self) -> Walk:
        """The loop that reads."""
        return self.residuals.readers[0].walk

    @property
    def count(self) -> int:
        """How many segments there are."""
        return self.walk.steps // self.length

    def stacked_bytes(self) -> int:
        """Return what the stacks take without segments."""
        return self.walk.steps * sum([x.update.shape.nbytes for x in self.residuals.stacks])

    def held_bytes(self) -> int:
        """Return what is held with segments: states of all, and stacks of one."""
        state = sum([self.walk.loop.shapes[i].nbytes for i in self.state])
        return (self.count + 1) * state + self.length * self.stacked_bytes() // self.walk.steps

    def slots(self, stack: Stack) -> int:
        """Return how many slots a stack has for one segment."""
        return self.length + (stack.start is not None)


def run_in_segments(segments: Segments) -> None:
    """Let the second loop run the first once more; the first keeps its stacks, with no readers."""
    loop, later = segments.walk.loop, segments.later.loop
    outside = loop.instruction.parent
    mapping = CloneMap()
    bodies = [clone_computation(x.body, outside.module, mapping=mapping) for x in (loop, later)]
    outer = _Outer(segments, mapping, _snapshots(segments))
    body = outer.body(*bodies)
    like = later.instruction
    start = make_tuple(outside, [_number(outside, 0, like), *outer.starts], like)
    made = _while(start, segments.count, body, 0)
    results = TupleElements(made)
    for x in list(like.users):
        substitute(x, results[outer.places[element_index(x)]])
        outside.remove(x)
    remove_with_operands(like)
    drop_unreferenced(outside.module, like.called_computations)


def _number(parent: Computation, value: int, like: Instruction) -> Instruction:
    attributes = Constant(literal_of(value, _INDEX.element_type))
    return make(parent, Opcode.CONSTANT, _INDEX, (), like, attributes)


def _while(start: Instruction, steps: int, body: Computation, counter: int) -> Instruction:
    """A loop that runs while its element `counter` is below a number of steps."""
    condition = body.module.add_computation("condition")
    parameter = condition.add(Opcode.PARAMETER, start.shape, (), Parameter(0))
    count = TupleElements(parameter)[counter]
    limit = _number(condition, steps, count)
    truth = array_shape(ElementType.PRED)
    attributes = Compare("LT", "SIGNED")
    condition.root = condition.add(Opcode.COMPARE, truth, (count, limit), attributes)
    parent = start.parent
    made = parent.add(Opcode.WHILE, start.shape, (start,), called_computations=(condition, body))
    made.set_metadata(start.raw_metadata)
    return made


def _counted(body: Computation, shape: Shape) -> Instruction:
    """Give a body one more element, the last one of `shape`, which counts; return it."""
    reshape_tuple(body.parameters[0], shape)
    count = TupleElements(body.parameters[0])[len(shape.tuple_shapes) - 1]
    one = _number(body, 1, count)
    following = make(body, Opcode.ADD, _INDEX, (count, one), count)
    set_elements(body.root, [*body.root.operands, following])
    return count


def _in_type_of(x: Instruction, count: Instruction) -> Instruction:
    """A count in the type of another whole number."""
    if count.shape is x.shape:
        return count
    return make(count.parent, Opcode.CONVERT, x.shape, (count,), count)


def _snapshots(segments: Segments) -> list[Instruction]:
    """Stack what each segment starts with; return the stacks behind the loop.

    Step k writes to the slot of the segment that starts with it, or with the next step that does.
    """
    walk, length = segments.walk, segments.length
    loop = walk.loop
    outside, body = loop.instruction.parent, loop.body
    empty = []
    for i in segments.state:
        shape = array_shape(
            loop.shapes[i].element_type, (segments.count + 1, *loop.shapes[i].dimensions)
        )
        empty.append(_empty(outside, shape, loop.instruction))
    first = len(loop.shapes)
    elements = TupleElements(body.parameters[0])
    values = [elements[i] for i in segments.state]
    made = add_invariants(loop, empty)
    step = make_affine(STEP, _INDEX, walk.affines)
    raised = make(body, Opcode.ADD, _INDEX, (step, _number(body, length - 1, step)), step)
    slot = make(body, Opcode.DIVIDE, _INDEX, (raised, _number(body, length, step)), step)
    for number, (x, into) in enumerate(zip(values, made, strict=True), first):
        written = _written(into, x, slot)
        body.root.replace_operand(number, written)
    results = TupleElements(loop.instruction)
    return [results[first + i] for i in range(len(values))]


def _empty(parent: Computation, shape: Shape, like: Instruction) -> Instruction:
    nothing = zero_of(parent, shape.element_type, like)
    return make(parent, Opcode.BROADCAST, shape, (nothing,), like, Dimensions(()))


def _written(into: Instruction, value: Instruction, slot: Instruction) -> Instruction:
    """A stack along dimension 0 with a value in a slot."""
    body, part = into.parent, part_of(value.shape)
    update = make(body, Opcode.RESHAPE, part, (value,), value, Reshape())
    none = _number(body, 0, slot)
    starts = (slot, *[none] * (part.rank - 1))
    return make(body, Opcode.DYNAMIC_UPDATE_SLICE, into.shape, (into, update, *starts), value)


class _Outer:
    """The loop from segment to segment: where its elements are, and its body.

    `places` has the elements of the second loop, `starts` what all but the first, a counter, start
    with.
    """

    def __init__(
        self, segments: Segments, mapping: CloneMap, snapshots: Sequence[Instruction]
    ) -> None:
        self._segments = segments
        self._mapping = mapping
        loop, later = segments.walk.loop, segments.later.loop
        self._stacks = {x.element: x for x in segments.residuals.stacks}
        self._read = {
            i: self._stacks[element_index(x)]
            for x, i in segments.later.carried.items()
            if x.opcode is Opcode.GET_TUPLE_ELEMENT
            and x.operands[0] is loop.instruction
            and element_index(x) in self._stacks
        }
        self.starts: list[Instruction] = []
        self.places: dict[int, int] = {}
        known: dict[Instruction, int] = {}
        carried = set(segments.later.carried.values())
        for i in range(len(later.shapes)):
            if i in self._read:
                continue
            start = later.starts[i]
            self.places[i] = self._add(start)
            if i in carried:
                known[start] = self.places[i]
        self._invariants: dict[int, int] = {}
        for i in loop.invariants():
            start = loop.starts[i]
            if start not in known:
                known[start] = self._add(start)
            self._invariants[i] = known[start]
        self._snapshots = {i: self._add(x) for i, x in zip(segments.state, snapshots, strict=True)}

    def _add(self, start: Instruction) -> int:
        self.starts.append(start)
        return len(self.starts)

    def body(self, first: Computation, second: Computation) -> Computation:
        """Return the body: a segment of the first loop, then one of the second."""
        made = first.module.add_computation("segment")
        shape = tuple_shape([_INDEX, *[x.shape for x in self.starts]])
        parameter = made.add(Opcode.PARAMETER, shape, (), Parameter(0))
        elements = TupleElements(parameter)
        count = elements[0]
        last = _number(made, self._segments.count - 1, count)
        number = make(made, Opcode.SUBTRACT, _INDEX, (last, count), count)
        stacked = self._run_first(first, elements, number)
        results = TupleElements(self._run_second(second, elements, TupleElements(stacked), count))
        following = make(made, Opcode.ADD, _INDEX, (count, _number(made, 1, count)), count)
        ends = {place: results[i] for i, place in self.places.items()}
        rest = range(1, len(self.starts) + 1)
        made.root = make_tuple(
            made, [following, *[ends[i] if i in ends else elements[i] for i in rest]], count
        )
        return made

    # -- the first loop ------------------------------------------------------------------------

    def _run_first(
        self, body: Computation, elements: TupleElements, number: Instruction
    ) -> Instruction:
        parent = number.parent
        shapes = body.parameters[0].shape.tuple_shapes
        starts = [self._start(i, x, elements, number) for i, x in enumerate(shapes)]
        start = make_tuple(parent, [*starts, _number(parent, 0, number)], number)
        count = _counted(body, start.shape)
        reads = {element_index(x): x for x in body.parameters[0].users}
        for i, stack in self._stacks.items():
            write = body.root.operands[i]
            reads[i].set_shape(start.shape.tuple_shapes[i])
            write.set_shape(start.shape.tuple_shapes[i])
            slot = count
            if stack.start is not None:
                slot = make(body, Opcode.ADD, _INDEX, (count, _number(body, 1, count)), count)
            index = 2 + stack.dimension
            write.replace_operand(index, _in_type_of(write.operands[index], slot))
        set_elements(body.root, list(body.root.operands))
        return _while(start, self._segments.length, body, len(shapes))

    def _start(
        self, i: int, shape: Shape, elements: TupleElements, number: Instruction
    ) -> Instruction:
        """What an element of the first loop starts a segment with."""
        parent = number.parent
        if i in self._stacks:
            return self._new_stack(self._stacks[i], elements, number)
        if i in self._invariants:
            return elements[self._invariants[i]]
        if i in self._snapshots:
            return self._state(i, elements, number)
        for x in self._segments.walk.reads.get(i, []):
            value = self._segments.walk.affines.get(x)
            if value is not None:
                factor = _number(parent, value.scale * self._segments.length, number)
                scaled = make(parent, Opcode.MULTIPLY, _INDEX, (number, factor), number)
                offset = _number(parent, value.offset, number)
                count = make(parent, Opcode.ADD, _INDEX, (scaled, offset), number)
                return _in_type_of(x, count)
        return _empty(parent, shape, number)

    def _state(self, i: int, elements: TupleElements, number: Instruction) -> Instruction:
        """What a segment starts with."""
        snapshot = elements[self._snapshots[i]]
        shape = self._segments.walk.loop.shapes[i]
        part, parent = part_of(shape), number.parent
        none = _number(parent, 0, number)
        operands = (snapshot, number, *[none] * (part.rank - 1))
        attributes = DynamicSlice(part.dimensions)
        slice_ = make(parent, Opcode.DYNAMIC_SLICE, part, operands, number, attributes)
        return make(parent, Opcode.RESHAPE, shape, (slice_,), number, Reshape())

    def _new_stack(self, stack: Stack, elements: TupleElements, number: Instruction) -> Instruction:
        """A stack for one segment; before its first step it may have what that starts with."""
        parent, part = number.parent, stack.update.shape
        sizes = list(part.dimensions)
        sizes[stack.dimension] = self._segments.slots(stack)
        empty = _empty(parent, array_shape(part.element_type, tuple(sizes)), number)
        if stack.start is None:
            return empty
        state = self._state(element_index(stack.start), elements, number)
        update = make(parent, Opcode.RESHAPE, part, (state,), number, Reshape())
        none = _number(parent, 0, number)
        operands = (empty, update, *[none] * part.rank)
        return make(parent, Opcode.DYNAMIC_UPDATE_SLICE, empty.shape, operands, number)

    # -- the second loop -----------------------------------------------------------------------

    def _run_second(
        self, body: Computation, elements: TupleElements, stacked: TupleElements, like: Instruction
    ) -> Instruction:
        parent = like.parent
        starts = [
            stacked[self._read[i].element] if i in self._read else elements[self.places[i]]
            for i in range(len(body.parameters[0].shape.tuple_shapes))
        ]
        start = make_tuple(parent, [*starts, _number(parent, 0, like)], like)
        shapes = start.shape.tuple_shapes
        for x in body.parameters[0].users:
            x.set_shape(shapes[element_index(x)])
        count = _counted(body, start.shape)
        for read in self._segments.residuals.readers[0].reads:
            x = self._mapping.instructions[read.slice]
            is_later = read.stack.start is not None and read.value is not read.stack.start
            last = _number(body, self._segments.length - 1 + is_later, count)
            slot = make(body, Opcode.SUBTRACT, _INDEX, (last, count), count)
            index = 1 + read.stack.dimension
            x.replace_operand(index, _in_type_of(x.operands[index], slot))
        return _while(start, self._segments.length, body, len(starts))
