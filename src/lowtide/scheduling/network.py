"""Kernels: the network whose minimum cut is the least that is live when a node runs.

A state is the set of nodes that have run, closed under predecessors. Just before a node runs, its
ancestors have and its descendants have not: `side` says so (DONE, AHEAD), and the network has what
is UNDECIDED, and the buffers with several undecided readers. A buffer is live in a state that has
its maker and lacks one of its users. With the node's own bytes, less the most that it can take
over, the least live bytes of such a state bound every order from below.
"""

from __future__ import annotations

from typing import Final

from lowtide.scheduling.greedy import made_bytes
from lowtide.scheduling.steps import taken_over
from lowtide.scheduling.words import (
    BUFFERS,
    KEPT,
    MAKER,
    NODES,
    OWN,
    PRED,
    PREDS,
    SHARE,
    SHARE_MADE,
    SHARE_READ,
    SIZE,
    SUCC,
    SUCCS,
    TOTAL,
    USE,
    USES,
)
from lowtide.search.kernels import Array, kernel

UNDECIDED: Final = 0
DONE: Final = 1
AHEAD: Final = 2


@kernel
def spread(
    g: Array, node: int, starts: int, items: int, mark: int, side: Array, queue: Array
) -> int:
    """Mark all undecided nodes that are reached from a node; not the node itself."""
    queue[0] = node
    tail = 1
    at = 0
    while at < tail:
        x = queue[at]
        at += 1
        for k in range(g[g[starts] + x], g[g[starts] + x + 1]):
            y = g[g[items] + k]
            if side[y] == UNDECIDED:
                side[y] = mark
                queue[tail] = y
                tail += 1
    return tail


@kernel
def decide(g: Array, node: int, part: Array, side: Array, queue: Array) -> int:
    """Fill in `side` for the moment before a node runs.

    Nodes of a lower `part` than the node's have run, those of a higher one have not.
    """
    for x in range(g[NODES]):
        side[x] = UNDECIDED
        if part[x] < part[node]:
            side[x] = DONE
        if part[x] > part[node]:
            side[x] = AHEAD
    side[node] = AHEAD
    spread(g, node, PRED, PREDS, DONE, side, queue)
    spread(g, node, SUCC, SUCCS, AHEAD, side, queue)
    return 0


@kernel
def needed_ahead(g: Array, b: int, node: int, side: Array) -> int:
    """Whether a buffer is kept, or used behind the step of a node for sure."""
    if g[g[KEPT] + b] != 0:
        return 1
    for k in range(g[g[USE] + b], g[g[USE] + b + 1]):
        user = g[g[USES] + k]
        if side[user] == AHEAD and user != node:
            return 1
    return 0


@kernel
def own_bytes(
    g: Array, node: int, side: Array, eased: Array,
    left: Array, partner: Array, queue: Array, by: Array,
) -> int:  # fmt: skip
    """What the step of a node adds to the state before it, at least.

    A pair of operand and result that shares with nothing else is left to the network: `eased` is
    set to 1 for the operand, whose bytes the network counts as if the node did not use it. Of the
    other pairs the largest matching is taken off that any state may allow.
    """
    begin = g[g[SHARE] + node]
    stop = g[g[SHARE] + node + 1]
    for i in range(begin, stop):
        a = g[g[SHARE_READ] + i]
        left[a] = needed_ahead(g, a, node, side)
    for i in range(begin, stop):
        a = g[g[SHARE_READ] + i]
        alone = 1 - left[a]
        for j in range(begin, stop):
            other = g[g[SHARE_READ] + j]
            same_result = g[g[SHARE_MADE] + j] == g[g[SHARE_MADE] + i]
            if j != i and left[other] == 0 and (other == a or same_result != 0):
                alone = 0
        if alone == 1:
            eased[a] = 1
    for i in range(begin, stop):
        a = g[g[SHARE_READ] + i]
        if eased[a] == 1:
            left[a] = 1
    total = made_bytes(g, node) + int(g[g[OWN] + node])
    return total - taken_over(g, node, left, partner, queue, by)


@kernel
def number(g: Array, side: Array, local: Array, member: Array) -> int:
    """Number the undecided nodes from 0; return how many there are."""
    count = 0
    for x in range(g[NODES]):
        local[x] = -1
        if side[x] == UNDECIDED:
            local[x] = count
            member[count] = x
            count += 1
    return count


@kernel
def add_arc(
    tail: int, head: int, room: int, arcs: int, arc_tail: Array, arc_head: Array, arc_room: Array
) -> int:
    """Add an arc to the list; return the number of arcs."""
    arc_tail[arcs] = tail
    arc_head[arcs] = head
    arc_room[arcs] = room
    return arcs + 1


@kernel
def collect(
    g: Array, node: int, side: Array, eased: Array, local: Array, nodes: int, counts: Array,
    supply: Array, demand: Array, arc_tail: Array, arc_head: Array, arc_room: Array,
) -> int:  # fmt: skip
    """List the arcs; return the bytes that are live in every state.

    `counts` receives the numbers of nodes, those of buffers included, and of arcs.
    """
    fixed = 0
    arcs = 0
    count = nodes
    endless = g[TOTAL] + 1
    for x in range(nodes):
        supply[x] = 0
        demand[x] = 0
    for b in range(g[BUFFERS]):
        size = g[g[SIZE] + b]
        maker = g[g[MAKER] + b]
        if size == 0 or (maker >= 0 and side[maker] == AHEAD):
            continue
        ahead = g[g[KEPT] + b]
        open_uses = 0
        user = -1
        for k in range(g[g[USE] + b], g[g[USE] + b + 1]):
            x = g[g[USES] + k]
            if side[x] == UNDECIDED:
                open_uses += 1
                user = x
            if side[x] == AHEAD and (x != node or eased[b] == 0):
                ahead = 1
        made = maker < 0 or side[maker] == DONE
        if ahead != 0:
            if made:
                fixed += size
            else:
                demand[local[maker]] += size
            continue
        if open_uses == 0:
            continue
        into = local[user]
        if open_uses > 1:
            into = count
            supply[count] = 0
            demand[count] = 0
            count += 1
            for k in range(g[g[USE] + b], g[g[USE] + b + 1]):
                x = g[g[USES] + k]
                if side[x] == UNDECIDED:
                    arcs = add_arc(into, local[x], endless, arcs, arc_tail, arc_head, arc_room)
        if made:
            supply[into] += size
        else:
            arcs = add_arc(local[maker], into, size, arcs, arc_tail, arc_head, arc_room)
    counts[0] = count
    counts[1] = arcs
    return fixed


@kernel
def add_orders(
    g: Array, local: Array, nodes: int, member: Array, arcs: int,
    arc_tail: Array, arc_head: Array, arc_room: Array,
) -> int:  # fmt: skip
    """List an endless arc from each undecided node to each one before it; return all arcs."""
    endless = g[TOTAL] + 1
    for x in range(nodes):
        node = member[x]
        for k in range(g[g[PRED] + node], g[g[PRED] + node + 1]):
            other = local[g[g[PREDS] + k]]
            if other >= 0:
                arcs = add_arc(x, other, endless, arcs, arc_tail, arc_head, arc_room)
    return arcs


@kernel
def settle(supply: Array, demand: Array, count: int) -> int:
    """Send what nodes have to their own demand; return it."""
    sent = 0
    for x in range(count):
        both = min(supply[x], demand[x])
        supply[x] -= both
        demand[x] -= both
        sent += both
    return sent


@kernel
def index_arcs(
    count: int, arcs: int, arc_tail: Array, arc_head: Array, arc_room: Array,
    start: Array, head: Array, room: Array, mate: Array, cursor: Array,
) -> int:  # fmt: skip
    """Sort arcs and their reverses by the node they leave; return how many there are."""
    for x in range(count + 1):
        start[x] = 0
    for e in range(arcs):
        start[arc_tail[e] + 1] += 1
        start[arc_head[e] + 1] += 1
    for x in range(count):
        start[x + 1] += start[x]
        cursor[x] = start[x]
    for e in range(arcs):
        x = arc_tail[e]
        y = arc_head[e]
        a = cursor[x]
        cursor[x] += 1
        b = cursor[y]
        cursor[y] += 1
        head[a] = y
        room[a] = arc_room[e]
        mate[a] = b
        head[b] = x
        room[b] = 0
        mate[b] = a
    return 2 * arcs
