"""The order that all orders share whose steps stay within a target."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from lowtide.analysis.graph_tables import GraphTables, with_edges
from lowtide.records import dataclass
from lowtide.scheduling.divide import Workbench
from lowtide.scheduling.proof import CYCLE
from lowtide.scheduling.settling import settled
from lowtide.search.kernels import Array

OPEN: Final = -3
"""Not closed: orders within the target may be left."""


class PropagationWork:
    """The words that probes may still read; none once time has passed."""

    def __init__(self, words: int, passed: Callable[[], bool] = lambda: False) -> None:
        self.words = words
        self.passed = passed

    def spend(self, words: int) -> bool:
        """Take off what a probe reads; False where nothing is left."""
        self.words -= words
        return self.words >= 0 and not self.passed()


@dataclass(frozen=True, eq=False, slots=True)
class Narrowed:
    """A graph with forced edges, an order of it, and why it is closed (a node, CYCLE or OPEN).

    `forced` are all edges so far, `is_complete` says that a round found no more of them, `has_work`
    that the work was not spent.
    """

    bench: Workbench
    order: Array
    forced: Array
    closed_at: int
    is_complete: bool
    has_work: bool


def unnarrowed(tables: GraphTables, near: Array) -> Narrowed:
    """Return a graph before anything is forced, and an order close to `near`."""
    order = settled(tables, near)
    bench = Workbench(tables)
    if order is None:
        return Narrowed(bench, near, _joined([]), CYCLE, True, True)
    return Narrowed(bench, order, _joined([]), OPEN, False, True)


def narrowed(
    state: Narrowed, target: int, share: float, work: PropagationWork, rounds: int
) -> Narrowed:
    """Add the edges that minimum cuts force, in so many rounds or until there are no more.

    Looked at are the nodes whose step exceeds `share` of the target in the order of the state.
    """
    while rounds > 0 and state.closed_at == OPEN and state.has_work and not state.is_complete:
        rounds -= 1
        bench, order = state.bench, state.order
        rows, closed, has_work = _round(bench, target, order, share, work)
        forced = _joined([state.forced, rows])
        if closed != OPEN or not has_work or not len(rows):
            return Narrowed(bench, order, forced, closed, True, has_work)
        tables = with_edges(bench.tables, rows[:, 0], rows[:, 1])
        settled_order = settled(tables, order)
        if settled_order is None:
            return Narrowed(bench, order, forced, CYCLE, True, True)
        behind = Workbench(tables)
        behind.cuts.remember(bench.cuts)
        state = Narrowed(behind, settled_order, forced, OPEN, False, True)
    return state


def _round(
    bench: Workbench, target: int, order: Array, share: float, work: PropagationWork
) -> tuple[Array, int, bool]:
    """Forced edges, the node where the target is exceeded (or OPEN), whether all was looked at."""
    profile = bench.stretches.profile(order)
    high = np.flatnonzero(profile > share * target)
    rows: list[Array] = []
    words = bench.tables.words
    for place in high[np.argsort(-profile[high], kind="stable")].tolist():
        if not work.spend(words):
            return _joined(rows), OPEN, False
        node = int(order[place])
        forced = bench.cuts.forced(node, target, int(share * target), order)
        if forced.bytes > target:
            return _joined(rows), node, True
        rows += [_rows(forced.before, node, node), _rows(node, forced.behind, node)]
    return _joined(rows), OPEN, True


def _rows(before: Array | int, behind: Array | int, at: int) -> Array:
    first, second = np.broadcast_arrays(before, behind)
    return np.stack([first, second, np.full(first.shape, at)], 1)


def _joined(rows: list[Array]) -> Array:
    return np.concatenate(rows) if rows else np.zeros((0, 3), np.int64)
