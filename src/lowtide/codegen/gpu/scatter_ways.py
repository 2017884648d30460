"""Ways in which threads scatter: the updates of a place in their order, those of others at once.

The windows are sorted by the row of the input that they start in. The first window of a run of
equal rows then combines all of the run, a thread for each of its elements. Sums have the bits of
updates that are made one after the other, and nothing is atomic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod

from lowtide.codegen.arrays import strides
from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elements.operands import Bound
from lowtide.codegen.elements.reducers import carried, renamed
from lowtide.codegen.gpu.networks import SortTiling, TilePlace
from lowtide.codegen.gpu.record_sorts import RecordSort
from lowtide.codegen.gpu.scatter_threads import ScatterThread, ScatterThreads
from lowtide.codegen.indexing import Affine
from lowtide.codegen.library.records import Fields
from lowtide.codegen.library.scatter_form import ScatterForm, combine_reads
from lowtide.codegen.space import decomposed
from lowtide.codegen.value import Value
from lowtide.ir import Instruction
from lowtide.ir.thunk import GridLaunch
from lowtide.llvm.function import Function, Integer
from lowtide.llvm.target import Target
from lowtide.records import dataclass

_MOST = 1 << 32
"""Rows and windows, at most."""

_TOGETHER = 16
"""Updates of a run that are read at once, at most."""

_LINES = 400
"""Lines of code of the updates that are read at once, at most."""

_FEW = 64
"""Windows, at most, each of which an element of the result asks whether it lies in it."""

Part = tuple[list[Function], list[GridLaunch], list[str]]
"""Functions, their launches, and what the module defines besides."""


@dataclass(frozen=True, eq=False, slots=True)
class GpuScatter:
    """A scatter in an instruction's kernel, whose arrays `arrays` it updates.

    `number` tells the scatters of a kernel apart; scratch begins at `first`.
    """

    kernel: Instruction
    form: ScatterForm
    arrays: tuple[int, ...]
    target: Target
    number: int
    first: int

    @property
    def windows(self) -> int:
        """How many windows there are."""
        return prod([self.form.update_sizes[d] for d in self.form.batch])

    @property
    def along(self) -> list[tuple[int, int]]:
        """The dimensions of windows, of input and updates, those last that lie side by side."""
        step = strides(self.form.results[0])
        return sorted(self.form.window, key=lambda x: -step[x[0]])

    @property
    def columns(self) -> list[int]:
        """The sizes of `along`."""
        return [self.form.update_sizes[u] for _, u in self.along]

    @property
    def row_dimensions(self) -> list[int]:
        """The dimensions of the input of which a window has one element, not always the same."""
        form = self.form
        known = [d for d, _ in form.starts if form.window_size(d) != form.sizes[d]]
        return [*known, *[d for d, _ in form.batching]]

    @property
    def rows(self) -> int:
        """The rows in which windows start."""
        return prod([self.form.sizes[d] for d in self.row_dimensions])

    @property
    def number_bits(self) -> int:
        """The bits of the number of a window, the lowest ones of its record."""
        return (self.windows - 1).bit_length()

    @property
    def record_bits(self) -> int:
        """The bits of a record."""
        return 32 if self.rows.bit_length() + self.number_bits <= 32 else 64

    @property
    def nowhere(self) -> int:
        """The row of windows that are left out: all bits that a row has."""
        return (1 << self.record_bits - self.number_bits) - 1

    @property
    def way(self) -> Callable[[], Part] | None:
        """What writes the scatter, None where nothing does."""
        form = self.form
        if not prod(form.update_sizes) or not prod(form.sizes):
            return lambda: ([], [], [])
        if self.windows == 1 or form.numbers.unique_indices:
            return self._at_once
        is_row = all(form.window_size(d) == 1 for d in self.row_dimensions)
        if is_row and self.rows < _MOST and self.windows < _MOST:
            return self._by_rows
        return self._by_results if self.windows <= _FEW else None

    @property
    def sort(self) -> RecordSort:
        """The sort of windows by rows."""
        tiling, make = SortTiling(1, self.windows), partial(_row_record, self)
        name, type_ = f"scatter{self.number}", f"i{self.record_bits}"
        return RecordSort(self.kernel, self.target, tiling, 32, make, name, self.first, type=type_)

    @property
    def scratch_bytes(self) -> int:
        """The scratch of the sort, if there is one."""
        return self.sort.scratch_bytes if self.way == self._by_rows else 0

    def write(self) -> Part:
        """Return the functions, their launches, and what the module defines besides."""
        way = self.way
        assert way is not None
        return way()

    def _thread(self, name: str, count: int) -> ScatterThreads:
        name = f"scatter{self.number}{name}"
        return ScatterThreads(self.kernel, self.form, self.arrays, self.target, name, count)

    # -- windows that do not meet --------------------------------------------------------------

    def _at_once(self) -> Part:
        """A thread for each element of the updates."""
        thread = self._thread("once", prod(self.form.update_sizes))
        elements = thread.elements
        with thread.when_there() as number:
            window, column = self._split(elements, number)
            batch = thread.batch(window)
            starts = thread.starts(batch)
            with elements.scopes.when(thread.is_inside(starts)):
                origin = thread.origin(batch, starts)
                steps = self._steps(elements, column)
                old = thread.old(thread.place(origin, steps))
                new = thread.updates(batch, steps)
                thread.store(thread.place(origin, steps), thread.combined(old, new))
        return thread.part()

    def _split(self, elements: Elements, number: Integer) -> tuple[Integer, Integer]:
        fn, columns = elements.function, prod(self.columns)
        return fn.div(number, columns), fn.rem(number, columns)

    def _steps(self, elements: Elements, column: Integer) -> dict[int, Affine]:
        places = decomposed(elements, column, self.columns)
        return dict(zip([d for d, _ in self.along], places, strict=True))

    # -- windows by rows -----------------------------------------------------------------------

    def _by_rows(self) -> Part:
        """A thread for each element of the first window of a row, which combines them in turn."""
        functions, launches, texts = self.sort.write()
        thread = self._thread("rows", self.windows * prod(self.columns))
        fn, scopes = thread.fn, thread.elements.scopes
        with thread.when_there() as number:
            place, column = self._split(thread.elements, number)
            row = self._row_at(fn, place)[0]
            is_first = self._is_end(fn, place, row)
            is_there = fn.compare("ne", row, self.nowhere)
            with scopes.when(fn.op(f"and i1 {is_first}, {is_there}")):
                self._run(thread, place, row, column)
        function, launch, more = thread.part()
        return [*functions, *function], [*launches, *launch], [*texts, *more]

    def _row_at(self, fn: Function, place: Integer) -> tuple[str, str]:
        """The row and the number of the window at a place of the sorted ones."""
        sort = self.sort
        (record,) = sort.records.load(fn, fn.gep("%scratch", sort.sorted_at), place)
        if self.record_bits < 64:
            record = fn.op(f"zext i{self.record_bits} {record} to i64")
        row = fn.op(f"lshr i64 {record}, {self.number_bits}")
        return row, fn.op(f"and i64 {record}, {(1 << self.number_bits) - 1}")

    @property
    def _is_assignment(self) -> bool:
        """Whether the last update of a place is all that matters."""
        return not combine_reads(self.form.scatter.called_computations[0])

    def _is_end(self, fn: Function, place: Integer, row: str) -> str:
        """Whether a place is the end of a run that does the work: the last one of assignments."""
        if self._is_assignment:
            other, edge = fn.min(fn.add(place, 1), self.windows - 1), self.windows - 1
        else:
            other, edge = fn.max(fn.sub(place, 1), 0), 0
        differs = fn.compare("ne", self._row_at(fn, other)[0], row)
        return fn.op(f"or i1 {differs}, {fn.compare('eq', place, edge)}")

    def _run(self, thread: ScatterThread, place: Integer, row: str, column: Integer) -> None:
        """Combine what a run has for an element of a row, and store it."""
        elements = thread.elements
        fn = elements.function
        origin = dict(
            zip(
                self.row_dimensions,
                decomposed(elements, row, [self.form.sizes[d] for d in self.row_dimensions]),
                strict=True,
            )
        )
        steps = self._steps(elements, column)
        to = thread.place(origin, steps)
        if self._is_assignment:
            batch = thread.batch(self._row_at(fn, place)[1])
            new = thread.updates(batch, steps)
            thread.store(to, thread.combined(new, new))
            return
        totals = thread.old(to)
        together = self._together(thread, steps)
        start = str(fn.add(place, 0))
        carry = [("i64", start), *carried(totals)]
        with elements.scopes.repeat(carry) as loop:
            first = loop.values[0]
            now = renamed(totals, loop.values[1:])
            places = [fn.add(first, i) for i in range(together)]
            now, last = self._several(thread, places, row, steps, now)
            following = str(fn.add(first, together))
            loop.next = [following, *[x for value in now for x in value.names]]
            is_in = fn.compare("slt", following, self.windows)
            more, _ = self._row_at(fn, fn.min(following, self.windows - 1))
            same = fn.op(f"and i1 {fn.compare('eq', more, row)}, {is_in}")
            loop.again = fn.op(f"and i1 {same}, {last}")
        thread.store(to, renamed(totals, loop.results[1:]))

    def _together(self, thread: ScatterThread, steps: dict[int, Affine]) -> int:
        """How many updates are read at once."""
        trial = self._thread("trial", 1)
        with trial.when_there() as number:
            trial.updates(trial.batch(number), self._steps(trial.elements, number))
        expected = 1 << max(2 * self.windows // max(self.rows, 1), 1).bit_length()
        return max(1, min(_TOGETHER, expected, _LINES // max(len(trial.fn.lines), 1)))

    def _several(
        self,
        thread: ScatterThread,
        places: Sequence[Integer],
        row: str,
        steps: dict[int, Affine],
        totals: Sequence[Value],
    ) -> tuple[list[Value], str]:
        """The totals after some updates, so far as they are of the run; whether all are."""
        fn = thread.fn
        read: list[tuple[str, str, list[Value]]] = []
        for number, place in enumerate(places):
            found, window = self._row_at(fn, fn.min(place, self.windows - 1))
            same = fn.compare("eq", found, row)
            is_mine = (
                "true"
                if not number
                else fn.op(f"and i1 {same}, {fn.compare('slt', place, self.windows)}")
            )
            first = window if not number else read[0][1]
            window = fn.select(is_mine, "i64", window, first)
            read.append((is_mine, window, thread.updates(thread.batch(window), steps)))
        now = list(totals)
        for is_mine, _, new in read:
            after = thread.combined(now, new)
            now = thread.chosen(is_mine, after, now)
        return now, read[-1][0]

    # -- windows that may overlap --------------------------------------------------------------

    def _by_results(self) -> Part:
        """A thread for each element of the result, which asks all windows in turn."""
        form = self.form
        thread = self._thread("results", prod(form.sizes))
        elements = thread.elements
        fn = elements.function
        order = sorted(range(len(form.sizes)), key=lambda d: -strides(form.results[0])[d])
        with thread.when_there() as number:
            places = decomposed(elements, number, [form.sizes[d] for d in order])
            to = tuple([x for _, x in sorted(zip(order, places, strict=True), key=lambda x: x[0])])
            totals = thread.old(to)
            with elements.scopes.loop(0, self.windows, 1, carried(totals)) as loop:
                now = renamed(totals, loop.values)
                batch = thread.batch(loop.index)
                starts = thread.starts(batch)
                steps, is_mine = thread.steps_to(to, batch, starts)
                after = thread.combined(now, thread.updates(batch, steps))
                now = thread.chosen(is_mine, after, now)
                loop.next = [x for value in now for x in value.names]
            assert fn is elements.function
            thread.store(to, renamed(totals, loop.results))
        return thread.part()


def _row_record(work: GpuScatter, elements: Elements, bound: Bound, at: TilePlace) -> Fields:
    """The record of a window: the row it starts in, and its number."""
    fn, form = elements.function, work.form
    thread = ScatterThread(elements, bound, form, work.arrays)
    batch = thread.batch(at.place)
    starts = thread.starts(batch)
    inside = thread.is_inside(starts)
    positions = {d: elements.indices.scalar(batch[i]) for d, i in form.batching} | starts
    row: Integer = 0
    for d in work.row_dimensions:
        row = fn.add(fn.mul(row, form.sizes[d]), positions[d])
    row = fn.select(inside, "i64", row, work.nowhere)
    record = fn.op(f"or i64 {fn.op(f'shl i64 {row}, {work.number_bits}')}, {at.place}")
    narrow = work.record_bits < 64
    return (fn.op(f"trunc i64 {record} to i{work.record_bits}") if narrow else record,)
