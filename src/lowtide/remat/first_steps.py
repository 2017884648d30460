"""The bytes that are held at least in the step in which a node first runs.

What nothing makes, such as an argument, is there until its last reader has run. A node that comes
before a reader of it, whatever the order, first runs while it is there.
"""

from __future__ import annotations

import numpy as np

from lowtide.remat.measure import footprints
from lowtide.remat.tables import Int64Array, RematTables


def first_footprints(tables: RematTables) -> Int64Array:
    """Return per node the least bytes of the step in which it first runs."""
    graph = tables.graph
    given = np.flatnonzero((graph.producer < 0) & (graph.buffer_bytes > 0))
    sizes = graph.buffer_bytes[given]
    readers = graph.consumers.rows()
    reads = [0] * tables.node_count
    for bit, buffer in enumerate(given.tolist()):
        for node in readers[buffer]:
            reads[node] |= 1 << bit
    lasting = sum([1 << bit for bit, x in enumerate(given.tolist()) if graph.live_out[x]])
    least = footprints(tables)
    known: dict[int, int] = {}
    for node, later in enumerate(_read_later(tables, reads)):
        held = (later | lasting) & ~reads[node]
        if held not in known:
            known[held] = _total(held, sizes)
        least[node] += known[held]
    return least


def _read_later(tables: RematTables, reads: list[int]) -> list[int]:
    """Per node what is read by those that come behind it in every order."""
    graph = tables.graph
    before = [[*x, *y] for x, y in zip(graph.operands.rows(), graph.control.rows(), strict=True)]
    waiting = [0] * tables.node_count
    for row in before:
        for node in row:
            waiting[node] += 1
    later = [0] * tables.node_count
    ready = [node for node, count in enumerate(waiting) if not count]
    while ready:
        node = ready.pop()
        for other in before[node]:
            later[other] |= later[node] | reads[node]
            waiting[other] -= 1
            if not waiting[other]:
                ready.append(other)
    return later


def _total(bits: int, sizes: Int64Array) -> int:
    """The sum of the sizes whose bits are set."""
    flags = np.frombuffer(bits.to_bytes(len(sizes) // 8 + 1, "little"), np.uint8)
    return int(sizes[np.unpackbits(flags, bitorder="little")[: len(sizes)] > 0].sum())
