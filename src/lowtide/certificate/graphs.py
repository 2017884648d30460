"""Memory graphs as certificates have them: nodes from 1, between a start, 0, and an end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import Any, Final

import numpy as np

from lowtide.analysis.memory_graph import MemoryGraph
from lowtide.analysis.module_graphs import GraphCall
from lowtide.records import dataclass

FINEST: Final = 13
"""A tick is 1e-13 seconds or, for long computations, a larger power of ten."""
_MOST_TICKS: Final = 1 << 52


Timed = tuple[MemoryGraph, Sequence[GraphCall]]
"""A graph with the seconds of its nodes without what they run, and what these run how often."""


@dataclass(frozen=True, eq=False, slots=True)
class CertifiedGraph:
    """One computation.

    Nodes are those of the memory graph plus 1; buffers are the same, followed by buffers of no
    bytes where a node takes an operand and no buffer says so. Per node, start and end included:
    `scratch` bytes, `ticks` with those of what it runs, `control` (nodes before; itself, if it runs
    once only), `reads` and `makes` (buffers), `calls` (a graph, bytes, how often it runs at least).
    Per buffer: `sizes`, `producers` (0: there from the start), `users`, with the end for what is
    `kept`. `pairs` are by node (operand, buffer that may take it over).
    """

    scratch: list[int]
    ticks: list[int]
    control: list[list[int]]
    reads: list[list[int]]
    makes: list[list[int]]
    calls: list[list[tuple[int, int, int]]]
    sizes: list[int]
    producers: list[int]
    users: list[list[int]]
    kept: list[int]
    pairs: dict[int, list[tuple[int, int]]]
    followers: list[list[int]] = field(init=False)

    def __post_init__(self) -> None:
        """Fill in `followers`, the nodes that list a node in control."""
        followers: list[list[int]] = [[] for _ in self.scratch]
        for later, before in enumerate(self.control):
            for earlier in before:
                followers[earlier].append(later)
        object.__setattr__(self, "followers", followers)

    @property
    def end(self) -> int:
        """The number of the end."""
        return len(self.scratch) - 1

    @property
    def first(self) -> int:
        """The number of buffer 0 among the vertices of a flow."""
        return len(self.scratch)

    @property
    def late(self) -> int:
        """What is added to a node's number for the vertex that says that it has not run."""
        return len(self.scratch) + len(self.sizes)

    def successors(
        self, pairs: Iterable[tuple[int, int]] = ()
    ) -> tuple[list[list[int]], list[list[int]]]:
        """Return the nodes right behind and right before each node, with further pairs."""
        behind: list[list[int]] = [[] for _ in self.scratch]
        before: list[list[int]] = [[] for _ in self.scratch]
        data = [(self.producers[b], c) for b, users in enumerate(self.users) for c in users]
        control = [(u, w) for w, earlier in enumerate(self.control) for u in earlier]
        for u, w in dict.fromkeys([*data, *control, *pairs]):
            if u != w:
                behind[u].append(w)
                before[w].append(u)
        return behind, before

    def held(self, needs: Sequence[int]) -> list[int]:
        """Return the bytes that each node holds, where the graphs it calls need so much."""
        inner = [max([0, *[needs[k] - less for k, less, _ in row]]) for row in self.calls]
        return [x + y for x, y in zip(self.scratch, inner, strict=True)]

    def document(self) -> dict[str, Any]:
        """Return the section of a certificate."""
        columns = (self.scratch, self.ticks, self.control, self.reads, self.makes, self.calls)
        rows = list(zip(*columns, strict=True))[1:-1]
        return {
            "nodes": [[*row[:5], [_call_row(call) for call in row[5]]] for row in rows],
            "bytes": self.sizes,
            "given": self.makes[0],
            "kept": self.kept,
            "reuses": [list(pair) for node in sorted(self.pairs) for pair in self.pairs[node]],
        }


def _call_row(call: tuple[int, int, int]) -> list[int]:
    callee, less, times = call
    return [callee, less, times] if times else [callee, less]


def graphs_of(found: Sequence[Timed], exponent: int = FINEST) -> list[CertifiedGraph]:
    """Return graphs, callees before their callers, as `graph_of` does, with the ticks of callees.

    A node takes its own ticks, rounded down, and as many times as it runs a callee those of all its
    nodes: so sums of ticks are exact.
    """
    made: list[CertifiedGraph] = []
    totals: list[int] = []
    for graph, calls in found:
        made.append(graph_of(graph, calls, exponent, totals))
        totals.append(sum(made[-1].ticks))
    return made


def graph_of(
    graph: MemoryGraph,
    calls: Sequence[GraphCall] = (),
    exponent: int = FINEST,
    totals: Sequence[int] = (),
) -> CertifiedGraph:
    """Return a memory graph as a certificate has it; a tick is 10 to the minus `exponent` seconds.

    Where no seconds are known, all nodes take 0 ticks. `inner_bytes` count as scratch, but not of
    nodes with calls. `totals` are the ticks of callees, needed where calls tell how often they run.
    """
    count = graph.node_count
    called = {call.node for call in calls}
    inner = [0 if v in called else x for v, x in enumerate(graph.inner_bytes.tolist())]
    scratch = [x + y for x, y in zip(graph.scratch_bytes.tolist(), inner, strict=True)]
    seconds = graph.seconds if len(graph.seconds) else np.zeros(count)
    ticks = np.floor(seconds * 10.0**exponent).astype(np.int64).tolist()
    for call in calls:
        ticks[call.node] += call.times * totals[call.callee] if call.times else 0
    producers = (graph.producer + 1).tolist()
    users = [list(dict.fromkeys([c + 1 for c in row])) for row in graph.consumers.rows()]
    sizes = graph.buffer_bytes.tolist()
    _add_operands(graph, producers, users, sizes)
    kept = np.flatnonzero(graph.live_out).tolist()
    reads: list[list[int]] = [[] for _ in range(count + 2)]
    makes: list[list[int]] = [[] for _ in range(count + 2)]
    for b, (producer, consumers) in enumerate(zip(producers, users, strict=True)):
        makes[producer].append(b)
        for c in consumers:
            reads[c].append(b)
    reads[count + 1] = list(kept)
    pairs: dict[int, list[tuple[int, int]]] = {}
    for node, operand, made in graph.shares.tolist():
        if not graph.live_out[operand]:
            pairs.setdefault(node + 1, []).append((operand, made))
    control = [[x + 1 for x in sorted({*row})] for row in graph.control.rows()]
    by_node: list[list[tuple[int, int, int]]] = [[] for _ in range(count + 2)]
    for call in calls:
        by_node[call.node + 1].append((call.callee, call.less, call.times))
    return CertifiedGraph(
        scratch=[0, *scratch, 0],
        ticks=[0, *ticks, 0],
        control=[[], *control, []],
        reads=reads,
        makes=makes,
        calls=by_node,
        sizes=sizes,
        producers=producers,
        users=[
            [*row, count + 1] if b < len(graph.live_out) and graph.live_out[b] else row
            for b, row in enumerate(users)
        ],
        kept=kept,
        pairs=pairs,
    )


def exponent_of(found: Sequence[Timed]) -> int:
    """Return the exponent of the tick with which all times of each graph fit 52 bits.

    Graphs stand callees before their callers, whose times include theirs.
    """
    totals: list[float] = []
    for graph, calls in found:
        inner = [call.times * totals[call.callee] for call in calls if call.times]
        totals.append(float(graph.seconds.sum()) + sum(inner))
    exponent = FINEST
    while max(totals, default=0.0) * 10.0**exponent > _MOST_TICKS:
        exponent -= 1
    return exponent


def tick_name(exponent: int) -> str:
    """Return how a certificate names the tick of 10 to the minus `exponent` seconds."""
    return f"1e{-exponent} s"


def reached(start: int, rows: Sequence[Sequence[int]]) -> set[int]:
    """Return what is reached from a node along rows, the node itself only in a circle."""
    found: set[int] = set()
    todo = [start]
    while todo:
        fresh = {*rows[todo.pop()]} - found
        found |= fresh
        todo += fresh
    return found


def _add_operands(
    graph: MemoryGraph, producers: list[int], users: list[list[int]], sizes: list[int]
) -> None:
    """Add a buffer of no bytes for each node that others take as an operand in no other way."""
    shown = {(p, c) for p, row in zip(producers, users, strict=True) for c in row}
    hidden: dict[int, list[int]] = {}
    for node, row in enumerate(graph.operands.rows(), 1):
        for operand in row:
            if (operand + 1, node) not in shown:
                hidden.setdefault(operand + 1, []).append(node)
    for producer in sorted(hidden):
        producers.append(producer)
        users.append(hidden[producer])
        sizes.append(0)
