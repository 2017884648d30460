"""From dropped gaps to a sequence: what is missing is computed again just before it is read."""

from __future__ import annotations

from lowtide.remat.tables import (
    BUFFER,
    BUFFER_COUNT,
    BUFFERS_AT,
    COST,
    MADE,
    MADE_END,
    NODE,
    NODE_COUNT,
    NODES_AT,
    PRODUCER,
    READS,
    READS_END,
)
from lowtide.search.kernels import Array, kernel


@kernel
def unfold(g: Array, h: Array, dropped: Array, reach: int, sequence: Array, room: Array) -> int:
    """Write the sequence of an order with `dropped` gaps; return its length, -1 if too long.

    Before each step of the order, what it reads and is not held is computed again with all that
    this takes, in the order's order. What is computed again is then held if its next use is at most
    `reach` positions away. A node that may not run any more is not: what it made is held instead.
    `g`, `h`: the words of `Tables` and `Base`; `sequence`: room for four times the nodes, behind
    which the base position of each step is written; `room`: two numbers per buffer, three per node.
    """
    count = g[NODE_COUNT]
    buffers = g[BUFFER_COUNT]
    gaps = 3 * count
    ends = gaps + buffers + 1
    most = 4 * count
    stamps = 2 * buffers
    for b in range(buffers):
        room[b] = 1 if g[g[BUFFERS_AT] + b * BUFFER + PRODUCER] < 0 else 0
        room[buffers + b] = h[gaps + b]
    for v in range(count):
        room[stamps + v] = -1
    length = 0
    for i in range(count):
        v = h[i]
        node = NODES_AT + 1 + v * NODE
        again = closure(g, h, i, v, room)
        if length + again + 1 > most:
            return -1
        for k in range(again):
            x = h[room[stamps + count + k]]
            sequence[length] = x
            sequence[most + length] = i
            length += 1
        sequence[length] = v
        sequence[most + length] = i
        length += 1
        for k in range(again):
            x = NODES_AT + 1 + h[room[stamps + count + k]] * NODE
            for j in range(g[x + MADE], g[x + MADE_END]):
                b = g[j]
                room[b] = 1 if h[ends + room[buffers + b]] <= i + reach else 0
        for j in range(g[node + READS], g[node + READS_END]):
            b = g[j]
            while h[ends + room[buffers + b]] <= i:
                room[buffers + b] += 1
            room[b] = 1 - dropped[room[buffers + b]]
        for j in range(g[node + MADE], g[node + MADE_END]):
            room[g[j]] = 1 - dropped[room[buffers + g[j]]]
    return length


@kernel
def closure(g: Array, h: Array, i: int, target: int, room: Array) -> int:
    """Return how many nodes have to run again before `target` at position `i`.

    Their positions are written to the last third of `room`, ascending.
    """
    count = g[NODE_COUNT]
    buffers = g[BUFFER_COUNT]
    stamps = 2 * buffers
    list_at = stamps + count
    stack = list_at + count
    found = 0
    depth = 1
    room[stack] = target
    while depth > 0:
        depth -= 1
        node = NODES_AT + 1 + room[stack + depth] * NODE
        for j in range(g[node + READS], g[node + READS_END]):
            b = g[j]
            if room[b]:
                continue
            p = g[g[BUFFERS_AT] + b * BUFFER + PRODUCER]
            if p < 0:
                continue
            if room[stamps + p] == i or h[2 * count + p] < i:
                continue
            room[stamps + p] = i
            room[stack + depth] = p
            depth += 1
            room[list_at + found] = h[count + p]
            found += 1
    sort(room, list_at, found)
    return int(found)


@kernel
def sort(values: Array, start: int, count: int) -> int:
    """Sort `values[start:start + count]`, ascending (Shell 1959); return `count`."""
    gap = 1
    while gap < count:
        gap = 3 * gap + 1
    while gap > 1:
        gap = gap // 3
        for i in range(gap, count):
            value = values[start + i]
            j = i
            while j >= gap and values[start + j - gap] > value:
                values[start + j] = values[start + j - gap]
                j -= gap
            values[start + j] = value
    return count


@kernel
def cost_of(g: Array, sequence: Array, length: int) -> int:
    """Return the ticks of `sequence[:length]`."""
    total = 0
    for t in range(length):
        total += g[NODES_AT + 1 + sequence[t] * NODE + COST]
    return int(total)
