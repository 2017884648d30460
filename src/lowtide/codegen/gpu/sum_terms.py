"""Terms of long sums: each block of a launch adds up a piece of what sums run over.

Sums along memory: the threads of a block run along a piece of it, then meet. Sums across memory: a
block has a stripe of columns and a piece of the rows; threads side by side have columns side by
side, and those below each other meet in shared memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from lowtide.codegen.arrays import Array
from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elements.reducers import Reducer, carried, renamed
from lowtide.codegen.gpu.kernel import kernel_function
from lowtide.codegen.gpu.points import bound_to
from lowtide.codegen.gpu.sum_space import THREADS, Prepare, SumSpace
from lowtide.codegen.gpu.team_sums import (
    Team,
    folded,
    lane_of,
    load_shared,
    neutral_lanes,
    store_shared,
)
from lowtide.codegen.gpu.threads import WARP, SharedArray, barrier, block_number, thread_in_block
from lowtide.codegen.gpu.vectors import thread_elements
from lowtide.codegen.indexing import Affine, linear
from lowtide.codegen.space import decomposed, lane_variable
from lowtide.codegen.value import Value, register_type
from lowtide.ir import ElementType
from lowtide.ir.thunk import GridLaunch
from lowtide.llvm.function import Function, Integer
from lowtide.records import dataclass

_AT_ONCE: Final = 4
"""Steps of a loop that are written out, so that their loads are under way together."""

_ROWS: Final = 16
"""Rows of threads whose sums one thread adds up; if there are more, halves of them meet before."""

_LINES: Final = 1200
"""Lines of code that may be written out so, about."""


@dataclass(eq=False, slots=True)
class _Block:
    """The kernel of terms while it is written: `thread` is the number in the block."""

    space: SumSpace
    elements: Elements
    thread: str
    reducers: tuple[Reducer, ...]


def terms_kernel(
    name: str, space: SumSpace, terms: Callable[[Function], list[Array]], prepare: Prepare
) -> tuple[Function, GridLaunch, list[str]]:
    """Return the kernel of the terms of sums, its launch, and what its module defines besides.

    `terms` gives the arrays of numbers by sum and term that take them.
    """
    fn = kernel_function(name, space.instruction, THREADS)
    elements = thread_elements(fn, space.target, space.lanes)
    block = block_number(fn)
    reducers = tuple([Reducer.of(x.called_computations[0]) for x in space.sums])
    written = _Block(space, elements, thread_in_block(fn), reducers)
    prepare(elements)
    shared = (_along if space.is_along else _across)(written, block, terms(fn))
    blocks = space.stripes * space.terms * space.count
    if not space.is_along:
        blocks //= space.loops.sizes[-1]
    texts = [*elements.globals.values(), *[x.definition for x in shared]]
    return fn, GridLaunch(name, blocks, THREADS), texts


def _along(block: _Block, number: str, arrays: Sequence[Array]) -> list[SharedArray]:
    """Write sums along memory."""
    space, elements = block.space, block.elements
    fn, thread = elements.function, block.thread
    *kept, term = decomposed(elements, number, (*space.kept_sizes, space.terms))
    sizes = (*space.reduced_sizes[:-1], space.vectors)

    def reduced(step: Integer) -> list[Affine]:
        found = decomposed(elements, step, sizes)
        if space.lanes:
            start = fn.mul(elements.indices.scalar(found[-1]), space.lanes)
            found[-1] = lane_variable(elements, start, space.reduced_sizes[-1])
        return found

    first = fn.mul(elements.indices.scalar(term), space.piece)
    totals = _added(block, kept, reduced, fn.add(first, thread), first)
    team = Team(THREADS // WARP, thread)
    found = []
    for reducer, own in zip(block.reducers, totals, strict=True):
        found.append(team.met(elements, reducer, folded(elements, reducer, own)))
    row = linear(tuple(kept), space.kept_sizes)
    with elements.scopes.when(fn.compare("eq", thread, 0)):
        for array, values in zip(arrays, found, strict=True):
            elements.store(array, (row, term), values[0], None)
    return team.shared


def _across(block: _Block, number: str, arrays: Sequence[Array]) -> list[SharedArray]:
    """Write sums across memory."""
    space, elements = block.space, block.elements
    fn, thread = elements.function, block.thread
    sizes = (*space.kept_sizes[:-1], space.stripes, space.terms)
    *kept, stripe, term = decomposed(elements, number, sizes)
    beside = fn.mul(elements.indices.scalar(stripe), space.wide)
    column, row = fn.add(beside, fn.rem(thread, space.wide)), fn.div(thread, space.wide)
    start = fn.mul(fn.min(column, space.vectors - 1), max(space.lanes, 1))
    kept.append(lane_variable(elements, start, space.kept_sizes[-1]))
    first = fn.mul(elements.indices.scalar(term), space.piece)
    begin: Integer = fn.add(first, row)
    if THREADS % space.wide:
        begin = fn.select(fn.compare("slt", row, space.deep), "i64", begin, space.steps)
    totals = _added(
        block, kept, lambda x: decomposed(elements, x, space.reduced_sizes), begin, first
    )
    shared: dict[str, SharedArray] = {}
    for reducer, own, array in zip(block.reducers, totals, arrays, strict=True):
        sums = _ColumnSums(block, reducer, own[0].type, shared)
        rows = sums.meet(own[0], row)
        for numbers in range(0, space.columns, THREADS):
            mine = fn.add(thread, numbers)
            along = fn.add(fn.mul(beside, max(space.lanes, 1)), mine)
            with elements.scopes.when(_is_column(space, fn, mine, along)):
                at = (*kept[:-1], elements.indices.variable(along, space.kept_sizes[-1]))
                place = linear(at, space.kept_sizes)
                elements.store(array, (place, term), sums.total(mine, rows), None)
        barrier(fn)
    return list(shared.values())


def _is_column(space: SumSpace, fn: Function, number: Integer, along: Integer) -> str:
    """Whether there is a column of a number in the stripe, which is number `along` of all."""
    found: str = "true"
    if space.columns % THREADS:
        found = fn.compare("slt", number, space.columns)
    if space.kept_sizes[-1] % space.columns:
        found = fn.op(f"and i1 {found}, {fn.compare('slt', along, space.kept_sizes[-1])}")
    return found


# -- what a thread adds up -------------------------------------------------------------------------


def _added(
    block: _Block,
    kept: Sequence[Affine],
    reduced: Callable[[Integer], list[Affine]],
    begin: Integer,
    first: Integer,
) -> list[list[Value]]:
    """Write the loops of a thread, from `begin` to the end of the piece that starts at `first`."""
    space, elements = block.space, block.elements
    fn, deep = elements.function, space.deep
    end = fn.min(fn.add(first, space.piece), space.steps)
    bound = bound_to(elements, space.instruction)
    totals = [[neutral_lanes(elements, x, max(space.lanes, 1))] for x in block.reducers]

    def taken(step: Integer) -> list[list[Value]]:
        index = space.index(elements, kept, reduced(step))
        found = [elements.all_at(x.operands[0], index, bound.frame) for x in space.sums]
        return [
            [x.values[0] for x in reducer.taken(elements, [one])]
            for reducer, one in zip(block.reducers, found, strict=True)
        ]

    start = begin
    several = _AT_ONCE if space.lines * max(space.lanes, 1) * _AT_ONCE <= _LINES else 1
    for count in dict.fromkeys((several, 1)):
        stop = fn.sub(end, deep * (count - 1))
        flat = [y for x in totals for y in x]
        with elements.scopes.loop(start, stop, deep * count, carried(flat)) as loop:
            after = _regrouped(totals, loop.values)
            for values in [taken(fn.add(loop.index, deep * x)) for x in range(count)]:
                after = [
                    reducer.combined(elements, *pair)
                    for reducer, *pair in zip(block.reducers, after, values, strict=True)
                ]
            loop.next = [name for x in after for y in x for name in y.names]
        totals, start = _regrouped(totals, loop.results), loop.index
    return totals


def _regrouped(totals: list[list[Value]], names: Sequence[str]) -> list[list[Value]]:
    flat = iter(renamed([y for x in totals for y in x], names))
    return [[next(flat) for _ in x] for x in totals]


# -- threads below each other ----------------------------------------------------------------------


@dataclass(frozen=True, eq=False, slots=True)
class _ColumnSums:
    """Shared memory of the sums of a stripe: for each lane, then for each thread, a number.

    `shared` has the arrays by name, which sums of equal types use in turn.
    """

    block: _Block
    reducer: Reducer
    type: ElementType
    shared: dict[str, SharedArray]

    def meet(self, own: Value, row: Integer) -> int:
        """Add up what threads below each other have; return how many of them have it then."""
        elements, wide = self.block.elements, self.block.space.wide
        fn, lanes, rows = elements.function, range(max(own.lanes, 1)), self.block.space.deep
        thread = self.block.thread
        for lane in lanes:
            self._store(fn.add(thread, lane * THREADS), lane_of(elements, [own], lane)[0])
        barrier(fn)
        while rows > _ROWS:
            half = -(-rows // 2)
            with elements.scopes.when(fn.compare("slt", row, rows - half)):
                for lane in lanes:
                    mine = fn.add(thread, lane * THREADS)
                    pair = [self._load(mine)], [self._load(fn.add(mine, half * wide))]
                    self._store(mine, self.reducer.combined(elements, *pair)[0])
            barrier(fn)
            rows = half
        return rows

    def total(self, number: Integer, rows: int) -> Value:
        """Return the sum of a column by its number in the stripe, of what rows of threads have."""
        elements, space = self.block.elements, self.block.space
        fn, lanes = elements.function, max(space.lanes, 1)
        place = fn.add(fn.mul(fn.rem(number, lanes), THREADS), fn.div(number, lanes))
        total, *others = [[self._load(fn.add(place, x * space.wide))] for x in range(rows)]
        for one in others:
            total = self.reducer.combined(elements, total, one)
        return total[0]

    def _arrays(self) -> list[SharedArray]:
        type_ = register_type(self.type)
        stored = "i8" if type_ == "i1" else type_
        count = THREADS * max(self.block.space.lanes, 1)
        names = [f"below{part}_{stored}" for part in range(2 if self.type.is_complex else 1)]
        return [self.shared.setdefault(x, SharedArray(x, stored, count)) for x in names]

    def _store(self, place: Integer, value: Value) -> None:
        fn = self.block.elements.function
        for array, name in zip(self._arrays(), value.names, strict=True):
            store_shared(fn, array, place, register_type(self.type), name)

    def _load(self, place: Integer) -> Value:
        fn, type_ = self.block.elements.function, register_type(self.type)
        return Value(tuple([load_shared(fn, x, place, type_) for x in self._arrays()]), self.type)
