"""Kernels: orders of a stretch of an order by what a node frees, forwards or from the end.

A stretch is the places from `first` up to `stop` of an order; `place` has the place of each node.
What stands before the stretch has run, what stands behind it comes later.
"""

from __future__ import annotations

from typing import Final

from lowtide.scheduling.heap import WIDTH, drop_first, push
from lowtide.scheduling.words import (
    KEPT,
    MAKE,
    MAKES,
    PRED,
    PREDS,
    READ,
    READS,
    SIZE,
    SUCC,
    SUCCS,
    USE,
    USES,
)
from lowtide.search.kernels import Array, kernel

TINY_FIRST: Final = 0
"""What makes next to nothing goes first, ties by the number of followers."""

LATE_FIRST: Final = 1
"""Ties go to the node that stands earlier."""

TINY: Final = 8
"""Bytes that are next to nothing."""

EXTREME: Final = 1 << 60


@kernel
def count_left(g: Array, order: Array, place: Array, first: int, stop: int, left: Array) -> int:
    """Fill in the uses from `first` on of all buffers that the stretch reads or makes."""
    for i in range(first, stop):
        node = order[i]
        for k in range(g[g[READ] + node], g[g[READ] + node + 1]):
            left[g[g[READS] + k]] = -1
        for k in range(g[g[MAKE] + node], g[g[MAKE] + node + 1]):
            left[g[g[MAKES] + k]] = -1
    for i in range(first, stop):
        node = order[i]
        for k in range(g[g[READ] + node], g[g[READ] + node + 1]):
            b = g[g[READS] + k]
            if left[b] < 0:
                left[b] = uses_from(g, b, place, first)
        for k in range(g[g[MAKE] + node], g[g[MAKE] + node + 1]):
            b = g[g[MAKES] + k]
            if left[b] < 0:
                left[b] = uses_from(g, b, place, first)
    return 0


@kernel
def uses_from(g: Array, b: int, place: Array, first: int) -> int:
    """The uses of a buffer at places from `first` on, one more where it is kept."""
    count = int(g[g[KEPT] + b])
    for k in range(g[g[USE] + b], g[g[USE] + b + 1]):
        if place[g[g[USES] + k]] >= first:
            count += 1
    return count


@kernel
def gain(g: Array, node: int, left: Array) -> int:
    """Bytes freed behind the step of a node less those that it leaves."""
    total = 0
    for k in range(g[g[READ] + node], g[g[READ] + node + 1]):
        b = g[g[READS] + k]
        if left[b] == 1:
            total += g[g[SIZE] + b]
    for k in range(g[g[MAKE] + node], g[g[MAKE] + node + 1]):
        b = g[g[MAKES] + k]
        if left[b] > 0:
            total -= g[g[SIZE] + b]
    return total


@kernel
def made_bytes(g: Array, node: int) -> int:
    """Bytes of the buffers that a node makes."""
    total = 0
    for k in range(g[g[MAKE] + node], g[g[MAKE] + node + 1]):
        total += g[g[SIZE] + g[g[MAKES] + k]]
    return total


@kernel
def forward_key(g: Array, node: int, variant: int, left: Array) -> int:
    """First key of a ready node."""
    if variant == TINY_FIRST and made_bytes(g, node) <= TINY:
        return EXTREME
    return gain(g, node, left)


@kernel
def offer_forward(
    g: Array, node: int, variant: int, place: Array, stamp: int,
    left: Array, latest: Array, key: Array, heap: Array, size: int,
) -> int:  # fmt: skip
    """Put a ready node on the heap with its present key; return the size of the heap."""
    first = forward_key(g, node, variant, left)
    second = g[g[SUCC] + node + 1] - g[g[SUCC] + node] if variant == TINY_FIRST else -place[node]
    key[node] = first
    latest[node] = stamp
    return push(heap, size, first, second, stamp, node)


@kernel
def forward(
    g: Array, order: Array, place: Array, first: int, stop: int, variant: int,
    found: Array, left: Array, waiting: Array, latest: Array, key: Array, heap: Array,
) -> int:  # fmt: skip
    """Fill the stretch of `found` by list scheduling: always the ready node that frees most."""
    count_left(g, order, place, first, stop, left)
    size = 0
    stamp = 0
    for i in range(first, stop):
        node = order[i]
        waiting[node] = 0
        for k in range(g[g[PRED] + node], g[g[PRED] + node + 1]):
            if place[g[g[PREDS] + k]] >= first:
                waiting[node] += 1
        if waiting[node] == 0:
            stamp += 1
            size = offer_forward(g, node, variant, place, stamp, left, latest, key, heap, size)
    at = first
    while size > 0:
        node = heap[WIDTH - 1]
        is_latest = heap[WIDTH - 2] == latest[node]
        size = drop_first(heap, size)
        if not is_latest:
            continue
        waiting[node] = -1
        found[at] = node
        at += 1
        for k in range(g[g[READ] + node], g[g[READ] + node + 1]):
            left[g[g[READS] + k]] -= 1
        for k in range(g[g[SUCC] + node], g[g[SUCC] + node + 1]):
            other = g[g[SUCCS] + k]
            waiting[other] -= 1
            if waiting[other] == 0 and place[other] < stop:
                stamp += 1
                size = offer_forward(g, other, variant, place, stamp, left, latest, key, heap, size)
        for k in range(g[g[READ] + node], g[g[READ] + node + 1]):
            b = g[g[READS] + k]
            if left[b] != 1:
                continue
            for j in range(g[g[USE] + b], g[g[USE] + b + 1]):
                other = g[g[USES] + j]
                if place[other] < first or place[other] >= stop or waiting[other] != 0:
                    continue
                if forward_key(g, other, variant, left) != key[other]:
                    stamp += 1
                    size = offer_forward(
                        g, other, variant, place, stamp, left, latest, key, heap, size
                    )
    return at - first


@kernel
def is_live_behind(g: Array, b: int, place: Array, stop: int) -> int:
    """Whether a buffer is needed behind a stretch."""
    if g[g[KEPT] + b] != 0:
        return 1
    for k in range(g[g[USE] + b], g[g[USE] + b + 1]):
        if place[g[g[USES] + k]] >= stop:
            return 1
    return 0


@kernel
def backward_key(g: Array, node: int, live: Array) -> int:
    """Bytes that a node makes less those that only it, of what stands behind it, needs live."""
    total = made_bytes(g, node)
    for k in range(g[g[READ] + node], g[g[READ] + node + 1]):
        b = g[g[READS] + k]
        if live[b] == 0:
            total -= g[g[SIZE] + b]
    return total


@kernel
def mark_behind(
    g: Array, order: Array, place: Array, first: int, stop: int, live: Array, waiting: Array
) -> int:
    """Per buffer read in a stretch whether it is live behind it, per node its followers there."""
    for i in range(first, stop):
        node = order[i]
        for k in range(g[g[READ] + node], g[g[READ] + node + 1]):
            live[g[g[READS] + k]] = -1
    for i in range(first, stop):
        node = order[i]
        for k in range(g[g[READ] + node], g[g[READ] + node + 1]):
            b = g[g[READS] + k]
            if live[b] < 0:
                live[b] = is_live_behind(g, b, place, stop)
        waiting[node] = 0
        for k in range(g[g[SUCC] + node], g[g[SUCC] + node + 1]):
            if place[g[g[SUCCS] + k]] < stop:
                waiting[node] += 1
    return 0


@kernel
def offer_backward(
    g: Array, node: int, stamp: int, live: Array, latest: Array, key: Array, heap: Array, size: int
) -> int:
    """Put a node without followers on the heap with its present key; return the heap's size."""
    key[node] = backward_key(g, node, live)
    latest[node] = stamp
    return push(heap, size, key[node], 0, stamp, node)


@kernel
def backward(
    g: Array, order: Array, place: Array, first: int, stop: int,
    found: Array, live: Array, waiting: Array, latest: Array, key: Array, heap: Array,
) -> int:  # fmt: skip
    """Fill the stretch of `found` from its end: always the node whose undoing frees most."""
    mark_behind(g, order, place, first, stop, live, waiting)
    size = 0
    stamp = 0
    for i in range(first, stop):
        if waiting[order[i]] == 0:
            stamp += 1
            size = offer_backward(g, order[i], stamp, live, latest, key, heap, size)
    at = stop
    while size > 0:
        node = heap[WIDTH - 1]
        is_latest = heap[WIDTH - 2] == latest[node]
        size = drop_first(heap, size)
        if not is_latest:
            continue
        waiting[node] = -1
        at -= 1
        found[at] = node
        for k in range(g[g[READ] + node], g[g[READ] + node + 1]):
            b = g[g[READS] + k]
            if live[b] == 0:
                live[b] = 2
        for k in range(g[g[PRED] + node], g[g[PRED] + node + 1]):
            other = g[g[PREDS] + k]
            waiting[other] -= 1
            if waiting[other] == 0 and place[other] >= first:
                stamp += 1
                size = offer_backward(g, other, stamp, live, latest, key, heap, size)
        for k in range(g[g[READ] + node], g[g[READ] + node + 1]):
            b = g[g[READS] + k]
            if live[b] != 2:
                continue
            live[b] = 1
            for j in range(g[g[USE] + b], g[g[USE] + b + 1]):
                other = g[g[USES] + j]
                if place[other] < first or place[other] >= stop or waiting[other] != 0:
                    continue
                if backward_key(g, other, live) != key[other]:
                    stamp += 1
                    size = offer_backward(g, other, stamp, live, latest, key, heap, size)
    return stop - at
