"""A memory graph as one array of words, which the kernels of recomputation read."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from lowtide.analysis.memory_graph import MemoryGraph

IntArray = npt.NDArray[np.int32] | npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
Int64Array = npt.NDArray[np.int64]
Float64Array = npt.NDArray[np.float64]

NODE_COUNT: Final = 0
BUFFER_COUNT: Final = 1
BUFFERS_AT: Final = 2
NODES_AT: Final = 3
"""The first words: how many there are, and where their records begin."""

READS: Final = 0
READS_END: Final = 1
MADE: Final = 2
MADE_END: Final = 3
PAIRS: Final = 4
PAIRS_END: Final = 5
WAITS: Final = 6
WAITS_END: Final = 7
MATCHING: Final = 8
SCRATCH: Final = 9
COST: Final = 10
ONCE: Final = 11
NODE: Final = 12
"""Width of a node's record, and its fields: where its rows begin and end, whether what it makes
competes for operands, scratch bytes, cost in ticks, and whether it may run only once."""

SIZE: Final = 0
LIVE_OUT: Final = 1
PRODUCER: Final = 2
USES: Final = 3
USES_END: Final = 4
BUFFER: Final = 5
"""Width of a buffer's record, and its fields; its uses are the nodes that read it."""

_FINEST: Final = 13
"""A tick is 1e-13 seconds or, for long computations, a larger power of ten."""
_TICKS: Final = 1 << 52
"""All nodes together take at most so many ticks: sums are exact, also as floats."""


@dataclass(frozen=True, eq=False, slots=True)
class Tables:
    """A graph for the kernels, in `words`: counts, a record per node and per buffer, then rows.

    The rows of a node are buffers read, buffers made, pairs of buffers (operand, what may take it
    over) and nodes that come before by control. `cost` is that of each
    node in ticks of `tick_seconds`, rounded down.
    """

    graph: MemoryGraph
    node_count: int
    buffer_count: int
    words: Int64Array
    cost: Int64Array
    tick_seconds: float

    def seconds(self, sequence: Int64Array) -> float:
        """Return the seconds of a sequence beyond those of one run of each node."""
        runs = np.bincount(sequence, minlength=self.node_count) - 1
        return float(np.dot(runs, self.graph.seconds))


def tables_of(graph: MemoryGraph, once: Collection[int] = ()) -> Tables:
    """Return the arrays of a graph; the nodes in `once` are never run again.

    Raises ValueError where the graph does not say how long its nodes run.
    """
    count, buffers = graph.node_count, len(graph.buffer_bytes)
    if len(graph.seconds) != count:
        raise ValueError(f"{len(graph.seconds)} times for {count} nodes: each node needs one")
    buffers_at = NODES_AT + 1 + count * NODE
    rows = _Rows(buffers_at + buffers * BUFFER)
    read, reader = graph.consumers.row_numbers(), graph.consumers.items
    made = np.flatnonzero(graph.producer >= 0)
    taker, pair = np.repeat(graph.shares[:, 0], 2), graph.shares[:, 1:].ravel()
    control = graph.control
    tick, cost = _ticks(graph.seconds)
    nodes = np.zeros((count, NODE), np.int64)
    nodes[:, READS], nodes[:, READS_END] = rows.add(reader, read, count)
    nodes[:, MADE], nodes[:, MADE_END] = rows.add(graph.producer[made], made, count)
    nodes[:, PAIRS], nodes[:, PAIRS_END] = rows.add(taker, pair, count)
    nodes[:, WAITS], nodes[:, WAITS_END] = rows.add(control.row_numbers(), control.items, count)
    nodes[:, MATCHING] = _competes(graph)
    nodes[:, SCRATCH], nodes[:, COST] = graph.scratch_bytes + graph.inner_bytes, cost
    nodes[list(once), ONCE] = 1
    records = np.zeros((buffers, BUFFER), np.int64)
    records[:, SIZE], records[:, LIVE_OUT] = graph.buffer_bytes, graph.live_out
    records[:, PRODUCER] = graph.producer
    records[:, USES], records[:, USES_END] = rows.add(read, reader, buffers)
    head = np.array([count, buffers, buffers_at, NODES_AT + 1], np.int64)
    words = np.concatenate([head, nodes.ravel(), records.ravel(), *rows.parts])
    return Tables(graph, count, buffers, words, cost, tick)


def once_nodes(tables: Tables) -> list[int]:
    """Return the nodes that may run only once, ascending."""
    first, count = NODES_AT + 1, tables.node_count
    flags = tables.words[first + ONCE : first + count * NODE : NODE]
    return [int(node) for node in np.flatnonzero(flags)]


def _competes(graph: MemoryGraph) -> BoolArray:
    """Whether a node has two operands and two buffers made among its pairs: it can choose."""
    node, read, made = graph.shares.T
    kinds = [np.unique(np.stack([node, other]), axis=1)[0] for other in (read, made)]
    counts = [np.bincount(owner, minlength=graph.node_count) for owner in kinds]
    return (counts[0] > 1) & (counts[1] > 1)


class _Rows:
    """Rows of numbers, end to end, of which the first begins at `start`."""

    def __init__(self, start: int) -> None:
        self.parts: list[Int64Array] = []
        self._end = start

    def add(self, owner: IntArray, value: IntArray, count: int) -> tuple[Int64Array, Int64Array]:
        """Add `value[i]` to the row of `owner[i]`; return where the rows begin and end."""
        order = np.argsort(owner, kind="stable")
        self.parts.append(value[order].astype(np.int64))
        lengths = np.bincount(owner, minlength=count)
        ends = self._end + np.cumsum(lengths)
        self._end += len(value)
        return ends - lengths, ends


def _ticks(seconds: Float64Array) -> tuple[float, Int64Array]:
    """Seconds of a tick, a power of ten, and each time in ticks, rounded down."""
    exponent = _FINEST
    while float(seconds.sum()) * 10.0**exponent > _TICKS:
        exponent -= 1
    return 10.0**-exponent, np.floor(seconds * 10.0**exponent).astype(np.int64)
