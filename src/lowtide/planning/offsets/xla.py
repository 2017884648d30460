"""XLA's heap algorithms on lifetimes that are given, instead of a list of events."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from lowtide.planning.heap.best_fit import PlacingOrder, place_intervals
from lowtide.planning.heap.intervals import Interval
from lowtide.planning.heap.steps import HeapLayout
from lowtide.planning.plans import Packing, arena_packing
from lowtide.planning.problem import PackingProblem
from lowtide.planning.registry import OffsetStrategy
from lowtide.search.effort import SearchOptions


def best_of_orders(
    problem: PackingProblem, _: SearchOptions, *, orders: tuple[PlacingOrder, ...]
) -> Packing:
    """Return the smallest packing of several orders, the first of equal ones.

    A buffer goes to the smallest gap that is free while it lives, the lowest of equal ones. One
    that is live in several stretches counts as several that share a place: its duration is that of
    the first.
    """
    found = _intervals(problem)
    alignment = problem.alignment.tolist()
    layouts = [place_intervals(found, alignment, order) for order in orders]
    chunks = min(layouts, key=_height).heaps[0].chunks
    return arena_packing(problem, [chunks[item].offset for item in range(len(problem))])


def _height(layout: HeapLayout) -> int:
    return layout.nbytes


def _intervals(problem: PackingProblem) -> list[Interval]:
    sizes = problem.nbytes.tolist()
    rows = zip(problem.item.tolist(), problem.first.tolist(), problem.last.tolist(), strict=True)
    return [Interval(item, sizes[item], first, last, item) for item, first, last in rows]


def _strategy(name: str, sentence: str, *orders: PlacingOrder) -> OffsetStrategy:
    place: Callable[[PackingProblem, SearchOptions], Packing] = partial(
        best_of_orders, orders=orders
    )
    takes = frozenset({"alignment", "gaps"})
    return OffsetStrategy(name, place, sentence, "XLA, heap_simulator", takes)


STRATEGIES: Final = (
    _strategy(
        "xla_spatial",
        "Largest first, then longest, each to the smallest gap.",
        PlacingOrder.SPATIAL,
    ),
    _strategy(
        "xla_temporal",
        "Longest first, then largest, each to the smallest gap.",
        PlacingOrder.TEMPORAL,
    ),
    _strategy(
        "xla_choose_best",
        "The smaller of xla_spatial and xla_temporal.",
        PlacingOrder.SPATIAL,
        PlacingOrder.TEMPORAL,
    ),
)
