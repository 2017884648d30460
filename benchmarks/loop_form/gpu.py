"""Nests for graphics processors: parallel axes are threads, which make long sums together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from math import prod
from typing import Final

from benchmarks.loop_form.form import Positions, forms_of
from benchmarks.loop_form.schedule import WARP, ThreadSchedule, thread_finish_of, thread_schedule_of
from benchmarks.loop_form.writer import NestWriter, Stage, positions

from lowtide.codegen.arrays import Array, offset
from lowtide.codegen.cpu.reduction.strip import Strip, StripStep
from lowtide.codegen.cpu.reduction.totals import Totals
from lowtide.codegen.elements.elements import Given
from lowtide.codegen.elements.operands import members
from lowtide.codegen.elements.reducers import carried, renamed
from lowtide.codegen.elements.table import has_rule
from lowtide.codegen.elements.values import Element, Mask
from lowtide.codegen.elementwise import memory
from lowtide.codegen.gpu.kernel import GpuCode, GpuPlan, kernel_function
from lowtide.codegen.gpu.team_sums import Team, folded, place_in_row, run_of
from lowtide.codegen.gpu.threads import (
    SharedArray,
    barrier,
    block_number,
    thread_in_block,
    thread_number,
)
from lowtide.codegen.gpu.vectors import thread_elements
from lowtide.codegen.indexing import ZERO, Affine, Index
from lowtide.codegen.space import decomposed, lane_variable
from lowtide.codegen.value import Value
from lowtide.ir import ElementType, Instruction
from lowtide.ir.thunk import GridLaunch
from lowtide.llvm.function import Function, Integer
from lowtide.llvm.target import Target
from lowtide.ops.in_place import works_in_rows


class ThreadNest(NestWriter):
    """Writes the kernel of a nest by its schedule, of which `stage` is wanted."""

    def __init__(self, schedule: ThreadSchedule, stage: Stage, name: str) -> None:
        self.schedule = schedule
        form = schedule.form
        fn = kernel_function(name, form.instruction, schedule.threads)
        elements = thread_elements(fn, form.target, schedule.lanes)
        super().__init__(form, elements, stage, schedule.parts)
        self.team = Team(schedule.warps, "0")
        self.is_there = ""
        self.waiting: list[tuple[str, Array, Index, Value]] = []
        self.steps: list[tuple[Positions, str]] | None = None
        self.blocks = 0

    def write(self) -> tuple[Function, GridLaunch, list[str]]:
        """Return the kernel, its launch, and what its module defines besides."""
        self._rows()
        texts = [x.definition for x in self.team.shared]
        launch = GridLaunch(self.function.name, self.blocks, self.schedule.threads)
        return self.function, launch, [*self.elements.globals.values(), *texts]

    def _rows(self) -> None:
        """A row for each thread, or for each team of them."""
        fn, elements, schedule = self.function, self.elements, self.schedule
        sizes = [self.form.axes[x].size for x in schedule.order]
        has_lanes = schedule.lanes > 0 and not schedule.warps
        if has_lanes:
            sizes[-1] //= schedule.lanes
        parts = schedule.parts.count if schedule.parts and self.stage is Stage.PARTS else 1
        count = prod(sizes)
        self.blocks = -(-count * parts // schedule.together)
        number: Integer
        if schedule.warps:
            thread = thread_in_block(fn)
            self.team.member = str(fn.rem(thread, schedule.warps * WARP))
            number = fn.add(
                fn.mul(block_number(fn), schedule.together), fn.div(thread, schedule.warps * WARP)
            )
        else:
            number = thread_number(fn, schedule.threads)
        with elements.scopes.when(fn.compare("slt", number, count * parts)):
            if parts > 1:
                self.part, number = fn.div(number, count), fn.rem(number, count)
            at = decomposed(elements, number, sizes)
            if has_lanes:
                size = sizes[-1] * schedule.lanes
                start = fn.mul(elements.indices.scalar(at[-1]), schedule.lanes)
                at[-1] = lane_variable(elements, start, size)
            self.rows([positions(schedule.order, at)], None, schedule.lanes if has_lanes else 0)

    def store_rows(self, at: Positions, mask: Mask | None) -> None:
        """Store the results that have one element for each row: one thread of a team does."""
        if not self.schedule.warps:
            super().store_rows(at, mask)
            return
        with self.elements.scopes.when(self.function.compare("eq", self.team.member, 0)):
            super().store_rows(at, mask)

    def keep_part(self, at: Positions, mask: Mask | None, values: Sequence[Value]) -> None:
        """Store the totals of a part of a row: one thread of a team does."""
        if not self.schedule.warps:
            super().keep_part(at, mask, values)
            return
        with self.elements.scopes.when(self.function.compare("eq", self.team.member, 0)):
            super().keep_part(at, mask, values)

    def store(self, array: Array, index: Index, value: Value, mask: Mask | None) -> None:
        """Store a value of a point; of a row that threads hold, once all of it was read."""
        if self.schedule.is_held:
            self.waiting.append((self.is_there, array, index, value))
        else:
            self.elements.store(array, index, value, mask)

    def _store_waiting(self) -> None:
        elements = self.elements
        if self.waiting:
            self.team.meet(self.function)
        for is_there, array, index, value in self.waiting:
            with elements.scopes.when(is_there) if is_there else nullcontext():
                elements.store(array, index, value, None)

    # -- reduced axes --------------------------------------------------------------------------

    def sweep(
        self, rows: Sequence[Positions], mask: Mask | None, number: int, totals: Totals
    ) -> list[Value]:
        """Write a sweep: all of a row by one thread, or what each thread of a team has of it."""
        schedule, elements, (at,) = self.schedule, self.elements, rows
        if not schedule.warps:
            span = None
            if self.stage is Stage.PARTS and self.partials is not None:
                span = self.partials.span(self.function, self.part)
            sizes = [self.form.axes[x].size for x in schedule.inner]
            strip = Strip(elements, sizes, 0, has_first=False, span=span)

            def body(step: StripStep, before: list[Value]) -> list[Value]:
                where = {**at, **positions(schedule.inner, step.inner)}
                return self.point(where, number, totals, before, None, None)

            return strip.write([totals.start(elements.lanes)], body)[0]
        start = totals.start(run_of(elements, self._extents) if elements.lanes else 0)
        if schedule.is_held:
            self.steps = self.steps or list(self._held())
            for inner, is_there in self.steps:
                self.is_there = is_there
                added = Mask(is_there, 0, elements.scopes.level) if is_there else None
                start = self.point({**at, **inner}, number, totals, start, None, added)
            self.is_there = ""
            self._store_waiting()
            return self._met(totals, start)
        first, end = self._runs()
        begin = self.function.add(first, self.team.member)
        with elements.scopes.loop(begin, end, self.team.threads, carried(start)) as loop:
            inner = self._inner(loop.index)
            after = self.point(
                {**at, **inner}, number, totals, renamed(start, loop.values), None, None
            )
            loop.next = [name for x in after for name in x.names]
        return self._met(totals, renamed(start, loop.results))

    @property
    def _extents(self) -> list[int]:
        return [self.form.axes[x].size for x in self.schedule.inner]

    def _inner(self, number: Integer) -> Positions:
        return positions(self.schedule.inner, place_in_row(self.elements, number, self._extents))

    def _runs(self) -> tuple[Integer, Integer]:
        """The steps of a row that a team takes: all, or those of its part."""
        if self.stage is Stage.PARTS and self.partials is not None:
            return self.partials.span(self.function, self.part)
        return 0, prod(self._extents) // run_of(self.elements, self._extents)

    def _held(self) -> Iterator[tuple[Positions, str]]:
        """The steps of a thread, written out; beyond the end of a row it is the last one."""
        fn, (_, end) = self.function, self._runs()
        assert isinstance(end, int)
        for first in range(0, end, self.team.threads):
            number, is_there = fn.add(self.team.member, first), ""
            if first + self.team.threads > end:
                is_there, number = fn.compare("slt", number, end), fn.min(number, end - 1)
            yield self._inner(number), is_there

    def _met(self, totals: Totals, own: Sequence[Value]) -> list[Value]:
        """The totals of a team, of what its threads have."""
        pairs = zip(totals.reducers, own, strict=True)
        return (
            [
                y
                for x, value in pairs
                for y in self.team.met(self.elements, x, folded(self.elements, x, [value]))
            ]
            if own
            else []
        )

    def gathered(self, at: Positions, mask: Mask | None, totals: Totals, lanes: int) -> list[Value]:
        """The totals of a row, of which parts are in scratch: threads of a team take turns."""
        if not self.schedule.warps:
            return super().gathered(at, mask, totals, lanes)
        assert self.partials is not None
        start = totals.start(0)
        loops = self.elements.scopes.loop(
            self.team.member, self.partials.count, self.team.threads, carried(start)
        )
        with loops as loop:
            more = self.loaded_part(at, loop.index, 0, mask)
            after = totals.combined(renamed(start, loop.values), more)
            loop.next = [name for x in after for name in x.names]
        return self._met(totals, renamed(start, loop.results))


_MOVED: Final = {1: ElementType.U8, 2: ElementType.U16, 4: ElementType.U32, 8: ElementType.U64}
"""The types in which tiles are brought, by bytes."""


# -- what is read across memory ------------------------------------------------------------------


class TiledNest(ThreadNest):
    """Writes a nest of tiles: what lies along another axis than results comes by shared memory.

    Threads bring a tile along axis `tiled`, and compute results along that of the lanes.
    """

    def __init__(self, schedule: ThreadSchedule, stage: Stage, name: str) -> None:
        super().__init__(schedule, stage, name)
        assert schedule.tiled is not None
        self.tiled: int = schedule.tiled
        self.sizes = [x.size for x in self.form.axes]
        axes = (self.tiled, schedule.lane)
        self.sides = {x: min(schedule.side, 1 << (self.sizes[x] - 1).bit_length()) for x in axes}
        self.tiles = {
            (x.array.pointer, x.steps, x.start): x.array
            for x in self.form.accesses
            if x.is_affine and not x.is_store and x.steps[axes[0]] == 1 and x.steps[axes[1]] > 1
        }
        count = (self.sides[axes[0]] + 1) * self.sides[axes[1]]
        self.shared = {
            key: SharedArray(f"tile{i}", f"i{8 * x.shape.element_type.nbytes}", count)
            for i, (key, x) in enumerate(self.tiles.items())
        }

    def _rows(self) -> None:
        fn, elements, lane = self.function, self.elements, self.schedule.lane
        deep, wide = self.sides[self.tiled], self.sides[lane]
        counts = [-(-x // self.sides.get(i, 1)) for i, x in enumerate(self.sizes)]
        self.blocks = prod(counts)
        thread, threads = thread_in_block(fn), self.schedule.threads
        places = decomposed(elements, block_number(fn), counts)
        origin = {i: x * self.sides.get(i, 1) for i, x in enumerate(places)}
        for number in range(0, deep * wide, threads):
            unit = fn.add(thread, number)
            self._bring(origin, fn.rem(unit, deep), fn.div(unit, deep))
        barrier(fn)
        with elements.scopes.loop(0, deep * wide // threads) as loop:
            unit = fn.add(thread, fn.mul(loop.index, threads))
            row, column = fn.div(unit, wide), fn.rem(unit, wide)
            with elements.scopes.when(self._within(origin, row, column)):
                at = self._at(origin, row, column)
                for parameter, array in self.bound.frame.arrays.items():
                    elements.given[parameter] = self._turned(array, at, self._place(row, column))
                self.rows([at], None, 0)
        self.team.shared += self.shared.values()

    def _bring(self, origin: Positions, row: Integer, column: Integer) -> None:
        """Load an element of each tile, as integers."""
        at, elements = self._at(origin, row, column), self.elements
        for key, array in self.tiles.items():
            place = sum([at[i] * x for i, x in enumerate(key[1])], ZERO + key[2])
            type_ = _MOVED[array.shape.element_type.nbytes]
            moved = replace(array, shape=array.shape.with_element_type(type_))
            value = elements.memory.load(elements, moved, place, None)
            self.shared[key].store(self.function, self._place(row, column), value.name)

    def _within(self, origin: Positions, row: Integer, column: Integer) -> str:
        """Whether there is a result of an element of the tile."""
        fn, found = self.function, "true"
        for axis, local in ((self.tiled, row), (self.schedule.lane, column)):
            if self.sizes[axis] % self.sides[axis]:
                place = fn.add(self.elements.indices.scalar(origin[axis]), local)
                found = fn.op(f"and i1 {found}, {fn.compare('slt', place, self.sizes[axis])}")
        return found

    def _place(self, row: Integer, column: Integer) -> Integer:
        return self.function.add(self.function.mul(column, self.sides[self.tiled] + 1), row)

    def _at(self, origin: Positions, row: Integer, column: Integer) -> dict[int, Affine]:
        """The positions of an element of the tile; beyond the end of an axis it is the last one."""
        fn, indices, found = self.function, self.elements.indices, dict(origin)
        for axis, local in ((self.tiled, row), (self.schedule.lane, column)):
            place = fn.add(indices.scalar(origin[axis]), local)
            if self.sizes[axis] % self.sides[axis]:
                place = fn.min(place, self.sizes[axis] - 1)
            found[axis] = indices.variable(place, self.sizes[axis])
        return found

    def _turned(self, array: Array, at: Positions, where: Integer) -> Given:
        """Have the elements of an operand come from its tile, where one has them."""
        variables = [at[i].terms[0][0] if at[i].terms else None for i in range(len(self.sizes))]

        def given(index: Index, mask: Mask | None) -> Element:
            place = offset(array.shape, index)
            factors = dict(place.terms)
            steps = tuple([0 if x is None else factors.pop(x, 0) for x in variables])
            tile = self.shared.get((array.pointer, steps, place.constant))
            if factors or tile is None:
                return self.elements.read(array, index, mask)
            name = tile.load(self.function, where)
            value = memory.loaded(
                self.function, self.form.target, array.shape.element_type, name, 0
            )
            return Element((value,), self.elements.scopes.level)

        return given


def plan_thread_nests(instruction: Instruction, target: Target) -> GpuPlan | None:
    """Return how an instruction runs as nests; None where it is no such thing."""
    if not all(has_rule(x) for x in members(instruction)):
        return None
    groups = forms_of(instruction, target, has_boxes=False)
    schedules = [thread_schedule_of(x) for group in groups or () for x in group]
    if not schedules or None in schedules:
        return None
    found = [x for x in schedules if x is not None]
    if works_in_rows(instruction) and not all(map(_reads_before, found)):
        return None
    scratch = max([0 if x.parts is None else x.parts.nbytes for x in found])
    return GpuPlan("nests", lambda: _code(found), scratch)


def _reads_before(schedule: ThreadSchedule) -> bool:
    """Whether all of a row is read before any of it is written."""
    sums = schedule.form.sums
    return sums is not None and schedule.is_held and all(x.is_full for x in sums.results)


def _code(schedules: Sequence[ThreadSchedule]) -> GpuCode:
    written = []
    for number, schedule in enumerate(schedules):
        kind = ThreadNest if schedule.tiled is None else TiledNest
        stage = Stage.WHOLE if schedule.parts is None else Stage.PARTS
        written.append(kind(schedule, stage, f"nest{number}").write())
        if schedule.parts is not None:
            finish = thread_finish_of(schedule)
            written.append(ThreadNest(finish, Stage.FINISH, f"finish{number}").write())
    texts = dict.fromkeys([y for _, _, x in written for y in x])
    functions, launches = tuple([x for x, _, _ in written]), tuple([x for _, x, _ in written])
    return GpuCode(functions, launches, "\n".join(texts))
