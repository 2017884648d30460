"""The bytes that a sequence of nodes holds at each step, by one walk backwards, and at least."""

from __future__ import annotations

from typing import Final

import numpy as np

from lowtide.analysis.graph_tables import GraphTables
from lowtide.analysis.taken_over import Matching, matching, taken_over
from lowtide.records import dataclass
from lowtide.remat.tables import Int64Array, RematTables
from lowtide.search.kernels import Array, Record, kernel

NO_CAP: Final = 1 << 62


@dataclass(frozen=True, eq=False, slots=True)
class Liveness(Record):
    """Arrays of the walk: per buffer whether it is `live`, and the step in which it `dies`.

    Steps count from 1.
    """

    live: Array
    dies: Array
    matching: Matching


def liveness(buffers: int) -> Liveness:
    """Return the arrays for a graph of so many buffers."""
    return Liveness(np.zeros(buffers, np.int64), np.zeros(buffers, np.int64), matching(buffers))


@kernel
def measure(
    graph: GraphTables, sequence: Array, length: int, cap: int, steps: Array, liveness: Liveness
) -> int:
    """Return the peak of `sequence[:length]` in bytes, and the bytes of each step in `steps`.

    Walking backwards, a buffer becomes live where it is read and stops to be where it is made: each
    instance is held for its readers and no longer. The bytes of the last step above `cap` are
    returned at once; the steps before it are not written then.
    """
    makes = graph.makes
    reads = graph.reads
    users = graph.users
    size = graph.size
    live = liveness.live
    dies = liveness.dies
    held = 0
    entering = 0
    for b in range(graph.buffers):
        live[b] = graph.live_out[b]
        dies[b] = 0
        if live[b]:
            held += size[b]
        elif graph.producer[b] < 0 and users.starts[b] == users.starts[b + 1]:
            entering += size[b]
    peak = 0
    for t in range(length - 1, -1, -1):
        node = sequence[t]
        here = held + graph.own_bytes[node]
        if t == 0:
            here += entering
        for i in range(makes.starts[node], makes.starts[node + 1]):
            b = makes.items[i]
            if live[b]:
                held -= size[b]
            else:
                here += size[b]
            live[b] = 0
        for i in range(reads.starts[node], reads.starts[node + 1]):
            b = reads.items[i]
            if live[b] == 0:
                live[b] = 1
                dies[b] = t + 1
                held += size[b]
                here += size[b]
        if graph.pairs.starts[node] != graph.pairs.starts[node + 1]:
            here -= taken_over(graph, node, dies, t + 1, liveness.matching)
        steps[t] = here
        peak = max(peak, here)
        if here > cap:
            return int(here)
    return int(peak)


def step_bytes(tables: RematTables, sequence: Int64Array) -> Int64Array:
    """Return the bytes of each step of a sequence."""
    steps = np.zeros(len(sequence), np.int64)
    room = liveness(tables.buffer_count)
    measure(tables.problem.graph, sequence, len(sequence), NO_CAP, steps, room)
    return steps


@kernel
def write_footprints(graph: GraphTables, least: Array, liveness: Liveness) -> int:
    """Write per node the bytes that it reads, makes and holds, less the most it can take over."""
    makes = graph.makes
    reads = graph.reads
    dies = liveness.dies
    for b in range(graph.buffers):
        dies[b] = 0
    for v in range(graph.nodes):
        total = graph.own_bytes[v]
        for i in range(makes.starts[v], makes.starts[v + 1]):
            total += graph.size[makes.items[i]]
        for i in range(reads.starts[v], reads.starts[v + 1]):
            total += graph.size[reads.items[i]]
            dies[reads.items[i]] = v + 1
        least[v] = total - taken_over(graph, v, dies, v + 1, liveness.matching)
    return 0


def footprints(tables: RematTables) -> Int64Array:
    """Return per node the least bytes of a step in which it runs."""
    least = np.zeros(tables.node_count, np.int64)
    write_footprints(tables.problem.graph, least, liveness(tables.buffer_count))
    return least
