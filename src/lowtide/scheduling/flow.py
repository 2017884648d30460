"""Kernels: maximum flow, by shortest augmenting paths in layers (Dinic 1970)."""

from __future__ import annotations

from typing import Final

from lowtide.records import dataclass
from lowtide.search.kernels import Array, Record, kernel

FAR: Final = -1
"""The layer of a node from which no demand can be reached."""

NODES: Final = 0
ARCS: Final = 1
"""Words of `Network.extent`: how many nodes and arcs there are; reverses are arcs too."""


@dataclass(frozen=True, eq=False, slots=True)
class Network(Record):
    """A residual network, without a source and a sink node.

    `extent` has two words, the numbers of nodes and of arcs at hand; the arrays have room for more.
    Per node x: `supply[x]` may enter there and `demand[x]` may leave there; its arcs are those from
    `start[x]` up to `start[x + 1]`. Per arc e: it leads to `head[e]` and has `room[e]` left; its
    reverse is arc `mate[e]`.
    """

    extent: Array
    start: Array
    head: Array
    room: Array
    mate: Array
    supply: Array
    demand: Array


@dataclass(frozen=True, eq=False, slots=True)
class Paths(Record):
    """Arrays of a search for augmenting paths, all per node.

    `layer`: arcs to the nearest demand. `cursor`: the arc to look at next. `queue`: nodes to look
    at. `path`: the arcs from where a flow begins. `seen`: 1 for what supplies reach.
    """

    layer: Array
    cursor: Array
    queue: Array
    path: Array
    seen: Array


@kernel
def layers(network: Network, paths: Paths, only: int) -> int:
    """Layer of each node: arcs to the nearest demand; return whether a supply reaches one.

    With `only` from 0 on, the demand of that node alone counts.
    """
    layer = paths.layer
    queue = paths.queue
    tail = 0
    for x in range(network.extent[NODES]):
        layer[x] = FAR
        paths.cursor[x] = network.start[x]
        if network.demand[x] > 0 and (only < 0 or only == x):
            layer[x] = 0
            queue[tail] = x
            tail += 1
    reached = 0
    at = 0
    while at < tail:
        x = queue[at]
        at += 1
        if network.supply[x] > 0:
            reached = 1
        for e in range(network.start[x], network.start[x + 1]):
            y = network.head[e]
            if layer[y] == FAR and network.room[network.mate[e]] > 0:
                layer[y] = layer[x] + 1
                queue[tail] = y
                tail += 1
    return reached


@kernel
def push_from(network: Network, paths: Paths, begin: int, limit: int) -> int:
    """Send what node `begin` has down the layers, up to `limit`; return what was sent."""
    start = network.start
    head = network.head
    room = network.room
    mate = network.mate
    supply = network.supply
    demand = network.demand
    layer = paths.layer
    cursor = paths.cursor
    path = paths.path
    sent = 0
    depth = 0
    x = begin
    while supply[begin] > 0 and sent < limit:
        if layer[x] == 0 and demand[x] > 0:
            most = min(supply[begin], demand[x])
            for i in range(depth):
                most = min(most, room[path[i]])
            supply[begin] -= most
            demand[x] -= most
            sent += most
            full = depth
            for i in range(depth - 1, -1, -1):
                e = path[i]
                room[e] -= most
                room[mate[e]] += most
                if room[e] == 0:
                    full = i
            if full < depth:
                depth = full
                x = head[mate[path[full]]]
            continue
        while cursor[x] < start[x + 1]:
            e = cursor[x]
            if room[e] > 0 and layer[head[e]] == layer[x] - 1:
                break
            cursor[x] += 1
        if cursor[x] < start[x + 1]:
            path[depth] = cursor[x]
            x = head[cursor[x]]
            depth += 1
            continue
        if depth == 0:
            break
        depth -= 1
        x = head[mate[path[depth]]]
        cursor[x] += 1
    return sent


@kernel
def send(network: Network, paths: Paths, limit: int, only: int) -> int:
    """Send as much as fits from supplies to demands; return it. Ends once it reaches `limit`.

    With `only` from 0 on, the demand of that node alone counts. A flow that did not reach the limit
    is a maximum one, and `paths.layer` is FAR for what no demand can be reached from.
    """
    sent = 0
    while sent < limit:
        if layers(network, paths, only) == 0:
            break
        for x in range(network.extent[NODES]):
            if network.supply[x] > 0 and paths.layer[x] >= 0 and sent < limit:
                sent += push_from(network, paths, x, limit - sent)
    return sent


@kernel
def reachable(network: Network, paths: Paths) -> int:
    """Set `paths.seen` to 1 for what supplies still reach, else 0: the smallest minimum cut."""
    seen = paths.seen
    queue = paths.queue
    tail = 0
    for x in range(network.extent[NODES]):
        seen[x] = 0
        if network.supply[x] > 0:
            seen[x] = 1
            queue[tail] = x
            tail += 1
    at = 0
    while at < tail:
        x = queue[at]
        at += 1
        for e in range(network.start[x], network.start[x + 1]):
            y = network.head[e]
            if seen[y] == 0 and network.room[e] > 0:
                seen[y] = 1
                queue[tail] = y
                tail += 1
    return tail
