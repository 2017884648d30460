"""Several quick ways, then improvement where the arena is above the most that is live at once.

Best fit is tried in several orders, and filling from below in several manners. Time is split into
parts that no buffer outlives. They are packed by themselves, and the work goes to those that are
higher than the most bytes live in all. Few buffers are packed exactly. What sticks out in one try
is placed earlier in the next one, as in Joslin and Clements ("Squeaky Wheel Optimization", 1999).
How much is tried depends on the problem only.
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import islice
from typing import Final

import numpy as np

from lowtide.planning.exact.few import MOST as MOST_OF_FEW
from lowtide.planning.exact.few import lowest
from lowtide.planning.offsets.best_fit import MANY, best_fit_in_order
from lowtide.planning.plans import Packing
from lowtide.planning.problem import ARENA, FREE, Int64Array, PackingProblem, dense_times
from lowtide.planning.registry import OffsetStrategy
from lowtide.planning.scale.incumbent import BEGUN, UNKNOWN, Incumbent, LateError
from lowtide.planning.scale.orders import only, orders
from lowtide.search.effort import Effort, SearchOptions, StopReason

_PAIRS: Final = 10_000_000
"""The number of pairs of buffers that live together to look at in all orders of best fit."""

_MOVED_PAIRS: Final = 5_000_000
"""The number of pairs to look at in all tries to improve packings."""

_PLACED: Final = 15_000
"""The number of buffers to place in all tries to improve packings of few."""

_FEW: Final = 200
"""Fewer buffers are few."""

_LOADED: Final = 1_000
"""So many buffers to place take Python longer than compiled code, which is to be loaded first."""

_MOST_MOVES: Final = 150
"""The number of tries to improve one packing: few buffers settle at once or never."""

_STARTS: Final = 3
"""The number of packings to improve."""

_ALL: Final = 1_000
"""Behind the last order of best fit."""

_MOST_MANNERS: Final = 100
"""The number of manners of filling to try at most."""

_WORK: Final = 30_000_000
"""The work of filling a problem, in buffers looked at."""

_WORK_EACH: Final = 400
"""More of it for each buffer."""


def portfolio(problem: PackingProblem, options: SearchOptions) -> Packing:
    """Return the lowest packing of several tries.

    With the effort `FAST` the second half is left out.
    """
    dense = dense_times(problem)
    rows = np.bincount(dense.item, minlength=len(dense))
    sized = np.flatnonzero((dense.nbytes > 0) & (rows > 0) | (dense.fixed_offset != FREE))
    incumbent, stopped = Incumbent(only(dense, sized), options), StopReason.DONE
    key = (options.capacity, *[x.tobytes() for x in _columns(problem)])
    begun = None if options.effort == Effort.FAST else BEGUN.take(key)
    try:
        if begun is None:
            begun = incumbent, _begin(incumbent, options.effort)
        else:
            begun[0].go_on(options)
            incumbent = begun[0]
        if options.effort != Effort.FAST:
            _go_on(*begun)
        elif _begins_all(incumbent):
            BEGUN.keep(key, *begun)
    except LateError:
        stopped = StopReason.DEADLINE
    except KeyboardInterrupt:
        if incumbent.height == UNKNOWN:
            raise
        stopped = StopReason.INTERRUPT
    if stopped == StopReason.DONE and incumbent.height > incumbent.target:
        stopped = StopReason.LIMIT
    return _with_empty(problem, sized, incumbent.packing(stopped))


def packed_once(problem: PackingProblem, options: SearchOptions) -> Packing:
    """Return what `portfolio` does; of few buffers that were packed of late, that packing again.

    Plans ask several times for one packing: of live ranges in two ways, and of loop bodies.
    """
    if len(problem) > _FEW:
        return portfolio(problem, options)
    key = (options.effort, options.capacity, *[x.tobytes() for x in _columns(problem)])
    found = _KEPT.pop(key, None)
    if found is None:
        found = portfolio(problem, options)
        if found.stopped not in (StopReason.DONE, StopReason.LIMIT):
            return found
        found.region.setflags(write=False)
        found.offset.setflags(write=False)
    _KEPT[key] = found
    if len(_KEPT) > _MOST_KEPT:
        _KEPT.popitem(last=False)
    return found


def _columns(problem: PackingProblem) -> tuple[Int64Array, ...]:
    return (
        problem.nbytes,
        problem.alignment,
        problem.item,
        problem.first,
        problem.last,
        problem.fixed_offset,
        problem.region_of,
        problem.region_bytes,
    )


_KEPT: Final[OrderedDict[tuple[object, ...], Packing]] = OrderedDict()
_MOST_KEPT: Final = 16
"""So many packings are remembered, the latest."""


def _with_empty(problem: PackingProblem, sized: Int64Array, packing: Packing) -> Packing:
    """The packing in which buffers that need no bytes lie where the arena begins."""
    region = np.full(len(problem), ARENA, np.int64)
    offset = np.zeros(len(problem), np.int64)
    region[sized], offset[sized] = packing.region, packing.offset
    height, bound, stopped = packing.arena_bytes, packing.bound, packing.stopped
    return Packing(region, offset, height, bound, stopped=stopped)


def _begin(incumbent: Incumbent, effort: Effort) -> int:
    """Try what is quick; return the work of filling."""
    work = _try_manners(incumbent, 0, 1) if len(incumbent.problem) >= MANY else 0
    _try_orders(incumbent, 0, 1)
    _settle_few(incumbent, effort)
    _try_orders(incumbent, 1, _ALL)
    return work


def _go_on(incumbent: Incumbent, work: int) -> None:
    """Try the rest, some `work` of filling having been done."""
    _try_manners(incumbent, int(len(incumbent.problem) >= MANY), _MOST_MANNERS, work)
    _move_blame(incumbent)


def _begins_all(incumbent: Incumbent) -> bool:
    """Whether the quick half of any effort comes to this: few buffers are packed by effort."""
    is_region = bool(len(incumbent.problem.region_bytes))
    return is_region or len(incumbent.open_buffers()) > MOST_OF_FEW


def _settle_few(incumbent: Incumbent, effort: Effort) -> None:
    """Pack few open buffers exactly; where that comes to its end, nothing is open afterwards."""
    buffers = incumbent.open_buffers()
    if not 0 < len(buffers) <= MOST_OF_FEW or len(incumbent.problem.region_bytes):
        return
    problem = only(incumbent.problem, buffers)
    found = lowest(problem, incumbent.height, incumbent.target, effort)
    if found.offsets is not None:
        incumbent.offer(buffers, _in_arena(problem, found.offsets))
    if found.ended:
        incumbent.prove(incumbent.height)


def _try_manners(incumbent: Incumbent, first: int, behind: int, work: int = 0) -> int:
    """Fill the open parts from below, in manners from `first` on; return the work.

    Some `work` was done already. One more manner has to be affordable after that.
    """
    if not incumbent.open_parts:
        return work
    from lowtide.planning.scale.fill import fill, manners  # Most small problems are closed by now.

    most = _WORK + _WORK_EACH * len(incumbent.problem)
    spent = last = work
    for manner in islice(manners(behind), first, None):
        buffers = incumbent.open_buffers()
        if not len(buffers) or spent + last > most:
            break
        problem = dense_times(only(incumbent.problem, buffers))
        limit = incumbent.height - 1 if incumbent.open_parts == 1 else UNKNOWN
        filling = fill(problem, manner, limit, incumbent.check)
        spent, last = spent + filling.work, max(last, filling.work)
        if filling.offsets is not None:
            incumbent.offer(buffers, _in_arena(problem, filling.offsets))
    return spent


def _in_arena(problem: PackingProblem, offset: Int64Array) -> Packing:
    """The packing with all buffers in the arena that are not fixed in a region."""
    region = np.where(problem.fixed_offset == FREE, ARENA, problem.region_of)
    top = np.where(region == ARENA, offset + problem.nbytes, 0)
    return Packing(region, offset, int(top.max(initial=0)))


def _try_orders(incumbent: Incumbent, first: int, behind: int) -> None:
    """Place the buffers of the open parts by best fit, in orders from `first` to `behind`."""
    buffers = incumbent.open_buffers()
    if not len(buffers):
        return
    problem = only(incumbent.problem, buffers)
    large = len(problem) >= MANY
    count = behind if not large else min(behind, _PAIRS // _pairs(problem))
    if incumbent.height == UNKNOWN:
        count = max(count, 1)
    chosen = list(islice(orders(problem), first, max(count, first)))
    compiled = large or len(chosen) * len(problem) >= _LOADED
    for order in chosen:
        incumbent.check()
        incumbent.offer(buffers, _placed(incumbent, problem, order, compiled=compiled))
        if not incumbent.open_parts:
            return


def _move_blame(incumbent: Incumbent) -> None:
    """Improve the best packings by best fit: what sticks out is placed earlier."""
    buffers = incumbent.open_buffers()
    if not len(buffers):
        return
    problem = only(incumbent.problem, buffers)
    many = len(problem) >= _FEW
    most = _MOVED_PAIRS // _pairs(problem) if many else _PLACED // len(problem)
    moves = min(_MOST_MOVES, most // _STARTS)
    if not moves:
        return
    compiled = many or _STARTS * moves * len(problem) >= _LOADED
    starts = [
        (_placed(incumbent, problem, order, compiled=compiled), order)
        for order in islice(orders(problem), max(_STARTS, moves))
    ]
    starts.sort(key=lambda start: start[0].arena_bytes)
    for packing, order in starts[:_STARTS]:
        random = np.random.default_rng(0)
        for _ in range(moves):
            incumbent.offer(buffers, packing)
            if not incumbent.open_parts:
                return
            order = _with_blame(problem, packing, order, incumbent.target, random)
            packing = _placed(incumbent, problem, order, compiled=compiled)
        incumbent.offer(buffers, packing)


def _with_blame(
    problem: PackingProblem,
    packing: Packing,
    order: Int64Array,
    target: int,
    random: np.random.Generator,
) -> Int64Array:
    """The order with what lies above the target in the arena moved forward, by chance."""
    tops = packing.offset[order] + problem.nbytes[order]
    blamed = (packing.region[order] == ARENA) & (tops > target)
    rank = np.arange(len(order), dtype=np.float64)
    rank[blamed] *= random.random(int(blamed.sum()))
    return order[np.argsort(rank, kind="stable")]


def _placed(
    incumbent: Incumbent, problem: PackingProblem, order: Int64Array, *, compiled: bool
) -> Packing:
    if compiled:
        from lowtide.planning.scale import gaps

        return gaps.best_fit_in_order(problem, order, incumbent.check)
    incumbent.check()
    return best_fit_in_order(problem, order)


def _pairs(problem: PackingProblem) -> int:
    """About how many pairs of buffers live together, borders of regions counted in; at least 1."""
    dense = dense_times(problem)
    count = np.zeros(int(dense.last.max(initial=0)) + 2, np.int64)
    np.add.at(count, dense.first, 1)
    np.subtract.at(count, dense.last + 1, 1)
    live = np.cumsum(count)[dense.first]
    return max(1, int(live.sum()) + len(dense.item) * len(problem.region_bytes))


STRATEGIES: Final = (
    OffsetStrategy(
        "portfolio",
        portfolio,
        "Filling from below and best fit, each in several ways, improved where it sticks out.",
        "Burke et al. 2004; Joslin and Clements 1999; the combination is lowtide's own",
        frozenset({"alignment", "fixed", "gaps", "regions"}),
    ),
)
