"""Schedules: which axis of a loop form runs where, and in which pieces, by the cost of accesses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import gcd, prod
from typing import Final

from benchmarks.loop_form.form import Access, Kind, LoopForm

from lowtide.codegen.cpu.cost import loop_seconds, vector_cycles, widest
from lowtide.codegen.cpu.order import LoopOrder, order_of
from lowtide.codegen.cpu.reduction.partials import Partials, part_count
from lowtide.codegen.cpu.reduction.totals import total_types
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

_BESIDE: Final = 8
"""Vectors side by side whose totals are in registers at once."""


@dataclass(frozen=True, eq=False, slots=True)
class Schedule:
    """How a form runs on a processor with vectors.

    Lanes are steps of axis `lane`. `order` has the parallel axes, outermost first. Pieces of work
    are each step of its first `outer` axes and `block` positions of the next one. `beside` vectors
    are computed at once, `turns` totals take turns along the lanes, and rows are in `parts`, which
    a second nest adds up. `how` is how the order of a nest without sums was found: its tiles.
    """

    form: LoopForm
    lane: int
    lanes: int
    order: tuple[int, ...]
    outer: int
    block: int
    beside: int = 1
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
    def row_count(self) -> int:
        """The number of rows."""
        return self.form.points(Kind.PARALLEL)

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
    sizes = form.space.sizes
    raw_lanes = max(form.target.vector_bytes // widest(members(form.instruction), _raw(form)), 2)
    how = order_of(form.trial, form.space.groups, sizes, raw_lanes)
    others = [x for x in range(len(sizes)) if x not in (how.lane, how.unrolled, how.tiled)]
    order = (*others, *[x for x in (how.tiled, how.lane) if x is not None])
    within = 1 if how.unrolled is None else sizes[how.unrolled]
    one = Schedule(form, how.lane, how.lanes, order, 0, 1, how=how)
    steps = [*[one.step(x) for x in order[:-1]], max(how.lanes, 1)]
    outer, block = _pieces([sizes[x] for x in order], steps, within)
    return replace(one, outer=outer, block=block)


def _raw(form: LoopForm) -> dict[object, object]:
    from lowtide.codegen.elements.moves import moved_types

    return dict(moved_types(members(form.instruction)))


def _of_sums(form: LoopForm) -> Schedule:
    assert form.sums is not None
    lane = _best_lane(form)
    is_across = form.axes[lane].kind is Kind.PARALLEL
    is_monoid = all(monoid_of(x.called_computations[0]) is not None for x in form.sums.heroes)
    most, size = (
        max(form.target.vector_bytes // widest(members(form.instruction)), 2),
        form.axes[lane].size,
    )
    lanes = 1
    while lanes < min(most, size):
        lanes *= 2
    if not is_across and lanes > size and not is_monoid:
        lanes //= 2
    order = tuple(sorted(form.numbers(Kind.PARALLEL), key=lambda x: x == lane))
    length, rows = form.points(Kind.REDUCED), form.points(Kind.PARALLEL)
    beside = 1
    while (
        is_across
        and form.sweeps == 1
        and length > 8
        and beside < _BESIDE
        and 2 * beside * lanes <= size
    ):
        beside *= 2
    turns = 1 if is_across else max(1, min(_TURNS, -(-size // lanes)))
    step = lanes * beside if is_across else 1
    outer, block = _pieces(
        [form.axes[x].size for x in order], [1] * (len(order) - 1) + [step], length
    )
    one = Schedule(form, lane, lanes if lanes > 1 else 0, order, outer, block, beside, turns)
    turn = turns * lanes if not is_across and len(one.inner_sizes) == 1 else 1
    parts = (
        part_count(one.inner_sizes[0], turn, one.units, rows * length) if form.sweeps == 1 else 1
    )
    if parts == 1:
        return one
    made = Partials(one, total_types(form.sums), parts, turn)
    if made.count == 1:
        return one
    return replace(one, parts=made)


def finish_of(schedule: Schedule) -> Schedule:
    """Return how the nest runs that adds up parts of rows: along the last axis of these."""
    form, most = schedule.form, max(schedule.lanes, 2)
    order = form.numbers(Kind.PARALLEL)
    size = form.axes[order[-1]].size if order else 1
    lanes = 1
    while lanes < min(most, size):
        lanes *= 2
    outer, block = _pieces([form.axes[x].size for x in order], [1] * (len(order) - 1) + [lanes], 8)
    lane = order[-1] if order else schedule.lane
    return Schedule(
        form, lane, lanes if lanes > 1 else 0, order, outer, block, parts=schedule.parts
    )


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


@dataclass(frozen=True, slots=True)
class _Runs:
    """What a sum in parts is divided by: its steps, and how many sums there are."""

    inner_sizes: tuple[int, ...]
    row_count: int


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
    lane, count = form.numbers(Kind.PARALLEL)[-1], form.points(Kind.PARALLEL)
    for access in sorted(form.accesses, key=lambda x: -x.array.shape.nbytes):
        sizes = [x.size for x in form.axes]
        along = [i for i, x in enumerate(access.steps) if x == 1 and i != lane and sizes[i] >= 16]
        is_turned = access.is_affine and not access.is_store and access.steps[lane] >= 16
        if (
            is_turned
            and along
            and sizes[lane] >= 16
            and min(access.steps) >= 0
            and count >= 1 << 14
        ):
            nbytes = access.array.shape.element_type.nbytes
            if not access.array.shape.element_type.is_complex:
                return ThreadSchedule(form, lane, 0, tiled=along[-1], side=_SIDE[nbytes])
    lanes = _thread_lanes(form, lane, 2400)
    return ThreadSchedule(form, lane, lanes if count // max(lanes, 1) >= _LEAST_THREADS else 0)


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
