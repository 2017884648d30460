"""Cut-guided divide and reorder.

The least state at the highest step becomes a milestone that the order has to pass; what lies
between two milestones is ordered again by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Final

import numpy as np

from lowtide.analysis.graph_tables import GraphTables
from lowtide.records import dataclass
from lowtide.scheduling.cuts import LARGEST_ONLY, SMALLEST, Cuts
from lowtide.scheduling.stretches import Stretches
from lowtide.search.kernels import Array

FAILURES: Final = 12
"""Rounds without a lower peak after which the search from one start ends."""

DROPS: Final = 40
"""How often milestones may be given up that stand in the way of a lower peak."""


@dataclass(frozen=True, eq=False, slots=True)
class Divided:
    """An order and its peak in bytes."""

    order: Array
    peak: int


class Workbench:
    """All that works on one graph."""

    def __init__(self, tables: GraphTables) -> None:
        self.tables = tables
        self.stretches = Stretches(tables)
        self.cuts = Cuts(tables)

    @cached_property
    def touched(self) -> Array:
        """Bytes that each node reads and makes."""
        tables = self.tables
        touched = np.zeros(tables.nodes, np.int64)
        for rows in (tables.reads, tables.makes):
            np.add.at(touched, rows.numbers(), tables.size[rows.items])
        return touched

    def peak(self, order: Array) -> int:
        """The largest step of an order."""
        return int(self.stretches.profile(order).max(initial=0))


def divide(
    bench: Workbench,
    start: Array,
    goal: int,
    rounds: int,
    profile: Array | None = None,
    passed: Callable[[], bool] = lambda: False,
    largest: bool = False,
) -> Divided:
    """Return a better order than `start`, or `start`.

    Ends at a peak of `goal` or below, after so many `rounds`, or once `passed()`. The `profile` has
    the bytes of each step of `start`, where they are known. Milestones are the smallest of the
    least states or, where `largest`, the largest one.
    """
    profile = bench.stretches.profile(start) if profile is None else profile.copy()
    search = _Division(bench, start, profile, largest)
    while search.failures <= FAILURES and rounds > 0 and search.best_peak > goal:
        rounds -= 1
        if passed() or not search.step():
            break
    return Divided(search.best, search.best_peak)


class _Division:
    def __init__(self, bench: Workbench, start: Array, profile: Array, largest: bool) -> None:
        self.bench, self.cuts = bench, bench.cuts
        self.level = LARGEST_ONLY if largest else SMALLEST
        self.order = start.copy()
        self.part = np.zeros(len(start), np.int64)
        self.profile = profile
        self.best, self.best_peak = start, int(self.profile.max(initial=0))
        self.failures = self.drops = 0

    def step(self) -> bool:
        """Divide at the highest step; False where nothing is left to try."""
        node = int(self.order[int(self.profile.argmax())])
        peak = int(self.profile.max())
        value = self.cuts.least(node, self.part)
        if value >= peak and self.part.any():
            value = self._undivided(node, peak)
        if value >= peak:
            return False
        if self.drops > DROPS:
            return False
        self._split(node)
        self._reorder(value)
        return True

    def _undivided(self, node: int, peak: int) -> int:
        """Give up the milestones that keep the step of a node from falling below `peak`."""
        self.drops += 1
        value = self.cuts.least(node)
        if value >= peak:
            return value
        here = int(self.part[node])
        whole = np.zeros_like(self.part)
        for part in (np.maximum(self.part, here), np.minimum(self.part, here), whole):
            value = self.cuts.least(node, part)
            if value < peak:
                self.part = part
                return value
        return value

    def _split(self, node: int) -> None:
        """Put the least state before a node, and the node, between what is in its part."""
        here = self.part == self.part[node]
        behind = self.part > self.part[node]
        inside = here & (self.cuts.where[: len(self.part)] >= self.level)
        self.part = self.part + 2 * behind + 2 * (here & ~inside)
        self.part[node] -= 1

    def _reorder(self, target: int) -> None:
        keys = self.part[self.order]
        self.order = self.order[np.argsort(keys, kind="stable")]
        keys = self.part[self.order]
        ends = np.append(np.flatnonzero(keys[1:] != keys[:-1]) + 1, len(keys))
        self.part[self.order] = np.cumsum(np.append(0, keys[1:] != keys[:-1]))
        place = np.empty_like(self.order)
        place[self.order] = np.arange(len(place))
        peak = self.bench.stretches.improve(self.order, place, ends, target, self.profile)
        self.failures += 1
        if peak < self.best_peak:
            self.best, self.best_peak, self.failures = self.order.copy(), peak, 0
