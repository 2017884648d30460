"""A sequence as an order of its own graph, in which each run of a node is a node."""

from __future__ import annotations

from dataclasses import field, replace

import numpy as np

from lowtide.analysis.memory_graph import MemoryGraph, lists
from lowtide.records import dataclass
from lowtide.remat.tables import Int64Array


class ExpandedRows:
    """Buffers read, buffers made and pairs of each node of a graph, as lists."""

    def __init__(self, graph: MemoryGraph) -> None:
        count = graph.node_count
        self.reads: list[list[int]] = [[] for _ in range(count)]
        self.makes: list[list[int]] = [[] for _ in range(count)]
        self.pairs: list[list[tuple[int, int]]] = [[] for _ in range(count)]
        self.control = graph.control.rows()
        for buffer, consumers in enumerate(graph.consumers.rows()):
            for node in consumers:
                self.reads[node].append(buffer)
        for buffer, node in enumerate(graph.producer.tolist()):
            if node >= 0:
                self.makes[node].append(buffer)
        for node, read, made in graph.shares.tolist():
            if not graph.live_out[read]:
                self.pairs[node].append((read, made))


@dataclass(slots=True)
class _Instances:
    """All instances of buffers: of which buffer, made and read by which steps."""

    buffer: list[int] = field(default_factory=list)
    producer: list[int] = field(default_factory=list)
    consumers: list[list[int]] = field(default_factory=list)

    def add(self, buffer: int, producer: int) -> int:
        """Return the number of a new instance."""
        self.buffer.append(buffer)
        self.producer.append(producer)
        self.consumers.append([])
        return len(self.buffer) - 1


def expanded(graph: MemoryGraph, rows: ExpandedRows, sequence: Int64Array) -> MemoryGraph:
    """Return the graph whose node `t` is step `t` of a sequence.

    Each run makes instances of its own, read by the runs that read them in the sequence. Every
    order of this graph is a sequence of the same cost that is as valid.
    """
    made = _Instances()
    latest = {b: made.add(b, -1) for b in np.flatnonzero(graph.producer < 0).tolist()}
    shares: list[tuple[int, int, int]] = []
    operands: list[list[int]] = []
    for step, node in enumerate(sequence.tolist()):
        read = {b: latest[b] for b in rows.reads[node]}
        for instance in read.values():
            made.consumers[instance].append(step)
        operands.append([made.producer[i] for i in read.values() if made.producer[i] >= 0])
        latest.update({b: made.add(b, step) for b in rows.makes[node]})
        shares += [(step, read[a], latest[b]) for a, b in rows.pairs[node]]
    live_out = np.zeros(len(made.buffer), np.bool_)
    live_out[[latest[b] for b in np.flatnonzero(graph.live_out).tolist()]] = True
    buffer = np.array(made.buffer, np.int64)
    return replace(
        graph,
        operands=lists([list(dict.fromkeys(x)) for x in operands]),
        control=lists(_control(rows, sequence)),
        root=len(sequence) - 1,
        producer=np.array(made.producer, np.int32),
        consumers=lists(made.consumers),
        live_out=live_out,
        shares=np.array(shares, np.int32).reshape(-1, 3),
        **{name: getattr(graph, name)[sequence] for name in _PER_NODE},
        **{name: getattr(graph, name)[buffer] for name in _PER_BUFFER},
    )


_PER_NODE = (
    "scratch_bytes",
    "inner_bytes",
    "name_rank",
    "is_scalar",
    "is_leaf",
    "urgency",
    "seconds",
)
_PER_BUFFER = ("buffer_bytes", "alias_set", "colour", "bin")


def _control(rows: ExpandedRows, sequence: Int64Array) -> list[list[int]]:
    """The steps that come before each step by control.

    All runs of a node come before the first run of one that lists it, and the first run of a node
    before its others.
    """
    runs: list[list[int]] = [[] for _ in rows.reads]
    before: list[list[int]] = []
    for step, node in enumerate(sequence.tolist()):
        if runs[node]:
            before.append([runs[node][0]])
        else:
            before.append([x for other in rows.control[node] for x in runs[other]])
        runs[node].append(step)
    return before
