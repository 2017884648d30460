"""Kernels: depth-first orders of a stretch of an order, and their mirrors.

Forwards each node follows all that it needs; the mirror starts from the nodes that need nothing,
walks to the followers and writes from the end. Of several, the node of lower rank goes first.
"""

from __future__ import annotations

from typing import Final

from lowtide.scheduling.greedy import made_bytes
from lowtide.scheduling.words import NODES, PRED, PREDS, SUCC, SUCCS
from lowtide.search.kernels import Array, kernel

BY_PLACE: Final = 0
BY_WEIGHT: Final = 1
"""Nodes with many extra users behind them first, then those with many bytes (as XLA's DFS)."""

BY_BYTES: Final = 2
"""Nodes with many bytes behind them first."""

CAP: Final = 1 << 60


@kernel
def weigh(
    g: Array, order: Array, place: Array, first: int, stop: int, users: Array, total: Array
) -> int:
    """Per node of a stretch: users beyond the first and bytes made, of all that it needs."""
    for i in range(first, stop):
        node = order[i]
        users[node] = max(0, g[g[SUCC] + node + 1] - g[g[SUCC] + node] - 1)
        total[node] = made_bytes(g, node)
        for k in range(g[g[PRED] + node], g[g[PRED] + node + 1]):
            other = g[g[PREDS] + k]
            if place[other] >= first:
                users[node] = min(stop - first, users[node] + users[other])
                total[node] = min(CAP, total[node] + total[other])
    return 0


@kernel
def goes_first(a: int, b: int, kind: int, place: Array, users: Array, total: Array) -> int:
    """Whether node `a` is walked before node `b`."""
    if kind == BY_WEIGHT and users[a] != users[b]:
        return 1 if users[a] > users[b] else 0
    if kind != BY_PLACE and total[a] != total[b]:
        return 1 if total[a] > total[b] else 0
    return 1 if place[a] < place[b] else 0


@kernel
def sort(
    rows: Array, low: int, high: int, kind: int, place: Array, users: Array, total: Array
) -> int:
    """Sort nodes in place by decreasing gaps (Shell 1959), those to walk first at the front."""
    gap = 1
    while gap < (high - low) // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(low + gap, high):
            node = rows[i]
            j = i
            while j - gap >= low:
                if goes_first(node, rows[j - gap], kind, place, users, total) == 0:
                    break
                rows[j] = rows[j - gap]
                j -= gap
            rows[j] = node
        gap = gap // 3
    return 0


@kernel
def list_ends(
    g: Array, order: Array, place: Array, first: int, stop: int, ahead: int, aheads: int,
    base: int, rows: Array, state: Array,
) -> int:  # fmt: skip
    """List from `base` on the nodes that none of the stretch follows; return how many there are."""
    count = 0
    for i in range(first, stop):
        node = order[i]
        state[node] = -1
        inside = 0
        for k in range(g[g[ahead] + node], g[g[ahead] + node + 1]):
            other = place[g[g[aheads] + k]]
            if first <= other and other < stop:
                inside += 1
        if inside == 0:
            rows[base + count] = node
            count += 1
    return count


@kernel
def list_needed(
    g: Array, node: int, place: Array, first: int, stop: int, back: int, backs: int, kind: int,
    rows: Array, users: Array, total: Array,
) -> int:  # fmt: skip
    """List in the row of a node those of the stretch that it needs, then -1; sorted."""
    begin = g[g[back] + node]
    count = 0
    for k in range(begin, g[g[back] + node + 1]):
        other = g[g[backs] + k]
        if first <= place[other] and place[other] < stop:
            rows[begin + count] = other
            count += 1
    if count > 1:
        sort(rows, begin, begin + count, kind, place, users, total)
    for k in range(begin + count, g[g[back] + node + 1]):
        rows[k] = -1
    return count


@kernel
def next_needed(begin: int, stop: int, node: int, rows: Array, state: Array) -> int:
    """The first node of a row that has not been reached, from where the row was left; or -1."""
    while begin + state[node] < stop:
        other = rows[begin + state[node]]
        if other < 0:
            break
        state[node] += 1
        if state[other] < 0:
            return int(other)
    return -1


@kernel
def depth_first(
    g: Array, order: Array, place: Array, first: int, stop: int, kind: int, mirror: int,
    found: Array, rows: Array, stack: Array, state: Array, users: Array, total: Array,
) -> int:  # fmt: skip
    """Fill the stretch of `found`; `rows` has room for all edges and all nodes behind them."""
    back = PRED if mirror == 0 else SUCC
    backs = PREDS if mirror == 0 else SUCCS
    if kind != BY_PLACE:
        weigh(g, order, place, first, stop, users, total)
    base = g[g[back] + g[NODES]]
    starts = list_ends(
        g, order, place, first, stop, SUCC if mirror == 0 else PRED,
        SUCCS if mirror == 0 else PREDS, base, rows, state,
    )  # fmt: skip
    sort(rows, base, base + starts, kind, place, users, total)
    at = first
    for s in range(starts):
        stack[0] = rows[base + s]
        depth = 1
        while depth > 0:
            node = stack[depth - 1]
            if state[node] < 0:
                list_needed(g, node, place, first, stop, back, backs, kind, rows, users, total)
                state[node] = 0
            needed = next_needed(g[g[back] + node], g[g[back] + node + 1], node, rows, state)
            if needed >= 0:
                stack[depth] = needed
                depth += 1
                continue
            depth -= 1
            found[at if mirror == 0 else first + stop - 1 - at] = node
            at += 1
    return at - first
