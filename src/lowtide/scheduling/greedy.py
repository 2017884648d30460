"""Kernels: orders of a stretch of an order by what a node frees, forwards or from the end.

A stretch is the places from `first` up to `stop` of an order. What stands before the stretch has
run, what stands behind it comes later.
"""

from __future__ import annotations

from typing import Final

from lowtide.analysis.graph_tables import GraphTables
from lowtide.records import dataclass
from lowtide.scheduling.heap import WIDTH, drop_first, push
from lowtide.search.kernels import Array, Record, kernel

TINY_FIRST: Final = 0
"""What makes next to nothing goes first, ties by the number of followers."""

LATE_FIRST: Final = 1
"""Ties go to the node that stands earlier."""

TINY: Final = 8
"""Bytes that are next to nothing."""

EXTREME: Final = 1 << 60


@dataclass(frozen=True, eq=False, slots=True)
class GreedyOrder(Record):
    """An order of all nodes: node `node[i]` runs at place i; node v stands at `given.place[v]`."""

    node: Array
    place: Array


@dataclass(frozen=True, eq=False, slots=True)
class Ready(Record):
    """Arrays of list scheduling of a stretch.

    Per node: `waiting` counts the nodes of the stretch that it waits for (-1: it has been taken),
    `latest` is the stamp of its last entry in the heap, `key` the first key of that one. Per
    buffer: forwards `left` counts the uses to come; from the end it is 0 for a buffer that nothing
    taken needs, else 1. `heap` has the nodes that wait for none, with room for each use as well.
    """

    waiting: Array
    latest: Array
    key: Array
    left: Array
    heap: Array


@kernel
def count_left(
    graph: GraphTables, order: Array, place: Array, first: int, stop: int, left: Array
) -> int:
    """Fill in the uses from `first` on of all buffers that `order[first:stop]` reads or makes."""
    reads = graph.reads
    makes = graph.makes
    for i in range(first, stop):
        node = order[i]
        for k in range(reads.starts[node], reads.starts[node + 1]):
            left[reads.items[k]] = -1
        for k in range(makes.starts[node], makes.starts[node + 1]):
            left[makes.items[k]] = -1
    for i in range(first, stop):
        node = order[i]
        for k in range(reads.starts[node], reads.starts[node + 1]):
            b = reads.items[k]
            if left[b] < 0:
                left[b] = uses_from(graph, b, place, first)
        for k in range(makes.starts[node], makes.starts[node + 1]):
            b = makes.items[k]
            if left[b] < 0:
                left[b] = uses_from(graph, b, place, first)
    return 0


@kernel
def uses_from(graph: GraphTables, b: int, place: Array, first: int) -> int:
    """The uses of a buffer at places from `first` on, one more where it is live-out."""
    count = int(graph.live_out[b])
    for k in range(graph.users.starts[b], graph.users.starts[b + 1]):
        if place[graph.users.items[k]] >= first:
            count += 1
    return count


@kernel
def gain(graph: GraphTables, node: int, left: Array) -> int:
    """Bytes freed behind the step of a node less those that it leaves."""
    total = 0
    for k in range(graph.reads.starts[node], graph.reads.starts[node + 1]):
        b = graph.reads.items[k]
        if left[b] == 1:
            total += graph.size[b]
    for k in range(graph.makes.starts[node], graph.makes.starts[node + 1]):
        b = graph.makes.items[k]
        if left[b] > 0:
            total -= graph.size[b]
    return total


@kernel
def made_bytes(graph: GraphTables, node: int) -> int:
    """Bytes of the buffers that a node makes."""
    total = 0
    for k in range(graph.makes.starts[node], graph.makes.starts[node + 1]):
        total += graph.size[graph.makes.items[k]]
    return total


@kernel
def forward_key(graph: GraphTables, node: int, variant: int, left: Array) -> int:
    """First key of a ready node."""
    if variant == TINY_FIRST and made_bytes(graph, node) <= TINY:
        return EXTREME
    return gain(graph, node, left)


@kernel
def offer_forward(
    graph: GraphTables, node: int, variant: int, place: Array, stamp: int, ready: Ready, size: int
) -> int:
    """Put a ready node on the heap with its present key; return the size of the heap."""
    first = forward_key(graph, node, variant, ready.left)
    second = -place[node]
    if variant == TINY_FIRST:
        second = graph.behind.starts[node + 1] - graph.behind.starts[node]
    ready.key[node] = first
    ready.latest[node] = stamp
    return push(ready.heap, size, first, second, stamp, node)


@kernel
def forward(
    graph: GraphTables,
    given: GreedyOrder,
    first: int,
    stop: int,
    variant: int,
    found: Array,
    ready: Ready,
) -> int:
    """Fill the stretch of `found` by list scheduling: always the ready node that frees most."""
    reads = graph.reads
    behind = graph.behind
    users = graph.users
    place = given.place
    waiting = ready.waiting
    left = ready.left
    heap = ready.heap
    count_left(graph, given.node, place, first, stop, left)
    size = 0
    stamp = 0
    for i in range(first, stop):
        node = given.node[i]
        waiting[node] = 0
        for k in range(graph.before.starts[node], graph.before.starts[node + 1]):
            if place[graph.before.items[k]] >= first:
                waiting[node] += 1
        if waiting[node] == 0:
            stamp += 1
            size = offer_forward(graph, node, variant, place, stamp, ready, size)
    at = first
    while size > 0:
        node = heap[WIDTH - 1]
        is_latest = heap[WIDTH - 2] == ready.latest[node]
        size = drop_first(heap, size)
        if not is_latest:
            continue
        waiting[node] = -1
        found[at] = node
        at += 1
        for k in range(reads.starts[node], reads.starts[node + 1]):
            left[reads.items[k]] -= 1
        for k in range(behind.starts[node], behind.starts[node + 1]):
            other = behind.items[k]
            waiting[other] -= 1
            if waiting[other] == 0 and place[other] < stop:
                stamp += 1
                size = offer_forward(graph, other, variant, place, stamp, ready, size)
        for k in range(reads.starts[node], reads.starts[node + 1]):
            b = reads.items[k]
            if left[b] != 1:
                continue
            for j in range(users.starts[b], users.starts[b + 1]):
                other = users.items[j]
                if place[other] < first or place[other] >= stop or waiting[other] != 0:
                    continue
                if forward_key(graph, other, variant, left) != ready.key[other]:
                    stamp += 1
                    size = offer_forward(graph, other, variant, place, stamp, ready, size)
    return at - first


@kernel
def is_live_behind(graph: GraphTables, b: int, place: Array, stop: int) -> int:
    """Whether a buffer is needed behind a stretch."""
    if graph.live_out[b] != 0:
        return 1
    for k in range(graph.users.starts[b], graph.users.starts[b + 1]):
        if place[graph.users.items[k]] >= stop:
            return 1
    return 0


@kernel
def backward_key(graph: GraphTables, node: int, live: Array) -> int:
    """Bytes that a node makes less those that only it, of what stands behind it, needs live."""
    total = made_bytes(graph, node)
    for k in range(graph.reads.starts[node], graph.reads.starts[node + 1]):
        b = graph.reads.items[k]
        if live[b] == 0:
            total -= graph.size[b]
    return total


@kernel
def mark_behind(graph: GraphTables, given: GreedyOrder, first: int, stop: int, ready: Ready) -> int:
    """Per buffer read in a stretch whether it is live behind it, per node its followers there."""
    reads = graph.reads
    behind = graph.behind
    live = ready.left
    for i in range(first, stop):
        node = given.node[i]
        for k in range(reads.starts[node], reads.starts[node + 1]):
            live[reads.items[k]] = -1
    for i in range(first, stop):
        node = given.node[i]
        for k in range(reads.starts[node], reads.starts[node + 1]):
            b = reads.items[k]
            if live[b] < 0:
                live[b] = is_live_behind(graph, b, given.place, stop)
        ready.waiting[node] = 0
        for k in range(behind.starts[node], behind.starts[node + 1]):
            if given.place[behind.items[k]] < stop:
                ready.waiting[node] += 1
    return 0


@kernel
def offer_backward(graph: GraphTables, node: int, stamp: int, ready: Ready, size: int) -> int:
    """Put a node without followers on the heap with its present key; return the heap's size."""
    ready.key[node] = backward_key(graph, node, ready.left)
    ready.latest[node] = stamp
    return push(ready.heap, size, ready.key[node], 0, stamp, node)


@kernel
def backward(
    graph: GraphTables, given: GreedyOrder, first: int, stop: int, found: Array, ready: Ready
) -> int:
    """Fill the stretch of `found` from its end: always the node whose undoing frees most."""
    reads = graph.reads
    before = graph.before
    users = graph.users
    place = given.place
    waiting = ready.waiting
    live = ready.left
    heap = ready.heap
    mark_behind(graph, given, first, stop, ready)
    size = 0
    stamp = 0
    for i in range(first, stop):
        if waiting[given.node[i]] == 0:
            stamp += 1
            size = offer_backward(graph, given.node[i], stamp, ready, size)
    at = stop
    while size > 0:
        node = heap[WIDTH - 1]
        is_latest = heap[WIDTH - 2] == ready.latest[node]
        size = drop_first(heap, size)
        if not is_latest:
            continue
        waiting[node] = -1
        at -= 1
        found[at] = node
        for k in range(reads.starts[node], reads.starts[node + 1]):
            b = reads.items[k]
            if live[b] == 0:
                live[b] = 2
        for k in range(before.starts[node], before.starts[node + 1]):
            other = before.items[k]
            waiting[other] -= 1
            if waiting[other] == 0 and place[other] >= first:
                stamp += 1
                size = offer_backward(graph, other, stamp, ready, size)
        for k in range(reads.starts[node], reads.starts[node + 1]):
            b = reads.items[k]
            if live[b] != 2:
                continue
            live[b] = 1
            for j in range(users.starts[b], users.starts[b + 1]):
                other = users.items[j]
                if place[other] < first or place[other] >= stop or waiting[other] != 0:
                    continue
                if backward_key(graph, other, live) != ready.key[other]:
                    stamp += 1
                    size = offer_backward(graph, other, stamp, ready, size)
    return stop - at
