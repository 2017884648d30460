"""Better orders of stretches: several ways to order each one, of which the best is kept."""

from __future__ import annotations

from typing import Final

import numpy as np

from lowtide.analysis.graph_tables import GraphTables
from lowtide.analysis.taken_over import Matching, matching
from lowtide.records import dataclass
from lowtide.scheduling.descent import BY_BYTES, BY_PLACE, BY_WEIGHT, Descent, depth_first
from lowtide.scheduling.greedy import (
    LATE_FIRST,
    TINY_FIRST,
    GreedyOrder,
    Ready,
    backward,
    count_left,
    forward,
)
from lowtide.scheduling.heap import WIDTH
from lowtide.scheduling.steps import uses_left, walk
from lowtide.search.kernels import Array, Record, kernel

DEPTH_WEIGHT: Final = 0
BACKWARD: Final = 1
FORWARD: Final = 2
DEPTH_PLACE: Final = 3
FORWARD_LATE: Final = 4
MIRROR_PLACE: Final = 5
DEPTH_BYTES: Final = 6
MIRROR_BYTES: Final = 7
GIVEN: Final = -1
WAYS: Final = 8
"""Ways to order a stretch, by number."""


@dataclass(frozen=True, eq=False, slots=True)
class Attempts(Record):
    """Arrays for ordering stretches; `found` and `best` have room for all nodes."""

    found: Array
    best: Array
    ready: Ready
    descent: Descent
    matching: Matching


@kernel
def arrange(
    graph: GraphTables, given: GreedyOrder, first: int, stop: int, way: int, attempts: Attempts
) -> int:
    """Fill the stretch of `attempts.found` in one way; return the nodes placed."""
    found = attempts.found
    ready = attempts.ready
    if way == FORWARD:
        return forward(graph, given, first, stop, TINY_FIRST, found, ready)
    if way == FORWARD_LATE:
        return forward(graph, given, first, stop, LATE_FIRST, found, ready)
    if way == BACKWARD:
        return backward(graph, given, first, stop, found, ready)
    kind = BY_BYTES if way >= DEPTH_BYTES else BY_PLACE
    if way == DEPTH_WEIGHT:
        kind = BY_WEIGHT
    mirror = 1 if way >= MIRROR_PLACE and way != DEPTH_BYTES else 0
    return depth_first(graph, given, first, stop, kind, mirror, found, attempts.descent)


@kernel
def highest(profile: Array, first: int, stop: int) -> int:
    """The largest step of a stretch."""
    peak = 0
    for i in range(first, stop):
        peak = max(peak, profile[i])
    return peak


@kernel
def improve(
    graph: GraphTables,
    given: GreedyOrder,
    ends: Array,
    count: int,
    target: int,
    only: int,
    profile: Array,
    attempts: Attempts,
) -> int:
    """Reorder each stretch that has a step above `target`, in the way that lowers it most.

    Stretch `i` ends before place `ends[i]`; with `only` from 0 on, that way is taken everywhere.
    The order given and `profile` are brought up to date; returns the largest step.
    """
    found = attempts.found
    best = attempts.best
    left = attempts.ready.left
    live = uses_left(graph, left)
    peak = 0
    first = 0
    for s in range(count):
        stop = ends[s]
        behind = live
        lowest = -1
        last = -1
        way = only if only >= 0 else GIVEN
        while way <= WAYS:
            for i in range(first, stop):
                found[i] = given.node[i] if way == GIVEN else best[i]
            if GIVEN < way < WAYS:
                arrange(graph, given, first, stop, way, attempts)
            count_left(graph, found, given.place, first, stop, left)
            behind = walk(graph, found, first, stop, live, left, profile, attempts.matching)
            here = highest(profile, first, stop)
            if lowest < 0 or here < lowest:
                lowest = here
                last = way
                for i in range(first, stop):
                    best[i] = found[i]
            if only >= 0 or (last == way and (lowest <= target or stop - first <= 2)):
                break
            way += 1
        for i in range(first, stop):
            given.node[i] = best[i]
            given.place[best[i]] = i
        peak = max(peak, lowest)
        live = behind
        first = stop
    return peak


def attempts_of(graph: GraphTables) -> Attempts:
    """Return what ordering stretches of a graph works with."""
    nodes, buffers = graph.nodes + 1, graph.buffers + 1
    edges, uses = len(graph.before.items), len(graph.reads.items)
    waiting, latest, key, found, best = (np.zeros(nodes, np.int64) for _ in range(5))
    heap = np.zeros(WIDTH * (nodes + uses + 1), np.int64)
    return Attempts(
        found=found,
        best=best,
        ready=Ready(waiting, latest, key, np.zeros(buffers, np.int64), heap),
        descent=Descent(
            users=latest,
            total=key,
            state=waiting,
            needed=np.zeros(edges, np.int64),
            ends=np.zeros(nodes, np.int64),
            stack=heap,
        ),
        matching=matching(buffers),
    )


class Stretches:
    """Working arrays for orders of one graph."""

    def __init__(self, tables: GraphTables) -> None:
        self.tables = tables
        self._attempts = attempts_of(tables)

    def profile(self, order: Array) -> Array:
        """Return the bytes of each step of an order."""
        return self._run(order.copy(), self.tables.total, GIVEN)

    def arranged(self, order: Array, way: int) -> tuple[Array, Array]:
        """Return all nodes, ordered in one way, and the bytes of each step.

        Ties may depend on the given order.
        """
        found = order.copy()
        return found, self._run(found, 0, way)

    def _run(self, order: Array, target: int, only: int) -> Array:
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        profile = np.zeros_like(order)
        self.improve(order, place, np.array([len(order)]), target, profile, only)
        return profile

    def improve(
        self,
        order: Array,
        place: Array,
        ends: Array,
        target: int,
        profile: Array,
        only: int = GIVEN,
    ) -> int:
        """Reorder stretches of an order in place, as the kernel of this name says."""
        given = GreedyOrder(order, place)
        return improve(self.tables, given, ends, len(ends), target, only, profile, self._attempts)
