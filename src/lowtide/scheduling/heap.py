"""Kernels: a heap of nodes by two keys and a stamp, in one array of four words per entry."""

from __future__ import annotations

from typing import Final

from lowtide.search.kernels import Array, kernel

WIDTH: Final = 4
"""Words of an entry: first key, second key, stamp, node."""


@kernel
def before(heap: Array, a: int, b: int) -> int:
    """Whether entry `a` comes before entry `b`: larger keys first, then the later stamp."""
    for word in range(WIDTH - 1):
        x = heap[a * WIDTH + word]
        y = heap[b * WIDTH + word]
        if x != y:
            return 1 if x > y else 0
    return 0


@kernel
def swap(heap: Array, a: int, b: int) -> int:
    """Exchange two entries."""
    for word in range(WIDTH):
        kept = heap[a * WIDTH + word]
        heap[a * WIDTH + word] = heap[b * WIDTH + word]
        heap[b * WIDTH + word] = kept
    return 0


@kernel
def push(heap: Array, size: int, first: int, second: int, stamp: int, node: int) -> int:
    """Add an entry to a heap of `size` entries; return the new size."""
    heap[size * WIDTH] = first
    heap[size * WIDTH + 1] = second
    heap[size * WIDTH + 2] = stamp
    heap[size * WIDTH + 3] = node
    i = size
    while i > 0:
        up = (i - 1) // 2
        if before(heap, i, up) == 0:
            break
        swap(heap, i, up)
        i = up
    return size + 1


@kernel
def drop_first(heap: Array, size: int) -> int:
    """Take the first entry off; return the new size."""
    size -= 1
    swap(heap, 0, size)
    i = 0
    while 2 * i + 1 < size:
        down = 2 * i + 1
        if down + 1 < size and before(heap, down + 1, down) != 0:
            down += 1
        if before(heap, down, i) == 0:
            break
        swap(heap, i, down)
        i = down
    return size
