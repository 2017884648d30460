"""Memory graphs as certificates have them: nodes from 1, between a start, 0, and an end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from lowtide.analysis.memory_graph import MemoryGraph
from lowtide.analysis.module_graphs import Call

FINEST: Final = 13
"""A tick is 1e-13 seconds or, for long computations, a larger power of ten."""
_MOST_TICKS: Final = 1 << 52


@dataclass(frozen=True, eq=False, slots=True)
class Graph:
    """One computation.

    Nodes are those of the memory graph plus 1; buffers are the same, followed by buffers of no
    bytes where a node takes an operand and no buffer says so. Per node, start and end included:
    `scratch` bytes, `ticks`, `control` (nodes before), `reads` and `makes` (buffers), `calls`
    (pairs of a graph and bytes). Per buffer: `sizes`, `producers` (0: there from the start),
    `users`, with the end for what is `kept`. `pairs` are by node (operand, buffer that may take it
    over).
    """

    scratch: list[int]
    ticks: list[int]
    control: list[list[int]]
    reads: list[list[int]]
    makes: list[list[int]]
    calls: list[list[tuple[int, int]]]
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
            behind[u].append(w)
            before[w].append(u)
        return behind, before

    def held(self, needs: Sequence[int]) -> list[int]:
        """Return the bytes that each node holds, where the graphs it calls need so much."""
        inner = [max([0, *[needs[k] - less for k, less in row]]) for row in self.calls]
        return [x + y for x, y in zip(self.scratch, inner, strict=True)]

    def document(self) -> dict[str, Any]:
        """Return the section of a certificate."""
        columns = (self.scratch, self.ticks, self.control, self.reads, self.makes, self.calls)
        rows = list(zip(*columns, strict=True))[1:-1]
        return {
            "nodes": [[*row[:5], [list(call) for call in row[5]]] for row in rows],
            "bytes": self.sizes,
            "given": self.makes[0],
            "kept": self.kept,
            "reuses": [list(pair) for node in sorted(self.pairs) for pair in self.pairs[node]],
        }


def graph_of(graph: MemoryGraph, calls: Sequence[Call] = (), exponent: int = FINEST) -> Graph:
    """Return a memory graph as a certificate has it; a tick is 10 to the minus `exponent` seconds.

    Where no seconds are known, all nodes take 0 ticks. `inner_bytes` count as scratch, but not of
    nodes with calls.
    """
    count = graph.node_count
    called = {call.node for call in calls}
    inner = [0 if v in called else x for v, x in enumerate(graph.inner_bytes.tolist())]
    scratch = [x + y for x, y in zip(graph.scratch_bytes.tolist(), inner, strict=True)]
    seconds = graph.seconds if len(graph.seconds) else np.zeros(count)
    ticks = np.floor(seconds * 10.0**exponent).astype(np.int64).tolist()
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
    by_node: list[list[tuple[int, int]]] = [[] for _ in range(count + 2)]
    for call in calls:
        by_node[call.node + 1].append((call.callee, call.less))
    return Graph(
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


def exponent_of(graphs: Sequence[MemoryGraph]) -> int:
    """Return the exponent of the tick with which all times of each graph fit 52 bits."""
    total = max([float(graph.seconds.sum()) for graph in graphs], default=0.0)
    exponent = FINEST
    while total * 10.0**exponent > _MOST_TICKS:
        exponent -= 1
    return exponent


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
