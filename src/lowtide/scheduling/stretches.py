"""Better orders of stretches: several ways to order each one, of which the best is kept."""

from __future__ import annotations

from typing import Final

import numpy as np

from lowtide.scheduling.descent import BY_BYTES, BY_PLACE, BY_WEIGHT, depth_first
from lowtide.scheduling.greedy import LATE_FIRST, TINY_FIRST, backward, count_left, forward
from lowtide.scheduling.heap import WIDTH
from lowtide.scheduling.steps import NONE, uses_left, walk
from lowtide.scheduling.words import PRED, PREDS, READ, READS, Words
from lowtide.search.kernels import Array, kernel

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


@kernel
def arrange(
    g: Array, order: Array, place: Array, first: int, stop: int, way: int, found: Array,
    left: Array, waiting: Array, latest: Array, key: Array, heap: Array, rows: Array,
) -> int:  # fmt: skip
    """Fill the stretch of `found` in one way; return the nodes placed."""
    if way == FORWARD:
        return forward(
            g, order, place, first, stop, TINY_FIRST, found, left, waiting, latest, key, heap
        )
    if way == FORWARD_LATE:
        return forward(
            g, order, place, first, stop, LATE_FIRST, found, left, waiting, latest, key, heap
        )
    if way == BACKWARD:
        return backward(g, order, place, first, stop, found, left, waiting, latest, key, heap)
    kind = BY_BYTES if way >= DEPTH_BYTES else BY_PLACE
    if way == DEPTH_WEIGHT:
        kind = BY_WEIGHT
    mirror = 1 if way >= MIRROR_PLACE and way != DEPTH_BYTES else 0
    return depth_first(
        g, order, place, first, stop, kind, mirror, found, rows, heap, waiting, latest, key
    )


@kernel
def highest(profile: Array, first: int, stop: int) -> int:
    """The largest step of a stretch."""
    peak = 0
    for i in range(first, stop):
        peak = max(peak, profile[i])
    return peak


@kernel
def improve(
    g: Array, order: Array, place: Array, ends: Array, count: int, target: int, only: int,
    profile: Array, found: Array, best: Array, left: Array, waiting: Array, latest: Array,
    key: Array, heap: Array, rows: Array, partner: Array, queue: Array, by: Array,
) -> int:  # fmt: skip
    """Reorder each stretch that has a step above `target`, in the way that lowers it most.

    Stretch `i` ends before place `ends[i]`; with `only` from 0 on, that way is taken everywhere.
    `order`, `place` and `profile` are brought up to date; returns the largest step.
    """
    live = uses_left(g, left)
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
                found[i] = order[i] if way == GIVEN else best[i]
            if GIVEN < way < WAYS:
                arrange(
                    g, order, place, first, stop, way, found, left, waiting, latest, key, heap, rows
                )
            count_left(g, found, place, first, stop, left)
            behind = walk(g, found, first, stop, live, left, profile, partner, queue, by)
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
            order[i] = best[i]
            place[order[i]] = i
        peak = max(peak, lowest)
        live = behind
        first = stop
    return peak


class Stretches:
    """Working arrays for orders of one graph."""

    def __init__(self, words: Words) -> None:
        self.words = words
        g = words.words
        nodes, buffers = words.nodes + 1, words.buffers + 1
        edges = len(words.rows(PRED, PREDS)[1])
        uses = len(words.rows(READ, READS)[1])
        self.found, self.best = np.zeros(nodes, np.int64), np.zeros(nodes, np.int64)
        self.left = np.zeros(buffers, np.int64)
        self.waiting, self.latest = np.zeros(nodes, np.int64), np.zeros(nodes, np.int64)
        self.key = np.zeros(nodes, np.int64)
        self.heap = np.zeros(WIDTH * (nodes + uses + 1), np.int64)
        self.rows = np.zeros(edges + nodes, np.int64)
        self.partner = np.full(buffers, NONE, np.int64)
        self.queue, self.by = np.zeros(buffers, np.int64), np.zeros(buffers, np.int64)
        self.g = g

    def profile(self, order: Array) -> Array:
        """Return the bytes of each step of an order."""
        return self._run(order.copy(), self.words.total, GIVEN)

    def arranged(self, order: Array, way: int) -> Array:
        """Return all nodes, ordered in one way; ties may depend on the given order."""
        found = order.copy()
        self._run(found, 0, way)
        return found

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
        return improve(
            self.g, order, place, ends, len(ends), target, only, profile, self.found, self.best,
            self.left, self.waiting, self.latest, self.key, self.heap, self.rows,
            self.partner, self.queue, self.by,
        )  # fmt: skip
