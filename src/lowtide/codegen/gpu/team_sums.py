"""Reductions that threads make together: each takes some of the values, then they meet.

In place of the rule of `reduce`, in which one thread runs over all values.
"""

from __future__ import annotations

from collections.abc import Sequence
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
from lowtide.codegen.space import decomposed
from lowtide.codegen.value import Value, register_type
from lowtide.ir import Instruction, Opcode
from lowtide.ir.attributes import Dimensions
from lowtide.llvm.function import Function, Integer
from lowtide.records import dataclass


@dataclass(eq=False, slots=True)
class Team:
    """The threads that make a sum: `warps` whole warps of a block.

    `member` is the number of the thread in the team, an i64. A team of several warps is a block,
    all of which runs what they write. `shared` are the arrays in which they meet.
    """

    warps: int
    member: str
    shared: list[SharedArray] = field(default_factory=list)

    @property
    def threads(self) -> int:
        """How many threads there are."""
        return self.warps * WARP

    def meet(self, fn: Function) -> None:
        """Wait for all of the team; what they loaded before is not changed by what follows."""
        if self.warps == 1:
            warp_barrier(fn)
        elif self.warps:
            barrier(fn)

    def rule_of(self, instruction: Instruction) -> ElementRule:
        """Return the rule of an instruction, for all threads of the team at once."""
        return self._reduce if instruction.opcode is Opcode.REDUCE else rule_of(instruction)

    def _reduce(self, elements: Elements, request: Request) -> Rule:
        instruction = request.instruction
        sizes = instruction.operands[0].shape.dimensions
        reduced = summed_dimensions(instruction)
        reducer = Reducer.of(instruction.called_computations[0])
        assert reducer.opcode is not None
        place = elements.scopes.placed(level_of(request))
        with elements.scopes.at_level(place):
            fn = elements.function
            totals = [neutral(reducer.opcode, reducer.types[0])]
            extents = [sizes[d] for d in reduced]
            count, step = prod(extents), self.threads
            with elements.scopes.loop(self.member, count, step, carried(totals)) as loop:
                inner = dict(zip(reduced, decomposed(elements, loop.index, extents), strict=True))
                kept = iter(request.at)
                index = tuple([inner[d] if d in inner else next(kept) for d in range(len(sizes))])
                found = yield ask(request, 0, index)
                values = [x.values[0] for x in reducer.taken(elements, [found])]
                after = reducer.combined(elements, renamed(totals, loop.values), values)
                loop.next = [name for value in after for name in value.names]
            own = renamed(totals, loop.results)
            initial = yield from all_of([ask(request, 1, ())])
            together = self.met(elements, reducer, own)
            start = [x.values[0] for x in reducer.taken(elements, initial)]
            results = reducer.finished(elements, reducer.combined(elements, start, together))
            assert fn is elements.function
        return Element(tuple(results), place)

    def met(self, elements: Elements, reducer: Reducer, own: Sequence[Value]) -> list[Value]:
        """Return the sum of what the threads have, in all of them."""
        together = self._in_warp(elements, reducer, own)
        if self.warps == 1:
            return together
        fn = elements.function
        lane = fn.op(f"and i64 {self.member}, {WARP - 1}")
        warp = fn.op(f"lshr i64 {self.member}, {WARP.bit_length() - 1}")
        assert reducer.opcode is not None
        nothing = neutral(reducer.opcode, reducer.types[0])
        found = []
        is_first, is_there = fn.compare("eq", lane, 0), fn.compare("ult", lane, self.warps)
        arrays = [self._new_array(x, i) for x in together for i in range(len(x.names))]
        with fn.when(is_first):
            for array, name in zip(arrays, [y for x in together for y in x.names], strict=True):
                store_shared(fn, array, warp, register_type(together[0].type), name)
        barrier(fn)
        place = fn.select(is_there, "i64", lane, 0)
        for array, name in zip(arrays, nothing.names, strict=True):
            type_ = register_type(together[0].type)
            loaded = load_shared(fn, array, place, type_)
            found.append(fn.select(is_there, type_, loaded, name))
        return self._in_warp(elements, reducer, [Value(tuple(found), together[0].type)])

    def _new_array(self, value: Value, part: int) -> SharedArray:
        type_ = register_type(value.type)
        array = SharedArray(f"sums{len(self.shared)}", "i8" if type_ == "i1" else type_, self.warps)
        self.shared.append(array)
        return array

    def _in_warp(self, elements: Elements, reducer: Reducer, own: Sequence[Value]) -> list[Value]:
        """The sum of what the threads of a warp have, in all of them."""
        fn, together = elements.function, list(own)
        distance = WARP // 2
        while distance:
            others = [
                Value(
                    tuple([exchanged(fn, register_type(x.type), y, distance) for y in x.names]),
                    x.type,
                )
                for x in together
            ]
            together = reducer.combined(elements, together, others)
            distance //= 2
        return together


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
    """Whether threads can make a reduction together: in any order, of one array."""
    if len(reduce.operands) != 2 or not reduce.operands[0].shape.element_count:
        return False
    return Reducer.of(reduce.called_computations[0]).opcode is not None
