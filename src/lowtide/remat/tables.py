"""A memory graph whose nodes may run again, for the kernels of recomputation."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import numpy as np
import numpy.typing as npt

from lowtide.analysis import graph_tables
from lowtide.analysis.graph_tables import GraphTables, Rows, rows_of
from lowtide.analysis.memory_graph import MemoryGraph
from lowtide.records import dataclass
from lowtide.search.kernels import Array, Record

Int64Array = npt.NDArray[np.int64]
Float64Array = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

_FINEST: Final = 13
"""A tick is 1e-13 seconds or, for long computations, a larger power of ten."""
_TICKS: Final = 1 << 52
"""All nodes together take at most so many ticks: sums are exact, also as floats."""


@dataclass(frozen=True, eq=False, slots=True)
class Problem(Record):
    """A memory graph, and what it takes to run its nodes again.

    Per node: `waits` are the nodes that come before it by control, which never run after it; `cost`
    is in ticks; `once` is 1 where it may run only once.
    """

    graph: GraphTables
    waits: Rows
    cost: Array
    once: Array


@dataclass(frozen=True, eq=False, slots=True)
class RematTables:
    """A graph, and the arrays of it that kernels read; a tick of cost is `tick_seconds`."""

    graph: MemoryGraph
    problem: Problem
    tick_seconds: float

    @property
    def node_count(self) -> int:
        """Number of nodes."""
        return self.problem.graph.nodes

    @property
    def buffer_count(self) -> int:
        """Number of buffers."""
        return self.problem.graph.buffers

    @property
    def cost(self) -> Int64Array:
        """Cost of each node in ticks, rounded down."""
        return self.problem.cost

    def seconds(self, sequence: Int64Array) -> float:
        """Return the seconds of a sequence beyond those of one run of each node."""
        runs = np.bincount(sequence, minlength=self.node_count) - 1
        return float(np.dot(runs, self.graph.seconds))


def tables_of(graph: MemoryGraph, once: Collection[int] = ()) -> RematTables:
    """Return the arrays of a graph; the nodes in `once` are never run again.

    Raises ValueError where the graph does not say how long its nodes run.
    """
    count = graph.node_count
    if len(graph.seconds) != count:
        raise ValueError(f"{len(graph.seconds)} times for {count} nodes: each node needs one")
    tick, cost = _ticks(graph.seconds)
    flags = np.zeros(count, np.int64)
    flags[list(once)] = 1
    control = graph.control
    waits = rows_of(control.row_numbers().astype(np.int64), control.items.astype(np.int64), count)
    return RematTables(graph, Problem(graph_tables.tables_of(graph), waits, cost, flags), tick)


def once_nodes(tables: RematTables) -> list[int]:
    """Return the nodes that may run only once, ascending."""
    return [int(node) for node in np.flatnonzero(tables.problem.once)]


def _ticks(seconds: Float64Array) -> tuple[float, Int64Array]:
    """Seconds of a tick, a power of ten, and each time in ticks, rounded down."""
    exponent = _FINEST
    while float(seconds.sum()) * 10.0**exponent > _TICKS:
        exponent -= 1
    return 10.0**-exponent, np.floor(seconds * 10.0**exponent).astype(np.int64)
