"""Kernels: depth-first orders of a stretch of an order, and their mirrors.

Forwards each node follows all that it needs. The mirror starts from the nodes that need nothing,
walks to the followers, and writes the order from its end. Of several nodes, the one of lower
rank goes first.
"""

from __future__ import annotations

from typing import Final

from lowtide.analysis.graph_tables import GraphTables, Rows
from lowtide.records import dataclass
from lowtide.scheduling.greedy import GreedyOrder, made_bytes
from lowtide.search.kernels import Array, Record, kernel

BY_PLACE: Final = 0
BY_WEIGHT: Final = 1
"""Nodes with many extra users behind them first, then those with many bytes (as XLA's DFS)."""

BY_BYTES: Final = 2
"""Nodes with many bytes behind them first."""

CAP: Final = 1 << 60


@dataclass(frozen=True, eq=False, slots=True)
class Descent(Record):
    """Arrays of a depth-first walk of a stretch.

    Per node: `users` beyond the first and bytes made (`total`) of all that it needs; `state` is how
    many of those it needs have been looked at (-1: the node has not been reached). `needed` has for
    each node those of the stretch that it needs, first to walk first, in rows as long as all that
    it needs, then -1. `ends` lists the nodes that none of the stretch follows. `stack` has the
    nodes on the way down.
    """

    users: Array
    total: Array
    state: Array
    needed: Array
    ends: Array
    stack: Array


@kernel
def weigh(graph: GraphTables, given: GreedyOrder, first: int, stop: int, descent: Descent) -> int:
    """Per node of a stretch: users beyond the first and bytes made, of all that it needs."""
    users = descent.users
    total = descent.total
    before = graph.before
    behind = graph.behind
    for i in range(first, stop):
        node = given.node[i]
        users[node] = max(0, behind.starts[node + 1] - behind.starts[node] - 1)
        total[node] = made_bytes(graph, node)
        for k in range(before.starts[node], before.starts[node + 1]):
            other = before.items[k]
            if given.place[other] >= first:
                users[node] = min(stop - first, users[node] + users[other])
                total[node] = min(CAP, total[node] + total[other])
    return 0


@kernel
def goes_first(a: int, b: int, kind: int, place: Array, descent: Descent) -> int:
    """Whether node `a` is walked before node `b`."""
    users = descent.users
    total = descent.total
    if kind == BY_WEIGHT and users[a] != users[b]:
        return 1 if users[a] > users[b] else 0
    if kind != BY_PLACE and total[a] != total[b]:
        return 1 if total[a] > total[b] else 0
    return 1 if place[a] < place[b] else 0


@kernel
def sort(nodes: Array, low: int, high: int, kind: int, place: Array, descent: Descent) -> int:
    """Sort nodes in place by decreasing gaps (Shell 1959), those to walk first at the front."""
    gap = 1
    while gap < (high - low) // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(low + gap, high):
            node = nodes[i]
            j = i
            while j - gap >= low:
                if goes_first(node, nodes[j - gap], kind, place, descent) == 0:
                    break
                nodes[j] = nodes[j - gap]
                j -= gap
            nodes[j] = node
        gap = gap // 3
    return 0


@kernel
def list_ends(followers: Rows, given: GreedyOrder, first: int, stop: int, descent: Descent) -> int:
    """List the nodes that none of the stretch follows; return how many there are."""
    count = 0
    for i in range(first, stop):
        node = given.node[i]
        descent.state[node] = -1
        inside = 0
        for k in range(followers.starts[node], followers.starts[node + 1]):
            other = given.place[followers.items[k]]
            if first <= other and other < stop:
                inside += 1
        if inside == 0:
            descent.ends[count] = node
            count += 1
    return count


@kernel
def list_needed(
    needs: Rows, node: int, place: Array, first: int, stop: int, kind: int, descent: Descent
) -> int:
    """List in the row of a node those of the stretch that it needs, then -1; sorted."""
    needed = descent.needed
    begin = needs.starts[node]
    count = 0
    for k in range(begin, needs.starts[node + 1]):
        other = needs.items[k]
        if first <= place[other] and place[other] < stop:
            needed[begin + count] = other
            count += 1
    if count > 1:
        sort(needed, begin, begin + count, kind, place, descent)
    for k in range(begin + count, needs.starts[node + 1]):
        needed[k] = -1
    return count


@kernel
def next_needed(begin: int, stop: int, node: int, descent: Descent) -> int:
    """The first node of a row that has not been reached, from where the row was left; or -1."""
    state = descent.state
    while begin + state[node] < stop:
        other = descent.needed[begin + state[node]]
        if other < 0:
            break
        state[node] += 1
        if state[other] < 0:
            return int(other)
    return -1


@kernel
def walk_down(
    needs: Rows,
    followers: Rows,
    given: GreedyOrder,
    first: int,
    stop: int,
    kind: int,
    found: Array,
    descent: Descent,
) -> int:
    """Write the nodes of a stretch to `found`, each behind those that it needs; return the end."""
    state = descent.state
    stack = descent.stack
    ends = list_ends(followers, given, first, stop, descent)
    sort(descent.ends, 0, ends, kind, given.place, descent)
    at = first
    for s in range(ends):
        stack[0] = descent.ends[s]
        depth = 1
        while depth > 0:
            node = stack[depth - 1]
            if state[node] < 0:
                list_needed(needs, node, given.place, first, stop, kind, descent)
                state[node] = 0
            needed = next_needed(needs.starts[node], needs.starts[node + 1], node, descent)
            if needed >= 0:
                stack[depth] = needed
                depth += 1
                continue
            depth -= 1
            found[at] = node
            at += 1
    return at


@kernel
def depth_first(
    graph: GraphTables,
    given: GreedyOrder,
    first: int,
    stop: int,
    kind: int,
    mirror: int,
    found: Array,
    descent: Descent,
) -> int:
    """Fill the stretch of `found`; return the nodes placed."""
    if kind != BY_PLACE:
        weigh(graph, given, first, stop, descent)
    if mirror == 0:
        at = walk_down(graph.before, graph.behind, given, first, stop, kind, found, descent)
        return at - first
    at = walk_down(graph.behind, graph.before, given, first, stop, kind, found, descent)
    low = first
    high = at - 1
    while low < high:
        kept = found[low]
        found[low] = found[high]
        found[high] = kept
        low += 1
        high -= 1
    return at - first
