"""Orders in which bytes are held for fewer steps, by moving one node at a time; compiled.

A peak does not say how long much memory is taken; recomputation pays for each such stretch.
"""

from __future__ import annotations

import numpy as np

from lowtide.remat.tables import (
    BUFFER,
    BUFFERS_AT,
    LIVE_OUT,
    MADE,
    MADE_END,
    NODE,
    NODE_COUNT,
    NODES_AT,
    PRODUCER,
    READS,
    READS_END,
    SIZE,
    USES,
    USES_END,
    WAITS,
    WAITS_END,
    Int64Array,
    Tables,
)
from lowtide.search.kernels import Array, kernel


@kernel
def earliest(g: Array, place: Array, v: int) -> int:
    """Return the first place at which `v` may stand, the other nodes where they are."""
    node = NODES_AT + 1 + v * NODE
    first = 0
    for i in range(g[node + WAITS], g[node + WAITS_END]):
        first = max(first, place[g[i]] + 1)
    for i in range(g[node + READS], g[node + READS_END]):
        p = g[g[BUFFERS_AT] + g[i] * BUFFER + PRODUCER]
        if p >= 0:
            first = max(first, place[p] + 1)
    return int(first)


@kernel
def last_other_use(g: Array, place: Array, b: int, v: int) -> int:
    """Return the place of the last use of a buffer but by `v`; its producer's if there is none."""
    record = g[BUFFERS_AT] + b * BUFFER
    if g[record + LIVE_OUT]:
        return int(g[NODE_COUNT])
    p = g[record + PRODUCER]
    last = place[p] if p >= 0 else -1
    for i in range(g[record + USES], g[record + USES_END]):
        if g[i] != v:
            last = max(last, place[g[i]])
    return int(last)


@kernel
def target(g: Array, h: Array, place: Array, weight: Array, v: int) -> int:
    """Return the place at which `v` makes for the fewest bytes held, weighted by step.

    `weight[i]`: the sum of the weights of steps before `i`. `h`: rows of the nodes that wait for
    each node by control, one start per node and the end.
    """
    node = NODES_AT + 1 + v * NODE
    now = place[v]
    low = earliest(g, place, v)
    high = g[NODE_COUNT] - 1
    made = 0
    for i in range(h[v], h[v + 1]):
        high = min(high, place[h[i]] - 1)
    for i in range(g[node + MADE], g[node + MADE_END]):
        record = g[BUFFERS_AT] + g[i] * BUFFER
        made += g[record + SIZE]
        for j in range(g[record + USES], g[record + USES_END]):
            high = min(high, place[g[j]] - 1)
    best = now
    least = 0
    for k in range(g[node + READS_END] - g[node + READS] + 2):
        at = low
        if k == 1:
            at = high
        if k > 1:
            at = last_other_use(g, place, g[g[node + READS] + k - 2], v)
        if at < low or at > high or at == now:
            continue
        change = made * (weight[now] - weight[at])
        for i in range(g[node + READS], g[node + READS_END]):
            q = last_other_use(g, place, g[i], v)
            size = g[g[BUFFERS_AT] + g[i] * BUFFER + SIZE]
            change += size * (weight[max(at, q)] - weight[max(now, q)])
        if change < least:
            least = change
            best = at
    return int(best)


@kernel
def slide(g: Array, h: Array, order: Array, place: Array, weight: Array, passes: int) -> int:
    """Move nodes of an order, in turn, to where they hold least; return how many moves."""
    count = g[NODE_COUNT]
    moves = 0
    for r in range(passes):
        before = moves
        for k in range(count):
            v = order[k] if r % 2 else order[count - 1 - k]
            now = place[v]
            best = target(g, h, place, weight, v)
            if best == now:
                continue
            moves += 1
            for i in range(now, best):
                order[i] = order[i + 1]
                place[order[i]] = i
            for i in range(now, best, -1):
                order[i] = order[i - 1]
                place[order[i]] = i
            order[best] = v
            place[v] = best
        if moves == before:
            break
    return int(moves)


def settled(tables: Tables, order: Int64Array, weight: Int64Array, passes: int) -> Int64Array:
    """Return an order near a given one that holds fewer bytes times the weight of each step."""
    count = tables.node_count
    control = tables.graph.control
    by_waited = np.argsort(control.items, kind="stable")
    lengths = np.bincount(control.items, minlength=count)
    starts = np.concatenate([[0], np.cumsum(lengths)]) + count + 1
    followers = np.concatenate([starts, control.row_numbers()[by_waited]]).astype(np.int64)
    result = order.copy()
    place = np.empty(count, np.int64)
    place[result] = np.arange(count)
    sums = np.concatenate([[0], np.cumsum(weight), [0]]).astype(np.int64)
    sums[-1] = sums[-2]
    slide(tables.words, followers, result, place, sums, passes)
    return result
