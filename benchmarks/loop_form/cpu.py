"""Nests for processors with vectors: lanes, with masks at the end of an axis; pieces of work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Final, TypeAlias

from benchmarks.loop_form.form import Kind, Positions, forms_of
from benchmarks.loop_form.schedule import Schedule, finish_of, schedule_of
from benchmarks.loop_form.writer import NestWriter, Stage, positions

from lowtide.codegen import indexing
from lowtide.codegen.cpu.cost import widest
from lowtide.codegen.cpu.element_streaming import (
    cache_for,
    either,
    fence,
    fetch_ahead,
    is_large,
    stored_bytes,
)
from lowtide.codegen.cpu.fetching import fetching_for
from lowtide.codegen.cpu.reduction.caching import Kept, kept_values
from lowtide.codegen.cpu.reduction.folding import folded_turns
from lowtide.codegen.cpu.reduction.strip import Strip, StripStep, first_lanes
from lowtide.codegen.cpu.reduction.totals import Totals, total_types
from lowtide.codegen.cpu.tiles import TransposedTile
from lowtide.codegen.cpu.vector_elements import VectorMemory, vector_elements
from lowtide.codegen.elements.operands import leaves, members
from lowtide.codegen.elements.values import Element, Mask
from lowtide.codegen.elementwise import memory
from lowtide.codegen.elementwise.memory import STREAMED
from lowtide.codegen.indexing import Affine, Index
from lowtide.codegen.kernel import ARGUMENTS, KernelCode, KernelPlan
from lowtide.codegen.library.scratch import ThreadScratch
from lowtide.codegen.parts import KernelPart, concatenated, in_turn
from lowtide.codegen.space import decomposed, lane_variable
from lowtide.codegen.value import Value
from lowtide.ir import Instruction
from lowtide.ir.thunk import Phase
from lowtide.llvm.function import Function
from lowtide.llvm.loops import Integer, Loop
from lowtide.llvm.target import Target
from lowtide.ops.in_place import ONE_PASS

_LONGEST_FETCHED: Final = 1 << 17
"""Bytes of a row up to which the second sweep along it fetches the next one."""

_AHEAD_OF_ROWS: Final = 2048
"""How many bytes behind the same place of the next row."""

VectorsBody: TypeAlias = "Callable[[Sequence[Positions], Mask | None], None]"
"""Writes what is done at vectors side by side."""


class VectorNest(NestWriter):
    """Writes a nest by its schedule, of which `stage` is wanted."""

    def __init__(
        self, schedule: Schedule, stage: Stage, name: str, *, streaming: bool = False
    ) -> None:
        self.schedule = schedule
        self.memory = VectorMemory(streaming)
        fn = Function(name, ARGUMENTS)
        form = schedule.form
        elements = vector_elements(fn, form.target, schedule.lanes, self.memory)
        super().__init__(form, elements, stage, schedule.parts)
        self.slots: dict[tuple[int, int], str] = {}
        self.scratch = ThreadScratch()
        self.kept = kept_values(form.sums) if form.sums and stage is Stage.WHOLE else ()
        across = schedule.lanes if schedule.is_across else 1
        count = form.points(Kind.REDUCED) * across + schedule.lanes
        self.fields = {
            x.value: self.scratch.add(x.value.shape.element_type, count) for x in self.kept
        }
        self.columns = []
        if schedule.lines and form.sums:
            types = total_types(form.sums)
            self.columns = [self.scratch.add(x, schedule.block) for x in types]
        self.begin: Integer = 0
        fetching = fetching_for(form.target)
        self.ahead = fetching.sums if form.sums else fetching.arrays
        self.fetching, nbytes = 0, form.points(Kind.REDUCED) * widest(members(form.instruction))
        if form.sweeps > 1 and nbytes <= _LONGEST_FETCHED:
            self.fetching, self.ahead = 1, nbytes + _AHEAD_OF_ROWS
        self.cache = cache_for(
            form.target, form.instruction, form.points(Kind.PARALLEL) * form.points(Kind.REDUCED)
        )

    def write(self) -> Function:
        """Write the function: pieces of work, each some positions along one of the axes."""
        fn, elements, schedule = self.function, self.elements, self.schedule
        self.scratch.bind(fn, 0 if self.partials is None else self.partials.nbytes)
        with elements.scopes.loop("%begin", "%end") as unit:
            rest: Integer = unit.index
            if self.stage is Stage.PARTS and self.partials is not None:
                parts = self.partials.count
                self.part, rest = fn.rem(rest, parts), fn.div(rest, parts)
            start = fn.mul(fn.rem(rest, schedule.blocks), schedule.block)
            outer = schedule.order[: schedule.outer]
            places = decomposed(elements, fn.div(rest, schedule.blocks), schedule.trips)
            at = {x: y * schedule.step(x) for x, y in zip(outer, places, strict=True)}
            if schedule.order:
                size = schedule.sizes[schedule.outer]
                self._loops(at, schedule.outer, start, fn.min(fn.add(start, schedule.block), size))
            else:
                self.rows([at], None, 0)
        if self.memory.is_streaming:
            fence(fn)
        return fn

    # -- parallel axes -------------------------------------------------------------------------

    def _loops(self, at: Positions, number: int, start: Integer, stop: Integer) -> None:
        """A loop along a parallel axis from start to stop, and those in it."""
        schedule, elements = self.schedule, self.elements
        axis, size = schedule.order[number], schedule.sizes[number]
        is_last = number == len(schedule.order) - 1
        if is_last and schedule.lines:
            self._columns(at, start, stop)
            return
        if is_last and (axis == schedule.lane or schedule.is_grouped):
            body = self._group if schedule.is_grouped else self._vectors
            self._line(at, start, stop, body)
            return
        with elements.scopes.loop(start, stop, schedule.step(axis)) as loop:
            here = {**at, axis: elements.indices.variable(loop.index, size)}
            if is_last:
                self.rows([here], None, 0)
            else:
                self._loops(here, number + 1, 0, schedule.sizes[number + 1])

    def _line(self, at: Positions, start: Integer, stop: Integer, body: VectorsBody) -> None:
        """Vectors along an axis: as many at once as may be, single ones, then a part of one."""
        fn, elements, schedule = self.function, self.elements, self.schedule
        lane, lanes, size = schedule.order[-1], max(schedule.lanes, 1), schedule.sizes[-1]
        for beside in dict.fromkeys((schedule.beside, 1)):
            step = lanes * beside
            last = stop if size % step == 0 else fn.min(stop, size - size % step)
            with elements.scopes.loop(start, last, step) as loop:
                firsts = [fn.add(loop.index, i * lanes) for i in range(beside)]
                body([{**at, lane: lane_variable(elements, x, size)} for x in firsts], None)
            start = _behind(loop, start, last, step)
            if size % step == 0:
                return
        whole = size - size % lanes
        mask = Mask(first_lanes(size - whole, lanes), lanes, 0, size - whole)
        with elements.scopes.when(fn.compare("eq", stop, size)):
            body([{**at, lane: lane_variable(elements, whole, size)}], mask)

    def _vectors(self, at: Sequence[Positions], mask: Mask | None) -> None:
        """Points at vectors along the lanes: steps of a short loop at once, or in a tile."""
        how, seen = self.schedule.how, len(self.elements.reads)
        if how is not None and how.tiled is not None:
            self._tiles(how.tiled, at[0], mask)
            return
        if how is not None and how.unrolled is not None:
            steps = range(self.form.axes[how.unrolled].size)
            at = [{**at[0], how.unrolled: indexing.constant(x)} for x in steps]
        self.rows(at, mask, self.schedule.lanes)
        if mask is None and how is not None:
            fetch_ahead(self.elements, self.elements.reads[seen:], self.ahead, self.cache)

    def _tiles(self, axis: int, at: Positions, mask: Mask | None) -> None:
        """Some tiles one after the other: squares that are transposed on their way in."""
        fn, elements, how = self.function, self.elements, self.schedule.how
        assert how is not None
        size, rows, first = self.form.axes[axis].size, how.rows, elements.indices.scalar(at[axis])
        end = fn.min(fn.add(first, self.schedule.tile), size)
        with elements.scopes.loop(first, end, rows) as tiles:
            start = elements.indices.variable(tiles.index, size)
            if how.in_registers:
                for number in range(rows):
                    self._row(axis, start, indexing.row(number, rows), at, mask)
                return
            with elements.scopes.loop(0, fn.min(rows, fn.sub(size, tiles.index))) as steps:
                self._row(axis, start, elements.indices.variable(steps.index, rows), at, mask)

    def _row(self, axis: int, start: Affine, row: Affine, at: Positions, mask: Mask | None) -> None:
        size, how, ((variable, _),) = self.form.axes[axis].size, self.schedule.how, row.terms
        assert how is not None
        self.memory.tile = TransposedTile(variable, how.rows, start, size, self.slots)
        self.rows([{**at, axis: (start + row).within(0, size - 1)}], mask, self.schedule.lanes)
        self.memory.tile = None

    # -- reduced axes --------------------------------------------------------------------------

    def sweep(
        self, rows: Sequence[Positions], mask: Mask | None, number: int, totals: Totals
    ) -> list[Value]:
        """Write a sweep: vectors along rows whose totals take turns, or of rows side by side."""
        schedule, elements = self.schedule, self.elements
        along = 0 if schedule.is_across else schedule.lanes
        span = None
        if self.stage is Stage.PARTS and self.partials is not None:
            span = self.partials.span(self.function, self.part)
        has_first = not totals.are_monoids
        strip = Strip(elements, schedule.inner_sizes, along, has_first=has_first, span=span)
        start = [x for _ in rows for x in totals.start(elements.lanes)]
        turns = schedule.turns if along else 1
        self._provide(number, None)

        def body(step: StripStep, before: list[Value]) -> list[Value]:
            inner, each = positions(schedule.inner, step.inner), len(before) // len(rows)
            wanted, seen, after = elements.vectors.both(mask, step.mask), len(elements.reads), []
            self._provide(number, step)
            for i, at in enumerate(rows):
                own = before[i * each : (i + 1) * each]
                where = {**at, **inner}
                after += self.point(where, number, totals, own, wanted, step.mask, step.is_first)
                self._keep(where, number, step, wanted)
            if wanted is None and number == self.fetching:
                fetch_ahead(elements, elements.reads[seen:], self.ahead, self.cache)
            return after

        found = strip.write([list(start) for _ in range(turns)], body)
        if schedule.is_grouped:
            return folded_turns(found, totals.combined)
        return totals.folded(found) if not schedule.is_across else found[0]

    def _group(self, rows: Sequence[Positions], mask: Mask | None) -> None:
        """As many short rows as there are lanes: these are added up of all of them at once."""
        fn, elements, lanes, (at,) = self.function, self.elements, self.schedule.lanes, rows
        sums, axis = self.form.sums, self.schedule.order[-1]
        assert sums is not None
        count = lanes if mask is None else mask.count
        totals, first = Totals(elements, self.bound.frame, sums.heroes), at[axis]
        kinds = totals.start(lanes)
        fields = [(x.llvm_type, self._slot(i, x.llvm_type)) for i, x in enumerate(kinds)]
        with elements.scopes.loop(0, count) as loop:
            place = fn.add(elements.indices.scalar(first), loop.index)
            row = elements.indices.variable(place, self.form.axes[axis].size)
            values = self.sweep([{**at, axis: row}], None, 0, totals)
            for (type_, slot), value in zip(fields, values, strict=True):
                fn.store(type_, value.name, fn.gep(slot, loop.index, type_), 1)

        def loaded(number: int) -> list[Value]:
            place = number if number < count else 0
            names = [fn.load(t, fn.gep(slot, place, t), 1) for t, slot in fields]
            return [Value((x,), y.type, lanes) for x, y in zip(names, kinds, strict=True)]

        self.swept(at, mask, 0, totals, totals.folded_rows(loaded, lanes))

    def _slot(self, number: int, type_: str) -> str:
        key = -1 - number, self.schedule.lanes
        if key not in self.slots:
            self.slots[key] = self.function.stack(type_, self.schedule.lanes)
        return self.slots[key]

    # -- reduced axes around the lanes -------------------------------------------------------------

    def _columns(self, at: Positions, start: Integer, stop: Integer) -> None:
        """Rows side by side, whose totals are in scratch while lines of them are added in turn."""
        elements, sums, self.begin = self.elements, self.form.sums, start
        assert sums is not None
        totals = Totals(elements, self.bound.frame, sums.heroes)

        def clear(rows: Sequence[Positions], mask: Mask | None) -> None:
            self._save(rows[0], totals.start(self.schedule.lanes))

        def finish(rows: Sequence[Positions], mask: Mask | None) -> None:
            self.swept(rows[0], mask, 0, totals, self._load(rows[0]))

        def add(lines: Sequence[Positions]) -> None:
            is_first = self._is_first(lines[0], totals)
            body = lambda x, mask: self._add(x[0], lines, totals, mask, is_first)  # noqa: E731
            self._line(at, start, stop, body)

        self._line(at, start, stop, clear)
        self._lines({}, 0, add)
        self._line(at, start, stop, finish)

    def _lines(
        self, inner: Positions, number: int, add: Callable[[Sequence[Positions]], None]
    ) -> None:
        """Loops along the reduced axes, the last of which takes several lines at once."""
        fn, elements, schedule = self.function, self.elements, self.schedule
        axis, size = schedule.inner[number], schedule.inner_sizes[number]
        start: Integer = 0
        stop: Integer = size
        if number == 0 and self.stage is Stage.PARTS and self.partials is not None:
            start, stop = self.partials.span(fn, self.part)
        if number + 1 < len(schedule.inner):
            with elements.scopes.loop(start, stop) as loop:
                here = {**inner, axis: elements.indices.variable(loop.index, size)}
                self._lines(here, number + 1, add)
            return
        for count in dict.fromkeys((schedule.lines, 1)):
            last = fn.sub(stop, count - 1)
            with elements.scopes.loop(start, last, count) as loop:
                places = [fn.add(loop.index, i) for i in range(count)]
                add([{**inner, axis: elements.indices.variable(x, size)} for x in places])
            start = _behind(loop, start, last, count)

    def _is_first(self, line: Positions, totals: Totals) -> str | None:
        """Whether no line was added before, where totals have no neutral element."""
        if totals.are_monoids:
            return None
        fn, sizes = self.function, self.schedule.inner_sizes
        number = indexing.linear(tuple([line[x] for x in self.schedule.inner]), sizes)
        first: Integer = 0
        if self.stage is Stage.PARTS and self.partials is not None:
            start, _ = self.partials.span(fn, self.part)
            first = fn.mul(start, prod(sizes[1:]))
        return fn.compare("eq", self.elements.indices.scalar(number), first)

    def _add(
        self,
        at: Positions,
        lines: Sequence[Positions],
        totals: Totals,
        mask: Mask | None,
        is_first: str | None,
    ) -> None:
        """Add a vector of some lines to its totals, those of two lines to each other before."""
        points = [self.form.index(self.elements, {**at, **x}) for x in lines]
        found = [totals.taken(x, mask, self.schedule.lanes) for x in points]
        self.store_points(points, mask)
        while len(found) > 1:
            found = [totals.combined(a, b) for a, b in zip(found[::2], found[1::2], strict=True)]
        self._save(at, totals.added(self._load(at), found[0], None, is_first))

    def _place(self, at: Positions) -> Integer:
        return self.function.sub(self.elements.indices.scalar(at[self.schedule.lane]), self.begin)

    def _load(self, at: Positions) -> list[Value]:
        fn, lanes, place = self.function, self.schedule.lanes, self._place(at)
        return [
            memory.load(fn, self.form.target, x.type, x.address(fn, place), lanes)
            for x in self.columns
        ]

    def _save(self, at: Positions, values: Sequence[Value]) -> None:
        fn, place = self.function, self._place(at)
        for field, value in zip(self.columns, values, strict=True):
            memory.store(fn, self.form.target, value, field.address(fn, place))

    # -- values of a row that later sweeps read ----------------------------------------------------

    def _provide(self, number: int, step: StripStep | None) -> None:
        for kept in self.kept:
            if kept.made < number and step is not None:
                self.elements.given[kept.value] = self._loaded(kept, step)
            else:
                self.elements.given.pop(kept.value, None)

    def _address(self, kept: Kept, step: StripStep) -> str:
        place = step.linear * (self.schedule.lanes if self.schedule.is_across else 1)
        return self.fields[kept.value].address(self.function, self.elements.indices.scalar(place))

    def _loaded(self, kept: Kept, step: StripStep) -> Callable[[Index, Mask | None], Element]:
        def given(at: Index, mask: Mask | None) -> Element:
            type_, lanes = kept.value.shape.element_type, self.elements.lanes
            pointer = self._address(kept, step)
            value = memory.load(self.function, self.form.target, type_, pointer, lanes)
            return Element((value,), self.elements.scopes.level)

        return given

    def _keep(self, at: Positions, number: int, step: StripStep, wanted: Mask | None) -> None:
        for kept in [x for x in self.kept if x.made == number]:
            index = self.form.index(self.elements, at)
            value = self.elements.at(kept.value, index, self.bound.frame, wanted)
            if not value.lanes and self.elements.lanes:
                value = self.elements.vectors.splat(value)
            memory.store(self.function, self.form.target, value, self._address(kept, step))


def _behind(loop: Loop, start: Integer, stop: Integer, step: int) -> Integer:
    """Return where a loop ended: its index is known behind it unless its ends are numbers."""
    if isinstance(start, int) and isinstance(stop, int):
        return start + max(-(-(stop - start) // step), 0) * step
    return loop.index


def plan_nests(instruction: Instruction, target: Target) -> KernelPlan | None:
    """Return how an instruction runs as nests; None where it is no such thing."""
    groups = forms_of(instruction, target)
    if groups is None:
        return None
    if groups and groups[0] and groups[0][0].sums:
        schedule = schedule_of(groups[0][0])
        parts = schedule.parts
        stage = Stage.WHOLE if parts is None else Stage.PARTS
        scratch = VectorNest(schedule, stage, "nest").scratch.nbytes
        return KernelPlan(lambda: _sums(schedule), parts.nbytes if parts else 0, scratch)

    def code() -> KernelCode:
        written = [
            [_part(schedule_of(x), f"nest{i}_{j}") for j, x in enumerate(group)]
            for i, group in enumerate(groups)
        ]
        if instruction.annotations.backend_config == ONE_PASS:
            return in_turn([concatenated(x, f"parts{i}") for i, x in enumerate(written) if x])
        parts = [y for x in written for y in x]
        return concatenated(parts) if parts else KernelCode((), ())

    return KernelPlan(code)


def _sums(schedule: Schedule) -> KernelCode:
    if schedule.parts is None:
        return concatenated([_part(schedule, "nest")])
    finish = finish_of(schedule)
    nests = [VectorNest(schedule, Stage.PARTS, "nest"), VectorNest(finish, Stage.FINISH, "finish")]
    functions = tuple([x.write() for x in nests])
    texts = [y for x in nests for y in x.elements.globals.values()]
    units = schedule.units, finish.units // schedule.parts.count
    phases = tuple(
        [Phase(x.name, n, schedule.seconds) for x, n in zip(functions, units, strict=True)]
    )
    return KernelCode(functions, phases, "\n".join(dict.fromkeys(texts)))


def _part(schedule: Schedule, name: str) -> KernelPart:
    """The function of a nest; of large results two, one of which stores past the caches."""
    plain = VectorNest(schedule, Stage.WHOLE, name)
    function = plain.write()
    text = "\n".join(plain.elements.globals.values())
    arrays = _streamed(schedule)
    if not arrays:
        return KernelPart(function, schedule.units, schedule.seconds, text)
    function.name = f"{name}_cached"
    nest = VectorNest(schedule, Stage.WHOLE, f"{name}_streamed", streaming=True)
    both = (function, nest.write())
    text = f"{text}\n" + "\n".join([*nest.elements.globals.values(), STREAMED])
    chosen = either(schedule.form.instruction, arrays, name, *both)
    return KernelPart(chosen, schedule.units, schedule.seconds, text, both)


def _streamed(schedule: Schedule) -> list[int]:
    """The numbers of results that are stored past the caches, which have no room for them."""
    form, how, lanes = schedule.form, schedule.how, schedule.lanes
    shapes = leaves(form.instruction.shape)
    if form.sums is not None:
        arrays = [x.array for x in form.sums.results if x.is_full and not schedule.is_across]
    else:
        arrays = [x.array for x in form.outputs]
    nbytes = [shapes[x].element_type.nbytes for x in arrays]
    is_whole = not how or how.tiled is None or all(x * lanes >= 64 for x in nbytes)
    total = sum([stored_bytes(shapes[x]) for x in arrays])
    return arrays if lanes and is_whole and is_large(form.target, total) else []
