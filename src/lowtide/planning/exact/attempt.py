"""All ways of searching for a packing of one height, in turn, each with a node limit."""

from __future__ import annotations

from typing import Final

import numpy as np

from lowtide.planning.exact.instance import Instance
from lowtide.planning.exact.outcome import Budget, Outcome
from lowtide.planning.exact.search import Method, Search, tables_of
from lowtide.planning.problem import Int64Array

_WAYS: Final = (
    (Method.SKYLINE, "WAT"),
    (Method.SKYLINE, "TAW"),
    (Method.SKYLINE, "ZAW"),
    (Method.SKYLINE, "R"),
    (Method.CANONICAL, "WAT"),
    (Method.SKYLINE, "TWA"),
    (Method.SKYLINE, "TZW"),
    (Method.CANONICAL, "TAW"),
    (Method.SKYLINE, "WR"),
    (Method.CANONICAL, "TWA"),
)
"""Searches and what their order of items is by, largest first: W the number of sections of an item,
Z its size, A the product of both, T the most bytes live with it, R chance."""

_SLICE: Final = 4_096
"""Nodes between two looks at the clock."""

_FORGET: Final = 0.5
"""What remains of a learned weight after each search."""


class Attempt:
    """Searches for a packing of an instance of at most `height`, with what they have learned."""

    def __init__(self, instance: Instance, height: int) -> None:
        self.instance = instance
        self.height = height
        self.addresses: Int64Array | None = None
        self._tables = tables_of(instance)
        self._weight = np.ones(len(instance.steps))
        self._measures = _measures(instance)
        self._runs = 0

    def run(self, limit: int, budget: Budget) -> Outcome:
        """Search in every way for at most so many nodes; raises StoppedError."""
        for method, key in _WAYS:
            self._runs += 1
            rank = self._rank(key)
            search = Search(self._tables, self.height, method, rank, self._weight)
            outcome = self._run(search, limit, budget)
            if outcome is not Outcome.OPEN:
                return outcome
            self._weight = 1.0 + _FORGET * (self._weight - 1.0)
        return Outcome.OPEN

    def _run(self, search: Search, limit: int, budget: Budget) -> Outcome:
        extent = len(self.instance) + len(self.instance.cover)
        piece = max(16, _SLICE // max(1, extent // 4_000))
        budget.spend(2 * extent)
        while search.nodes < limit:
            work = search.work
            outcome = search.run(min(piece, limit - search.nodes))
            if outcome is Outcome.FITS:
                self.addresses = search.addresses
            if outcome is not Outcome.OPEN:
                return outcome
            budget.spend(search.work - work)
        return Outcome.OPEN

    def _rank(self, key: str) -> Int64Array:
        self._measures["R"] = np.random.default_rng(self._runs).permutation(len(self.instance))
        order = np.lexsort([-self._measures[letter] for letter in reversed(key)])
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        return rank


def _measures(instance: Instance) -> dict[str, Int64Array]:
    length = np.diff(instance.starts)
    live = instance.live(instance.size)
    crowd = np.zeros(len(instance), np.int64)
    np.maximum.at(crowd, np.repeat(np.arange(len(instance)), length), live[instance.sections])
    _, area = np.unique(length.astype(np.float64) * instance.size, return_inverse=True)
    return {"W": length, "Z": instance.size, "A": area, "T": crowd}
