"""Minimum cuts at nodes: what is live at least when a node runs, and who must run before it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from lowtide.scheduling.flow import FAR, reachable, send
from lowtide.scheduling.network import (
    DONE,
    UNDECIDED,
    add_orders,
    collect,
    decide,
    index_arcs,
    number,
    own_bytes,
    settle,
)
from lowtide.scheduling.words import (
    NODES,
    PRED,
    PREDS,
    READ,
    READS,
    SHARE,
    SHARE_READ,
    SUCC,
    SUCCS,
    TOTAL,
    Words,
)
from lowtide.search.kernels import Array, kernel

LEAST: Final = 0
FORCED: Final = 1
PRICES: Final = 2
"""What to find at a node: the least states only, who is forced, or what a change costs."""

COUNTS: Final = 4
"""Words of `counts` in front of those per node."""

OUTSIDE: Final = 0
LARGEST_ONLY: Final = 1
SMALLEST: Final = 2
"""Where a node is: in no least state, in the largest one only, in the smallest and so in all."""


@kernel
def exclude(
    x: int, slack: int, endless: int, count: int, arcs: int,
    start: Array, head: Array, room: Array, mate: Array, supply: Array, demand: Array,
    room_kept: Array, supply_kept: Array, layer: Array, cursor: Array, queue: Array, path: Array,
    seen: Array,
) -> int:  # fmt: skip
    """What keeping node x out of the state costs, or `slack` + 1 if more; the flow is put back.

    If it is not more, `seen` is 1 for the nodes of a least state without x.
    """
    demand[x] += endless
    sent = send(
        slack + 1, x, count, start, head, room, mate, supply, demand, layer, cursor, queue, path
    )
    if sent <= slack:
        reachable(start, head, room, supply, count, seen, queue)
    demand[x] -= endless - sent
    for e in range(arcs):
        room[e] = room_kept[e]
    for y in range(count):
        supply[y] = supply_kept[y]
    return min(sent, slack + 1)


@kernel
def rule_out(
    g: Array,
    x: int,
    starts: int,
    items: int,
    local: Array,
    member: Array,
    mark: Array,
    queue: Array,
) -> int:
    """Unmark the undecided nodes reached from node x along the order."""
    queue[0] = x
    tail = 1
    at = 0
    while at < tail:
        node = member[queue[at]]
        at += 1
        for k in range(g[g[starts] + node], g[g[starts] + node + 1]):
            y = local[g[g[items] + k]]
            if y >= 0 and mark[y] != 0:
                mark[y] = 0
                queue[tail] = y
                tail += 1
    return tail


@kernel
def keep(source: Array, count: int, kept: Array) -> int:
    """Copy the first words of an array."""
    for i in range(count):
        kept[i] = source[i]
    return count


@kernel
def middle(nodes: int, mark: Array, rank: Array) -> int:
    """The middle one of the marked nodes, in the order of `rank`; -1 if there is none."""
    marked = 0
    for x in range(nodes):
        marked += mark[x]
    half = (marked - 1) // 2
    for r in range(nodes):
        x = rank[r]
        if mark[x] != 0:
            if half == 0:
                return int(x)
            half -= 1
    return -1


@kernel
def force(
    g: Array, slack: int, nodes: int, count: int, arcs: int, starts: int, items: int,
    start: Array, head: Array, room: Array, mate: Array, supply: Array, demand: Array,
    room_kept: Array, kept: Array, layer: Array, cursor: Array, queue: Array, path: Array,
    seen: Array, local: Array, member: Array, mark: Array, rank: Array, listed: int, found: Array,
) -> int:  # fmt: skip
    """List marked nodes without which the state costs more than `slack`, behind those listed.

    What is reached from a listed one along the tables `starts` and `items` follows, and what a
    state lacks that does without another one needs no test: so the middle one is tested.
    """
    x = middle(nodes, mark, rank)
    while x >= 0:
        mark[x] = 0
        if exclude(
            x, slack, g[TOTAL] + 1, count, arcs, start, head, room, mate, supply, demand,
            room_kept, kept, layer, cursor, queue, path, seen,
        ) > slack:  # fmt: skip
            found[listed] = member[x]
            listed += 1
            rule_out(g, x, starts, items, local, member, mark, queue)
        else:
            for y in range(nodes):
                if seen[y] == 0:
                    mark[y] = 0
        x = middle(nodes, mark, rank)
    return listed


@kernel
def mirror(count: int, arcs: int, room: Array, mate: Array, supply: Array, demand: Array) -> int:
    """Turn the residual network around: what could flow along an arc flows along its reverse.

    Supplies and demands change places; a state becomes the set of nodes outside of it.
    """
    for e in range(arcs):
        other = mate[e]
        if e < other:
            kept = room[e]
            room[e] = room[other]
            room[other] = kept
    for x in range(count):
        kept = supply[x]
        supply[x] = demand[x]
        demand[x] = kept
    return 0


@kernel
def price(
    g: Array, nodes: int, count: int, arcs: int, limit: int, turn: int,
    start: Array, head: Array, room: Array, mate: Array, supply: Array, demand: Array,
    room_kept: Array, kept: Array, layer: Array, cursor: Array, queue: Array, path: Array,
    seen: Array, member: Array, mark: Array, found: Array,
) -> int:  # fmt: skip
    """Fill in what it costs to have the marked nodes on the other side, 0 for others at first."""
    for x in range(nodes):
        if mark[x] != 0:
            found[member[x]] = exclude(
                x, limit, g[TOTAL] + 1, count, arcs, start, head, room, mate, supply, demand,
                room_kept, kept, layer, cursor, queue, path, seen,
            )  # fmt: skip
        elif turn == 0:
            found[member[x]] = 0
    return 0


@kernel
def by_place(g: Array, order: Array, local: Array, rank: Array) -> int:
    """List the nodes of the network in the order given; return how many there are."""
    count = 0
    for i in range(g[NODES]):
        if local[order[i]] >= 0:
            rank[count] = local[order[i]]
            count += 1
    return count


@kernel
def clear_eased(g: Array, node: int, eased: Array) -> int:
    """Undo what `own_bytes` marks."""
    for i in range(g[g[SHARE] + node], g[g[SHARE] + node + 1]):
        eased[g[g[SHARE_READ] + i]] = 0
    return 0


@kernel
def locate(g: Array, side: Array, local: Array, layer: Array, seen: Array, where: Array) -> int:
    """Fill in where each node is in the least states, once no more flows."""
    for x in range(g[NODES]):
        where[x] = SMALLEST if side[x] == DONE else OUTSIDE
        if side[x] == UNDECIDED and layer[local[x]] == FAR:
            where[x] = SMALLEST if seen[local[x]] != 0 else LARGEST_ONLY
    return 0


@kernel
def mark_side(
    nodes: int, member: Array, where: Array, level: int, mode: int, asked: Array, mark: Array
) -> int:
    """Mark the nodes to test on one side: all of them, or those asked for."""
    for x in range(nodes):
        mark[x] = 0
        if where[member[x]] == level:
            mark[x] = 1 if mode == FORCED else asked[member[x]]
    return 0


@kernel
def probe(
    g: Array, node: int, part: Array, target: int, floor: int, mode: int, order: Array,
    counts: Array, where: Array, found: Array, side: Array, eased: Array, local: Array,
    member: Array, mark: Array, rank: Array, left: Array, partner: Array, by: Array,
    queue: Array, supply: Array, demand: Array, arc_tail: Array, arc_head: Array,
    arc_room: Array, start: Array, head: Array, room: Array, mate: Array, layer: Array,
    cursor: Array, path: Array, seen: Array, room_kept: Array, kept: Array,
) -> int:  # fmt: skip
    """Least bytes of the step of a node in any order in which `part` does not fall.

    `where` receives the place of each node in the least states. With FORCED, `found` lists the
    nodes that every order with steps up to `target` has before this one (`counts[2]` of them), then
    those that it has behind (up to `counts[3]`). With PRICES, `order` is 1 for some nodes, for
    which `found` receives the bytes, up to `target`, that it costs to have them on the other side.
    """
    decide(g, node, part, side, queue)
    own = own_bytes(g, node, side, eased, left, partner, queue, by)
    nodes = number(g, side, local, member)
    if mode == FORCED and counts[node + COUNTS] == nodes:
        clear_eased(g, node, eased)
        return 0
    fixed = collect(
        g, node, side, eased, local, nodes, counts, supply, demand, arc_tail, arc_head, arc_room
    )
    clear_eased(g, node, eased)
    count = counts[0]
    arcs = add_orders(g, local, nodes, member, counts[1], arc_tail, arc_head, arc_room)
    arcs = index_arcs(count, arcs, arc_tail, arc_head, arc_room, start, head, room, mate, cursor)
    flow = settle(supply, demand, count)
    flow += send(
        g[TOTAL] + 1, -1, count, start, head, room, mate, supply, demand, layer, cursor, queue, path
    )
    reachable(start, head, room, supply, count, seen, queue)
    locate(g, side, local, layer, seen, where)
    value = fixed + flow + own
    counts[2] = 0
    counts[3] = 0
    if mode == LEAST or (mode == FORCED and (value > target or value < floor)):
        return value
    if mode == FORCED:
        by_place(g, order, local, rank)
        counts[node + COUNTS] = nodes
    listed = 0
    for turn in range(2):
        if turn == 1:
            mirror(count, arcs, room, mate, supply, demand)
        keep(room, arcs, room_kept)
        keep(supply, count, kept)
        level = OUTSIDE if turn == 1 else SMALLEST
        mark_side(nodes, member, where, level, mode, order, mark)
        if mode == FORCED:
            listed = force(
                g, target - value, nodes, count, arcs, SUCC if turn == 1 else PRED,
                SUCCS if turn == 1 else PREDS, start, head, room, mate, supply, demand, room_kept,
                kept, layer, cursor, queue, path, seen, local, member, mark, rank, listed, found,
            )  # fmt: skip
            counts[2 + turn] = listed
        else:
            price(
                g, nodes, count, arcs, target, turn, start, head, room, mate, supply, demand,
                room_kept, kept, layer, cursor, queue, path, seen, member, mark, found,
            )  # fmt: skip
    return value


@dataclass(frozen=True, slots=True)
class Forced:
    """What every order with steps up to a target has before a node, and behind it."""

    bytes: int
    before: Array
    behind: Array


class Cuts:
    """Minimum cuts of one graph, with the arrays that they work on."""

    def __init__(self, words: Words) -> None:
        self.words = words
        nodes, buffers = words.nodes + 1, words.buffers + 1
        uses = len(words.rows(READ, READS)[1])
        edges = len(words.rows(PRED, PREDS)[1])
        size, arcs = nodes + buffers, uses + buffers + edges + 1
        self._by_node = [np.zeros(nodes, np.int64) for _ in range(6)]
        self.counts = np.full(COUNTS + nodes, -1, np.int64)
        self.where, self.found = np.zeros(nodes, np.int64), np.zeros(2 * nodes, np.int64)
        side, local, member, mark, rank, self._whole = self._by_node
        eased, left, by = (np.zeros(buffers, np.int64) for _ in range(3))
        partner = np.full(buffers, -1, np.int64)
        by_size = [np.zeros(size, np.int64) for _ in range(8)]
        queue, supply, demand, layer, cursor, path, seen, kept = by_size
        start = np.zeros(size + 1, np.int64)
        by_arc = [np.zeros(arcs, np.int64) for _ in range(3)]
        head, room, mate, room_kept = (np.zeros(2 * arcs, np.int64) for _ in range(4))
        self._arrays = [
            side, eased, local, member, mark, rank, left, partner, by, queue, supply, demand,
            *by_arc, start, head, room, mate, layer, cursor, path, seen, room_kept, kept,
        ]  # fmt: skip

    def remember(self, earlier: Cuts) -> None:
        """Take over at which nodes `earlier` has looked, of a graph with fewer edges."""
        self.counts[COUNTS:] = earlier.counts[COUNTS:]

    def least(self, node: int, part: Array | None = None) -> int:
        """Return the least bytes of the step of a node; `where` then has the least states.

        No order has a smaller step there in which the parts of nodes do not fall.
        """
        return self._probe(node, self._whole if part is None else part, 0, 0, LEAST, self._whole)

    def forced(self, node: int, target: int, floor: int, order: Array) -> Forced:
        """Return the least bytes of the step of a node, and what a target forces around it.

        That is looked for where the step takes `floor` bytes at least. A node at which as many are
        undecided as when it was last looked at is passed over: the bytes are 0 then.
        """
        value = self._probe(node, self._whole, target, floor, FORCED, order)
        first, stop = self.counts[2:COUNTS].tolist() if value else (0, 0)
        return Forced(value, self.found[:first].copy(), self.found[first:stop].copy())

    def prices(self, node: int, asked: Array, limit: int) -> tuple[int, Array]:
        """Return the least bytes, and what each node asked for costs on the other side.

        Costs are bytes up to `limit` + 1, and 0 for nodes that are on both sides of least states,
        or comparable to the node; `where` then has the least states.
        """
        value = self._probe(node, self._whole, limit, 0, PRICES, asked)
        side = self._arrays[0][: self.words.nodes]
        return value, np.where(side == UNDECIDED, self.found[: self.words.nodes], 0)

    @property
    def undecided(self) -> npt.NDArray[np.bool_]:
        """Per node whether it is neither before nor behind the one last looked at."""
        found: npt.NDArray[np.bool_] = self._arrays[0][: self.words.nodes] == UNDECIDED
        return found

    def _probe(
        self, node: int, part: Array, target: int, floor: int, mode: int, order: Array
    ) -> int:
        return probe(
            self.words.words, node, part, target, floor, mode, order,
            self.counts, self.where, self.found, *self._arrays,
        )  # fmt: skip
