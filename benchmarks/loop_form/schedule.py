"""Schedules: which axis of a loop form runs where, and in which pieces, by the cost of accesses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import gcd, prod
from typing import Final

from benchmarks.loop_form.form import Access, Kind, LoopForm

from lowtide.codegen.cpu.cost import loop_seconds, vector_cycles, widest
from lowtide.codegen.cpu.order import LoopOrder, lanes_for, order_of
from lowtide.codegen.cpu.reduction.partials import Partials, part_count
from lowtide.codegen.cpu.reduction.totals import total_types
from lowtide.codegen.elements.moves import moved_types
from lowtide.codegen.elements.operands import members
from lowtide.codegen.elements.reducers import monoid_of
from lowtide.records import dataclass

_APART: Final = 10.0
"""Cost of a vector of elements that lie apart, in those of one that is loaded as it lies."""

_FOLD: Final = 8.0
"""The same of adding up the lanes of a vector, in those of a row."""

_LEAST_PIECE: Final = 8192
_LARGEST_PIECE: Final = 65536
_PIECES: Final = 16
"""Points of a piece of work, and how many pieces there are where they are neither."""

_TURNS: Final = 4
"""Totals that take turns along a row: as many as hide the time that an addition takes."""

_TILED: Final = 256
"""Steps of an axis, the tiles of which follow each other."""

_SHORT: Final = 8
"""Points of a row up to which it is written out."""

_LEAST_COLUMNS: Final = 256
_MOST_COLUMNS: Final = 2048
"""Rows side by side whose totals are in scratch."""

_LINES: Final = 8
"""Lines of all arrays together that are read or written at the same time."""

_BESIDE: Final = 8
"""Vectors side by side whose totals are in registers at once."""


@dataclass(frozen=True, slots=True)
class _Runs:
    """What a sum in parts is divided by: its steps, and how many sums there are."""

    inner_sizes: tuple[int, ...]
    row_count: int


@dataclass(frozen=True, eq=False, slots=True)
class Schedule:
    """How a form runs on a processor with vectors.

    Lanes are steps of axis `lane`. `order` has the parallel axes, outermost first. Pieces of work
    are each step of its first `outer` axes and `block` positions of the next one. `beside` vectors
    are computed at once, `turns` totals take turns along the lanes, and rows are in `parts`, which
    a second nest adds up. With `lines` reduced axes lie around that of the lanes: so many lines are
    added at once to totals of `block` rows side by side, which are in scratch. `how` is how the
    order of a nest without sums was found: its tiles. With `is_grouped` as many rows as there are
    lanes are swept one after the other, and finished at once.
    """

    form: LoopForm
    lane: int
    lanes: int
    order: tuple[int, ...]
    outer: int
    block: int
    beside: int = 1
    lines: int = 0
    is_grouped: bool = False
    turns: int = 1
    parts: Partials | None = None
    how: LoopOrder | None = None

    @property
    def tile(self) -> int:
        """The steps of the tiled axis that follow each other in tiles, 1 where nothing is tiled."""
        return _TILED // self.how.rows * self.how.rows if self.how and self.how.rows else 1

    def step(self, axis: int) -> int:
        """Return how many positions of a parallel axis but the last a loop takes at once."""
        return self.tile if self.how and axis == self.how.tiled else 1

    @property
    def trips(self) -> tuple[int, ...]:
        """The steps of the loops that are cut into pieces of work as they are."""
        pairs = zip(self.order, self.sizes, strict=True)
        return tuple([-(-size // self.step(x)) for x, size in pairs])[: self.outer]

    @property
    def is_across(self) -> bool:
        """Whether lanes belong to different rows."""
        return self.form.axes[self.lane].kind is Kind.PARALLEL

    @property
    def inner(self) -> tuple[int, ...]:
        """The reduced axes, outermost first."""
        return tuple(sorted(self.form.numbers(Kind.REDUCED), key=lambda x: x == self.lane))

    @property
    def inner_sizes(self) -> tuple[int, ...]:
        """Their sizes."""
        return tuple([self.form.axes[x].size for x in self.inner])

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes along `order`."""
        return tuple([self.form.axes[x].size for x in self.order])

    @property
    def units(self) -> int:
        """The pieces of work."""
        return prod(self.trips) * self.blocks * (self.parts.count if self.parts else 1)

    @property
    def blocks(self) -> int:
        """The pieces of work along the axis that is cut."""
        return -(-self.sizes[self.outer] // self.block) if self.order else 1

    @property
    def seconds(self) -> float:
        """About how long a piece of work takes."""
        points = prod([x.size for x in self.form.axes])
        cycles = vector_cycles(members(self.form.instruction)) / max(self.lanes, 1)
        cycles += self.how.cost if self.how else 0.0
        return (
            loop_seconds(sum([_bytes(x, self.form) for x in self.form.accesses]), points * cycles)
            / self.units
        )


def _bytes(access: Access, form: LoopForm) -> int:
    shape = access.array.shape
    points = prod([x.size for x, step in zip(form.axes, access.steps, strict=True) if step])
    return min(points, shape.element_count) * shape.element_type.nbytes


def schedule_of(form: LoopForm) -> Schedule:
    """Return how a form runs on a processor with vectors."""
    return _of_points(form) if form.sums is None else _of_sums(form)


def _of_points(form: LoopForm) -> Schedule:
    sizes, inner = form.space.sizes, members(form.instruction)
    most = max(form.target.vector_bytes // widest(inner, moved_types(inner)), 2)
    how = order_of(form.trial, form.space.groups, sizes, most)
    others = [x for x in range(len(sizes)) if x not in (how.lane, how.unrolled, how.tiled)]
    order = (*others, *[x for x in (how.tiled, how.lane) if x is not None])
    within = 1 if how.unrolled is None else sizes[how.unrolled]
    one = Schedule(form, how.lane, how.lanes, order, 0, 1, how=how)
    steps = [*[one.step(x) for x in order[:-1]], max(how.lanes, 1)]
    outer, block = _pieces([sizes[x] for x in order], steps, within)
    return replace(one, outer=outer, block=block)


def _of_sums(form: LoopForm) -> Schedule:
    assert form.sums is not None
    lane, length, rows = _best_lane(form), form.points(Kind.REDUCED), form.points(Kind.PARALLEL)
    is_across = form.axes[lane].kind is Kind.PARALLEL
    is_monoid = all(monoid_of(x.called_computations[0]) is not None for x in form.sums.heroes)
    size = form.axes[lane].size
    lanes = lanes_for(size, max(form.target.vector_bytes // widest(members(form.instruction)), 2))
    if not is_across and lanes > size and not is_monoid:
        lanes //= 2
    order = tuple(sorted(form.numbers(Kind.PARALLEL), key=lambda x: x == lane))
    beside, lines, turns = 1, 0, 1
    if not is_across:
        whole = -(-size // max(lanes, 1)) if is_monoid else size // max(lanes, 1)
        turns = max(1, min(_TURNS, whole))
    elif form.sweeps == 1 and length > _SHORT and lanes:
        if size > _BESIDE * lanes or not is_monoid:
            lines = _lines_at_once(form)
        while not lines and 2 * beside * lanes <= size:
            beside *= 2
    is_grouped = not is_across and _is_grouped(form, lanes, order)
    step = max(lanes, 1) * beside if is_across or is_grouped else 1
    sizes = [form.axes[x].size for x in order]
    outer, block = _pieces(sizes, [1] * (len(order) - 1) + [step], length)
    if lines:
        outer, block = len(order) - 1, _columns_of(form, size, lanes)
    one = Schedule(form, lane, lanes, order, outer, block, beside, lines, is_grouped, turns)
    turn = max(lines, 1) if is_across else turns * max(lanes, 1)
    turn = turn if len(one.inner_sizes) == 1 else 1
    units = one.units if is_across else rows
    parts = part_count(one.inner_sizes[0], turn, units, rows * length)
    if parts == 1 or form.sweeps > 1:
        return one
    runs = _Runs(one.inner_sizes, rows)
    made = Partials(runs, total_types(form.sums), parts, turn)  # type: ignore[arg-type]
    return one if made.count == 1 else replace(one, parts=made, is_grouped=False)


def _is_grouped(form: LoopForm, lanes: int, order: Sequence[int]) -> bool:
    """Whether rows are short ones, of which a vector's lanes have one each in the end."""
    assert form.sums is not None
    if lanes < 4 or form.sweeps > 1 or not order or any(x.is_full for x in form.sums.results):
        return False
    types = total_types(form.sums)
    is_short = form.points(Kind.REDUCED) <= 32 * lanes and not any(x.is_complex for x in types)
    return is_short and form.axes[order[-1]].size >= lanes


def _columns_of(form: LoopForm, size: int, lanes: int) -> int:
    """How many rows side by side have totals in scratch: of large arrays as many as fit."""
    points = prod([x.size for x in form.axes])
    wanted = -(-form.points(Kind.PARALLEL) // _PIECES)
    if points >= _PIECES << 15:
        wanted = _MOST_COLUMNS
    return -(-min(max(wanted, _LEAST_COLUMNS), _MOST_COLUMNS, size) // lanes) * lanes


def _lines_at_once(form: LoopForm) -> int:
    """How many lines are read at the same time: fewer where much is computed of each."""
    points = prod([x.size for x in form.axes])
    arrays = len([x for x in form.accesses if x.array.shape.element_count == points])
    cycles, lines = vector_cycles(members(form.instruction)), _LINES
    last = form.axes[form.numbers(Kind.REDUCED)[-1]].size
    while lines > 1 and (lines * arrays > _LINES or lines * cycles > 80 or lines > last):
        lines //= 2
    return lines


def finish_of(schedule: Schedule) -> Schedule:
    """Return how the nest runs that adds up parts of rows: along the last axis of these."""
    form, most = schedule.form, max(schedule.lanes, 2)
    order = form.numbers(Kind.PARALLEL)
    size = form.axes[order[-1]].size if order else 1
    lanes, sizes = lanes_for(size, most), [form.axes[x].size for x in order]
    outer, block = _pieces(sizes, [1] * (len(order) - 1) + [max(lanes, 1)], _SHORT)
    lane = order[-1] if order else schedule.lane
    return Schedule(form, lane, lanes, order, outer, block, parts=schedule.parts)


def _best_lane(form: LoopForm) -> int:
    """The axis along which vectors cost least, the last of those that cost the same."""
    assert form.sums is not None
    most = max(form.target.vector_bytes // widest(members(form.instruction)), 2)
    parallel, reduced = form.numbers(Kind.PARALLEL), form.numbers(Kind.REDUCED)
    costs = []
    for number, axis in enumerate(form.axes):
        last = number if axis.kind is Kind.REDUCED else reduced[-1]
        moves = 1.0
        for access in form.accesses:
            weight = 1.0 if access.steps[last] else 0.1
            step = abs(access.steps[number])
            apart = min(1.5 * step, _APART) if step > 1 else 1.0
            moves += weight * (apart if access.is_affine else _APART)
        cost = -(-axis.size // most) * moves
        if axis.kind is Kind.REDUCED:
            is_grouped = bool(parallel) and form.sweeps == 1
            cost += (3.0 if is_grouped else _FOLD) * len(form.sums.heroes)
        costs.append((cost / axis.size, -number))
    return -min(costs)[1]


def _pieces(sizes: Sequence[int], steps: Sequence[int], within: int) -> tuple[int, int]:
    """Return before which axis nests are cut, and how many positions of it a piece has."""
    if not sizes:
        return 0, 1
    most = min(max(prod(sizes) * within // _PIECES, _LEAST_PIECE), _LARGEST_PIECE)
    inside = [within * prod(sizes[i + 1 :]) for i in range(len(sizes))]
    outer = next((i for i, x in enumerate(steps) if x * inside[i] <= most), len(sizes) - 1)
    size, step = sizes[outer], steps[outer]
    block = max(most // inside[outer] // step, 1) * step
    block = -(-size // -(-size // block) // step) * step
    return outer, block


# -- graphics processors -----------------------------------------------------------------------

WARP: Final = 32
"""Threads that run in step."""

_WIDE: Final = 1 << 17
"""Threads that keep a large device busy."""

_LEAST_THREADS: Final = 1 << 14
"""Threads that are worth more than several lanes in each."""

_LINES_OF_LANE: Final = 600
"""Lines of code of a point, at most, that are written for several lanes."""

_SHORT_SIDE: Final = 16
"""Elements along either axis of a tile that are worth one."""

_SIDE: Final = {1: 64, 2: 64, 4: 64, 8: 32}
"""The side of a tile in shared memory by the bytes of its elements."""


@dataclass(frozen=True, eq=False, slots=True)
class ThreadSchedule:
    """How a form runs on a graphics processor.

    `warps` of a block make the sums of a row together, 0 where each thread has rows of its own. A
    thread takes `lanes` steps of axis `lane` side by side, 0 for one. `together` rows are in one
    block. With `is_held` a thread keeps what it has of a row. Rows are in `parts`, which a second
    nest adds up. A block has a tile of axes `tiled` and `lane`, `side` steps of each, where an
    array is read across memory.
    """

    form: LoopForm
    lane: int
    lanes: int
    warps: int = 0
    together: int = 256
    is_held: bool = False
    parts: Partials | None = None
    tiled: int | None = None
    side: int = 0

    @property
    def order(self) -> tuple[int, ...]:
        """The parallel axes, that of the lanes last."""
        return tuple(sorted(self.form.numbers(Kind.PARALLEL), key=lambda x: x == self.lane))

    @property
    def inner(self) -> tuple[int, ...]:
        """The reduced axes, outermost first."""
        return tuple(sorted(self.form.numbers(Kind.REDUCED), key=lambda x: x == self.lane))

    @property
    def threads(self) -> int:
        """The threads of a block."""
        return max(self.warps * WARP, 1) * self.together


def thread_schedule_of(form: LoopForm) -> ThreadSchedule | None:
    """Return how a form runs on a graphics processor; None where no threads share such a sum."""
    if form.sums is None:
        return _threads_of_points(form)
    if any(monoid_of(x.called_computations[0]) is None for x in form.sums.heroes):
        return None
    reduced, length = form.numbers(Kind.REDUCED), form.points(Kind.REDUCED)
    is_along = any(x.steps[reduced[-1]] == 1 and not x.is_store for x in form.accesses)
    return _teams(form, length) if is_along and length >= WARP else _columns(form, length)


def _threads_of_points(form: LoopForm) -> ThreadSchedule:
    lane = form.numbers(Kind.PARALLEL)[-1]
    for access in sorted(form.accesses, key=lambda x: -x.array.shape.nbytes):
        tiled, type_ = _tiled_axis(form, access, lane), access.array.shape.element_type
        if tiled is not None and not type_.is_complex:
            return ThreadSchedule(form, lane, 0, tiled=tiled, side=_SIDE[type_.nbytes])
    lanes = _thread_lanes(form, lane, 2400)
    is_many = form.points(Kind.PARALLEL) // max(lanes, 1) >= _LEAST_THREADS
    return ThreadSchedule(
        form, lane, lanes if is_many and form.trial.lines <= _LINES_OF_LANE else 0
    )


def _tiled_axis(form: LoopForm, access: Access, lane: int) -> int | None:
    """The axis along which a large array lies that is read across memory, None for others."""
    sizes, steps = [x.size for x in form.axes], access.steps
    if not access.is_affine or access.is_store or min(steps) < 0:
        return None
    if (
        access.array.shape.element_count < _LEAST_THREADS
        or min(steps[lane], sizes[lane]) < _SHORT_SIDE
    ):
        return None
    along = [i for i, x in enumerate(steps) if x == 1 and i != lane and sizes[i] >= _SHORT_SIDE]
    return along[-1] if along else None


def _columns(form: LoopForm, length: int) -> ThreadSchedule:
    """A row, or some side by side, for each thread."""
    assert form.sums is not None
    parallel, rows = form.numbers(Kind.PARALLEL), form.points(Kind.PARALLEL)
    beside = [i for i in parallel if any(x.steps[i] == 1 and not x.is_store for x in form.accesses)]
    lane = [*parallel, *beside][-1] if parallel else form.numbers(Kind.REDUCED)[-1]
    lanes = _thread_lanes(form, lane, 2400) if parallel else 0
    one = ThreadSchedule(form, lane, lanes, together=128)
    wanted = min(_WIDE // max(rows // max(lanes, 1), 1), length // 16, 512)
    if form.sweeps > 1 or wanted < 2:
        return one
    runs = _Runs(tuple([form.axes[x].size for x in one.inner]), rows)
    made = Partials(runs, total_types(form.sums), min(wanted, runs.inner_sizes[0]), 1)  # type: ignore[arg-type]
    return replace(one, parts=made) if made.count > 1 else one


def _teams(form: LoopForm, length: int) -> ThreadSchedule:
    """A warp or a block for each row, or for each part of one."""
    assert form.sums is not None
    lane, rows = form.numbers(Kind.REDUCED)[-1], form.points(Kind.PARALLEL)
    lanes = _thread_lanes(form, lane, 4000)
    warps = next((x for x in (1, 4, 8) if length <= x * WARP * 32), 16)
    steps = -(-length // max(warps * WARP * max(lanes, 1), 1))
    is_held = form.sweeps > 1 and steps <= 16 and steps * max(lanes, 1) * form.trial.lines <= 4000
    one = ThreadSchedule(form, lane, lanes, warps, 4 if warps == 1 else 1, is_held)
    if form.sweeps > 1 or rows >= 512 or length < 1 << 15:
        return one
    runs = _Runs((length // max(lanes, 1),), rows)
    parts = max(1, min(512 // rows, runs.inner_sizes[0] // 1024))
    made = Partials(runs, total_types(form.sums), parts, 256)  # type: ignore[arg-type]
    return replace(one, warps=8, parts=made if made.count > 1 else None)


def thread_finish_of(schedule: ThreadSchedule) -> ThreadSchedule:
    """Return how the nest runs that adds up parts: a thread for each row, or a warp."""
    assert schedule.parts is not None
    warps = int(schedule.parts.count >= 16)
    lane = schedule.form.numbers(Kind.REDUCED)[-1]
    return replace(schedule, lane=lane, lanes=0, warps=warps, together=4 if warps else 128)


def _thread_lanes(form: LoopForm, lane: int, most_lines: int) -> int:
    """How many steps of an axis a thread takes side by side, 0 for one."""
    shapes = [x.array.shape for x in form.accesses]
    largest = max([x.element_count for x in shapes], default=1)
    wide = [x.element_type.nbytes for x in shapes if 2 * x.element_count >= largest]
    lanes = gcd(16 // min(max(wide, default=4), 16), form.axes[lane].size)
    while lanes * form.trial.lines > most_lines:
        lanes //= 2
    return lanes if lanes > 1 else 0
