"""Kernels: the bytes of each step of an order, or of a part of one."""

from __future__ import annotations

from typing import Final

from lowtide.scheduling.words import (
    BUFFERS,
    KEPT,
    MAKE,
    MAKER,
    MAKES,
    ONE_MADE,
    OWN,
    READ,
    READS,
    SHARE,
    SHARE_MADE,
    SHARE_READ,
    SIZE,
    USE,
)
from lowtide.search.kernels import Array, kernel

NONE: Final = -1


@kernel
def matched(g: Array, node: int, left: Array, partner: Array, queue: Array, by: Array) -> int:
    """The most bytes that results of a node take over from operands with no use left.

    Augmenting paths, breadth first; `partner` is -1 for all buffers before and after.
    """
    begin = g[g[SHARE] + node]
    stop = g[g[SHARE] + node + 1]
    total = 0
    for made_at in range(g[g[MAKE] + node], g[g[MAKE] + node + 1]):
        root = g[g[MAKES] + made_at]
        head = 0
        tail = 1
        queue[0] = root
        found = -1
        for i in range(begin, stop):
            by[g[g[SHARE_READ] + i]] = -1
        while head < tail and found < 0:
            made = queue[head]
            head += 1
            for i in range(begin, stop):
                operand = g[g[SHARE_READ] + i]
                if g[g[SHARE_MADE] + i] != made or left[operand] != 0 or by[operand] >= 0:
                    continue
                by[operand] = made
                if partner[operand] < 0:
                    found = operand
                    break
                queue[tail] = partner[operand]
                tail += 1
        if found >= 0:
            total += g[g[SIZE] + root]
        while found >= 0:
            made = by[found]
            before = -1
            for i in range(begin, stop):
                operand = g[g[SHARE_READ] + i]
                if partner[operand] == made:
                    before = operand
            partner[found] = made
            found = before if made != root else -1
    for i in range(begin, stop):
        partner[g[g[SHARE_READ] + i]] = -1
    return total


@kernel
def taken_over(g: Array, node: int, left: Array, partner: Array, queue: Array, by: Array) -> int:
    """The bytes taken over in the step of a node, whose operands are already counted off."""
    begin = g[g[SHARE] + node]
    stop = g[g[SHARE] + node + 1]
    if begin == stop:
        return 0
    if g[g[ONE_MADE] + node] == 0:
        return matched(g, node, left, partner, queue, by)
    size = 0
    for i in range(begin, stop):
        if left[g[g[SHARE_READ] + i]] == 0:
            size = int(g[g[SIZE] + g[g[SHARE_READ] + i]])
    return size


@kernel
def walk(
    g: Array, order: Array, first: int, stop: int, live: int,
    left: Array, profile: Array, partner: Array, queue: Array, by: Array,
) -> int:  # fmt: skip
    """Run the steps from `first` up to `stop`; return the bytes live behind the last one.

    `left` has the uses of each buffer that are still to come, one more where it is kept, and is
    counted down; `profile` receives the bytes of each step.
    """
    for i in range(first, stop):
        node = order[i]
        made = 0
        freed = 0
        for k in range(g[g[MAKE] + node], g[g[MAKE] + node + 1]):
            b = g[g[MAKES] + k]
            made += g[g[SIZE] + b]
            if left[b] == 0:
                freed += g[g[SIZE] + b]
        for k in range(g[g[READ] + node], g[g[READ] + node + 1]):
            b = g[g[READS] + k]
            left[b] -= 1
            if left[b] == 0:
                freed += g[g[SIZE] + b]
        shared = taken_over(g, node, left, partner, queue, by)
        profile[i] = live + made + g[g[OWN] + node] - shared
        live += made - freed
    return live


@kernel
def uses_left(g: Array, left: Array) -> int:
    """Fill in the uses of each buffer, one more where kept; return the bytes live at the start."""
    live = 0
    for b in range(g[BUFFERS]):
        left[b] = g[g[USE] + b + 1] - g[g[USE] + b] + g[g[KEPT] + b]
        if g[g[MAKER] + b] < 0 and left[b] > 0:
            live += g[g[SIZE] + b]
    return live
