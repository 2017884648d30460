"""Reductions that threads make together: each takes some of the values, then they meet.

In place of the rule of `reduce`, in which one thread runs over all values.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import field
from math import prod

from lowtide.codegen.arrays import strides
from lowtide.codegen.elements.elements import ElementRule, Elements
from lowtide.codegen.elements.loops import level_of
from lowtide.codegen.elements.parts import all_of, ask
from lowtide.codegen.elements.reducers import Reducer, carried, neutral, renamed
from lowtide.codegen.elements.table import rule_of
from lowtide.codegen.elements.values import Element, Request, Rule
from lowtide.codegen.gpu.threads import WARP, SharedArray, barrier, exchanged, warp_barrier
from lowtide.codegen.indexing import Affine
from lowtide.codegen.space import decomposed, lane_variable
from lowtide.codegen.value import Value, register_type
from lowtide.ir import Instruction, Opcode
from lowtide.ir.attributes import Dimensions
from lowtide.llvm.function import Function, Integer
from lowtide.ops.choices import chooses_in_order
from lowtide.records import dataclass

Values = Generator[Request, Element, list[Value]]
"""Asks for elements, and returns values that are made of them."""


@dataclass(frozen=True, eq=False, slots=True)
class RowStep:
    """Values of a row that a thread has: their index along it, and an i1 that says if there are.

    Beyond the end of the row the index is that of the last ones. `is_there` is "" for always.
    """

    at: tuple[Affine, ...]
    is_there: str

    def value(self, elements: Elements, value: Value, nothing: Value) -> Value:
        """Return a value of this step where there is one, else what changes no sum."""
        if not self.is_there:
            return value
        fn, (like, other) = elements.function, elements.vectors.same_lanes([value, nothing])
        names = [
            fn.select(self.is_there, like.llvm_type, a, b)
            for a, b in zip(like.names, other.names, strict=True)
        ]
        return Value(tuple(names), like.type, like.lanes)


@dataclass(eq=False, slots=True)
class Team:
    """The threads that make a sum: `warps` whole warps of a block.

    `member` is the number of the thread in the team, an i64. A team of several warps is a block,
    all of which runs what they write. `shared` are the arrays in which they meet, and `held` are,
    for rows of some sizes, all steps of a thread: what is computed of their values is kept.
    """

    warps: int
    member: str
    shared: list[SharedArray] = field(default_factory=list)
    held: dict[tuple[int, ...], list[RowStep]] = field(default_factory=dict)

    @property
    def threads(self) -> int:
        """How many threads there are, 1 for no warps."""
        return max(self.warps * WARP, 1)

    def meet(self, fn: Function) -> None:
        """Wait for all of the team; what they loaded before is not changed by what follows."""
        if self.warps == 1:
            warp_barrier(fn)
        elif self.warps:
            barrier(fn)

    def hold(self, elements: Elements, extents: Sequence[int]) -> None:
        """Have rows of some sizes in steps that are written out, from this place on."""
        count = prod(extents) // run_of(elements, extents)
        steps = []
        for first in range(0, count, self.threads):
            number, is_there = elements.function.add(self.member if self.warps else 0, first), ""
            if first + self.threads > count:
                is_there = elements.function.compare("slt", number, count)
                number = elements.function.min(number, count - 1)
            steps.append(RowStep(tuple(place_in_row(elements, number, extents)), is_there))
        self.held[tuple(extents)] = steps

    def rule_of(self, instruction: Instruction) -> ElementRule:
        """Return the rule of an instruction, for all threads of the team at once."""
        return self._reduce if instruction.opcode is Opcode.REDUCE else rule_of(instruction)

    def _reduce(self, elements: Elements, request: Request) -> Rule:
        instruction = request.instruction
        count = len(instruction.operands) // 2
        reducer = Reducer.of(instruction.called_computations[0])
        place = elements.scopes.placed(level_of(request))
        made = self._chosen if reducer.opcode is None else self._summed
        with elements.scopes.at_level(place):
            together = yield from made(elements, request, reducer)
            initial = yield from all_of([ask(request, count + x, ()) for x in range(count)])
            start = [x.values[0] for x in reducer.taken(elements, initial)]
            results = reducer.finished(elements, reducer.combined(elements, start, together))
        return Element(tuple(results), place)

    def _summed(self, elements: Elements, request: Request, reducer: Reducer) -> Values:
        """The sum of all values, of which threads take turns."""
        extents = _extents(request.instruction)
        run = run_of(elements, extents)
        nothing = neutral_lanes(elements, reducer, run)
        totals, steps = [nothing], self.held.get(extents)
        for step in steps or ():
            (value,) = yield from _taken(elements, request, reducer, step.at)
            value, _ = elements.vectors.same_lanes([value, nothing])
            totals = reducer.combined(elements, totals, [step.value(elements, value, nothing)])
        if steps is None:
            count = prod(extents) // run
            loops = elements.scopes.loop(self.member, count, self.threads, carried(totals))
            with loops as loop:
                at = place_in_row(elements, loop.index, extents)
                values = yield from _taken(elements, request, reducer, at)
                after = reducer.combined(elements, renamed(totals, loop.values), values)
                loop.next = [name for value in after for name in value.names]
            totals = renamed(totals, loop.results)
        return self.met(elements, reducer, folded(elements, reducer, totals))

    def _chosen(self, elements: Elements, request: Request, reducer: Reducer) -> Values:
        """The choice among all values, of which each thread has some that follow each other.

        Beyond the end they are the last ones once more, which changes no choice.
        """
        fn, extents = elements.function, _extents(request.instruction)
        count = prod(extents) // run_of(elements, extents)
        several = -(-count // self.threads)
        first = fn.mul(self.member, several)

        def values(step: Integer) -> Values:
            at = place_in_row(elements, fn.min(fn.add(first, step), count - 1), extents)
            found = yield from _taken(elements, request, reducer, at)
            return folded(elements, reducer, found)

        totals = yield from values(0)
        if several > 1:
            with elements.scopes.loop(1, several, 1, carried(totals)) as loop:
                found = yield from values(loop.index)
                after = reducer.combined(elements, renamed(totals, loop.values), found)
                loop.next = [name for value in after for name in value.names]
            totals = renamed(totals, loop.results)
        return self.met(elements, reducer, totals)

    def met(self, elements: Elements, reducer: Reducer, own: Sequence[Value]) -> list[Value]:
        """Return the sum of what the threads have, in all of them; choices keep their order."""
        together = self._in_warp(elements, reducer, own)
        if self.warps == 1:
            return together
        fn = elements.function
        lane = fn.op(f"and i64 {self.member}, {WARP - 1}")
        warp = fn.op(f"lshr i64 {self.member}, {WARP.bit_length() - 1}")
        is_first, is_there = fn.compare("eq", lane, 0), fn.compare("ult", lane, self.warps)
        arrays = [[self._new_array(x) for _ in x.names] for x in together]
        with fn.when(is_first):
            for x, parts in zip(together, arrays, strict=True):
                for array, name in zip(parts, x.names, strict=True):
                    store_shared(fn, array, warp, register_type(x.type), name)
        barrier(fn)
        place, found = fn.min(lane, self.warps - 1), []
        for x, parts in zip(together, arrays, strict=True):
            type_ = register_type(x.type)
            names = tuple([load_shared(fn, array, place, type_) for array in parts])
            step = RowStep((), "" if reducer.opcode is None else is_there)
            nothing = x if reducer.opcode is None else neutral(reducer.opcode, x.type)
            found.append(step.value(elements, Value(names, x.type), nothing))
        return self._in_warp(elements, reducer, found)

    def _new_array(self, value: Value) -> SharedArray:
        type_ = register_type(value.type)
        array = SharedArray(f"sums{len(self.shared)}", "i8" if type_ == "i1" else type_, self.warps)
        self.shared.append(array)
        return array

    def _in_warp(self, elements: Elements, reducer: Reducer, own: Sequence[Value]) -> list[Value]:
        """The sum of what the threads of a warp have, in all of them.

        For choices neighbours meet first, the one of the lower number on the left.
        """
        together, distances = list(own), [WARP >> x for x in range(1, WARP.bit_length())]
        if reducer.opcode is not None:
            for distance in distances:
                others = _exchanged(elements, together, distance)
                together = reducer.combined(elements, together, others)
            return together
        fn = elements.function
        for distance in reversed(distances):
            others = _exchanged(elements, together, distance)
            bit = fn.op(f"and i64 {self.member}, {distance}")
            is_right = RowStep((), fn.compare("ne", bit, 0))
            pairs = list(zip(together, others, strict=True))
            left = [is_right.value(elements, b, a) for a, b in pairs]
            right = [is_right.value(elements, a, b) for a, b in pairs]
            together = reducer.combined(elements, left, right)
        return together


def _exchanged(elements: Elements, values: Sequence[Value], distance: int) -> list[Value]:
    """What the thread of a warp has that is so far away."""
    fn = elements.function
    return [
        Value(tuple([exchanged(fn, register_type(x.type), y, distance) for y in x.names]), x.type)
        for x in values
    ]


def _extents(reduce: Instruction) -> tuple[int, ...]:
    sizes = reduce.operands[0].shape.dimensions
    return tuple([sizes[d] for d in summed_dimensions(reduce)])


def _taken(elements: Elements, request: Request, reducer: Reducer, at: Sequence[Affine]) -> Values:
    """Ask for what a sum takes at an index along it, in the types of the accumulators."""
    instruction = request.instruction
    inner = dict(zip(summed_dimensions(instruction), at, strict=True))
    kept, rank = iter(request.at), instruction.operands[0].shape.rank
    index = tuple([inner[d] if d in inner else next(kept) for d in range(rank)])
    count = len(instruction.operands) // 2
    found = yield from all_of([ask(request, x, index) for x in range(count)])
    return [x.values[0] for x in reducer.taken(elements, found)]


def run_of(elements: Elements, extents: Sequence[int]) -> int:
    """Return how many values of a row of some sizes a thread takes side by side."""
    lanes = elements.lanes
    return lanes if lanes and extents and extents[-1] % lanes == 0 else 1


def place_in_row(elements: Elements, number: Integer, extents: Sequence[int]) -> list[Affine]:
    """Return the index along a row of values side by side, by the number of their run."""
    run = run_of(elements, extents)
    if run == 1:
        return decomposed(elements, number, extents)
    found = decomposed(elements, number, (*extents[:-1], extents[-1] // run))
    start = elements.function.mul(elements.indices.scalar(found[-1]), run)
    return [*found[:-1], lane_variable(elements, start, extents[-1])]


def neutral_lanes(elements: Elements, reducer: Reducer, run: int) -> Value:
    """Return what a sum begins with, in each of `run` lanes; 1 is none."""
    assert reducer.opcode is not None
    value = neutral(reducer.opcode, reducer.types[0])
    return elements.vectors.splat(value) if run > 1 else value


def folded(elements: Elements, reducer: Reducer, own: Sequence[Value]) -> list[Value]:
    """Return the sum of the lanes of a thread, the first ones first."""
    if not own[0].lanes:
        return list(own)
    total, *others = [lane_of(elements, own, lane) for lane in range(own[0].lanes)]
    for one in others:
        total = reducer.combined(elements, total, one)
    return total


def lane_of(elements: Elements, values: Sequence[Value], lane: int) -> list[Value]:
    """Return a lane of values, or the values themselves where they have none."""
    fn = elements.function
    return [
        Value(
            tuple([fn.op(f"extractelement {x.llvm_type} {y}, i64 {lane}") for y in x.names]), x.type
        )
        if x.lanes
        else x
        for x in values
    ]


def store_shared(fn: Function, array: SharedArray, place: Integer, type_: str, name: str) -> None:
    """Store a value of a register type in shared memory."""
    array.store(fn, place, fn.op(f"zext i1 {name} to i8") if type_ == "i1" else name)


def load_shared(fn: Function, array: SharedArray, place: Integer, type_: str) -> str:
    """Load what `store_shared` stored."""
    loaded = array.load(fn, place)
    return fn.op(f"trunc i8 {loaded} to i1") if type_ == "i1" else loaded


def summed_dimensions(reduce: Instruction) -> list[int]:
    """Return what a reduction reduces, in the order in which its operand lies in memory."""
    step = strides(reduce.operands[0].shape)
    return sorted(reduce.attributes_as(Dimensions).dimensions, key=lambda d: -step[d])


def has_team_sum(reduce: Instruction) -> bool:
    """Whether threads can make a reduction together, each some of it."""
    if not reduce.operands[0].shape.element_count:
        return False
    computation = reduce.called_computations[0]
    return is_one_operation(reduce) or chooses_in_order(computation)


def is_one_operation(reduce: Instruction) -> bool:
    """Whether a reduction is one of one array by an operation of two numbers in any order."""
    if len(reduce.operands) != 2:
        return False
    return Reducer.of(reduce.called_computations[0]).opcode is not None
