"""An order that keeps new edges and else stays close to a given one."""

from __future__ import annotations

import numpy as np

from lowtide.scheduling.heap import WIDTH, drop_first, push
from lowtide.scheduling.words import NODES, PRED, SUCC, SUCCS, Words
from lowtide.search.kernels import Array, kernel


@kernel
def settle_order(g: Array, place: Array, order: Array, waiting: Array, heap: Array) -> int:
    """Fill `order` with the earliest node by `place` that waits for none; return how many fit."""
    size = 0
    for x in range(g[NODES]):
        waiting[x] = g[g[PRED] + x + 1] - g[g[PRED] + x]
        if waiting[x] == 0:
            size = push(heap, size, -place[x], 0, 0, x)
    at = 0
    while size > 0:
        x = heap[WIDTH - 1]
        size = drop_first(heap, size)
        order[at] = x
        at += 1
        for k in range(g[g[SUCC] + x], g[g[SUCC] + x + 1]):
            y = g[g[SUCCS] + k]
            waiting[y] -= 1
            if waiting[y] == 0:
                size = push(heap, size, -place[y], 0, 0, y)
    return at


def settled(words: Words, near: Array) -> Array | None:
    """Return a valid order close to `near`, None where nodes wait for each other."""
    count = words.nodes
    place = np.empty(count, np.int64)
    place[near] = np.arange(count)
    order, waiting = np.empty(count, np.int64), np.empty(count, np.int64)
    heap = np.empty(WIDTH * (count + 1), np.int64)
    return order if settle_order(words.words, place, order, waiting, heap) == count else None
