"""Kernels: maximum flow, by shortest augmenting paths in layers (Dinic 1970).

A network has no source and no sink node: `supply[x]` may enter at node x and `demand[x]` may leave
there. Arc `e` leads to `head[e]`, has `room[e]` left, and its reverse is arc `mate[e]`; the arcs of
node x are those from `start[x]` up to `start[x + 1]`.
"""

from __future__ import annotations

from typing import Final

from lowtide.search.kernels import Array, kernel

FAR: Final = -1
"""The layer of a node from which no demand can be reached."""


@kernel
def layers(
    start: Array, head: Array, room: Array, mate: Array, supply: Array, demand: Array,
    count: int, only: int, layer: Array, cursor: Array, queue: Array,
) -> int:  # fmt: skip
    """Layer of each node: arcs to the nearest demand; return whether a supply reaches one.

    With `only` from 0 on, the demand of that node alone counts.
    """
    tail = 0
    for x in range(count):
        layer[x] = FAR
        cursor[x] = start[x]
        if demand[x] > 0 and (only < 0 or only == x):
            layer[x] = 0
            queue[tail] = x
            tail += 1
    reached = 0
    at = 0
    while at < tail:
        x = queue[at]
        at += 1
        if supply[x] > 0:
            reached = 1
        for e in range(start[x], start[x + 1]):
            y = head[e]
            if layer[y] == FAR and room[mate[e]] > 0:
                layer[y] = layer[x] + 1
                queue[tail] = y
                tail += 1
    return reached


@kernel
def push_from(
    begin: int, limit: int, start: Array, head: Array, room: Array, mate: Array,
    supply: Array, demand: Array, layer: Array, cursor: Array, path: Array,
) -> int:  # fmt: skip
    """Send what node `begin` has down the layers, up to `limit`; return what was sent."""
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
def send(
    limit: int, only: int, count: int, start: Array, head: Array, room: Array, mate: Array,
    supply: Array, demand: Array, layer: Array, cursor: Array, queue: Array, path: Array,
) -> int:  # fmt: skip
    """Send as much as fits from supplies to demands; return it. Ends once it reaches `limit`.

    With `only` from 0 on, the demand of that node alone counts. A flow that did not reach the limit
    is a maximum one, and `layer` is FAR for what no demand can be reached from.
    """
    sent = 0
    while sent < limit:
        if layers(start, head, room, mate, supply, demand, count, only, layer, cursor, queue) == 0:
            break
        for x in range(count):
            if supply[x] > 0 and layer[x] >= 0 and sent < limit:
                sent += push_from(
                    x, limit - sent, start, head, room, mate, supply, demand, layer, cursor, path
                )
    return sent


@kernel
def reachable(
    start: Array, head: Array, room: Array, supply: Array, count: int, seen: Array, queue: Array
) -> int:
    """Set `seen` to 1 for what supplies still reach, 0 for all else: the smallest minimum cut."""
    tail = 0
    for x in range(count):
        seen[x] = 0
        if supply[x] > 0:
            seen[x] = 1
            queue[tail] = x
            tail += 1
    at = 0
    while at < tail:
        x = queue[at]
        at += 1
        for e in range(start[x], start[x + 1]):
            y = head[e]
            if seen[y] == 0 and room[e] > 0:
                seen[y] = 1
                queue[tail] = y
                tail += 1
    return tail
