"""A memory graph as arrays of 64-bit integers, which kernels read."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from typing import Final

import numpy as np

from lowtide.analysis.memory_graph import MemoryGraph
from lowtide.records import dataclass
from lowtide.search.kernels import Array, Record


@dataclass(frozen=True, eq=False, slots=True)
class Rows(Record):
    """One list of numbers per row, end to end: row `i` is `items[starts[i]:starts[i + 1]]`."""

    starts: Array
    items: Array

    def numbers(self) -> Array:
        """Return for each item the number of its row."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))


@dataclass(frozen=True, eq=False, slots=True)
class Pairs(Record):
    """Pairs of buffers that may share storage, by the node that reads one and makes the other.

    In the step of node `v`, for `i` from `starts[v]` up to `starts[v + 1]`, buffer `made[i]` may
    take over the storage of buffer `read[i]`, of equal bytes. `has_one_made` is 1 for a node whose
    pairs all have the same made buffer.
    """

    starts: Array
    read: Array
    made: Array
    has_one_made: Array


@dataclass(frozen=True, eq=False, slots=True)
class GraphTables(Record):
    """A memory graph of so many `nodes` and `buffers`.

    `total`: bytes of all buffers and all that nodes hold, so that no step and no cut has more.
    Per node: the nodes `before` it and `behind` it (each once: by value, through a buffer, or by
    control), the buffers that it `reads` and `makes`, `own_bytes` while it runs, and `pairs`.
    Per buffer: its `users` (the nodes that read it), `size` in bytes, `producer` (-1: there from
    the start), and whether it is `live_out`, 1 or 0.
    """

    nodes: int
    buffers: int
    total: int
    before: Rows
    behind: Rows
    reads: Rows
    makes: Rows
    users: Rows
    size: Array
    producer: Array
    live_out: Array
    own_bytes: Array
    pairs: Pairs

    def key(self) -> bytes:
        """Return bytes that only equal graphs have in common."""
        digest = sha256()
        for array in _arrays(self):
            digest.update(len(array).to_bytes(8, "little"))
            digest.update(array.data)
        return digest.digest()

    @property
    def words(self) -> int:
        """How many numbers a walk over the graph reads."""
        return _COUNTS + sum([len(array) for array in _arrays(self)])


_COUNTS: Final = 21
"""What the counts and the starts of tables add to the words of a graph."""


@dataclass(frozen=True, eq=False, slots=True)
class GraphColumns:
    """A graph as plain lists: pairs of nodes, uses of buffers, pairs of buffers that may share.

    Node `before[i]` comes before `behind[i]`, each pair once; node `user[i]` reads buffer
    `used[i]`; at node `pair_node[i]` buffer `pair_made[i]` may take over `pair_read[i]`, the
    rows by node, then by operand. `size`, `producer` and `live_out` are per buffer, `own_bytes`
    per node.
    """

    before: Array
    behind: Array
    used: Array
    user: Array
    size: Array
    producer: Array
    live_out: Array
    own_bytes: Array
    pair_node: Array
    pair_read: Array
    pair_made: Array


def tables_of(graph: MemoryGraph) -> GraphTables:
    """Return the tables of a graph, in time linear in its size but for sorting."""
    before, behind = _edges(graph)
    node, read, made = graph.shares[np.lexsort(graph.shares.T[::-1])].T.astype(np.int64)
    columns = GraphColumns(
        before=before,
        behind=behind,
        used=graph.consumers.row_numbers().astype(np.int64),
        user=graph.consumers.items.astype(np.int64),
        size=graph.buffer_bytes.copy(),
        producer=graph.producer.astype(np.int64),
        live_out=graph.live_out.astype(np.int64),
        own_bytes=graph.scratch_bytes + graph.inner_bytes,
        pair_node=node,
        pair_read=np.ascontiguousarray(read),
        pair_made=np.ascontiguousarray(made),
    )
    return joined(columns)


def joined(columns: GraphColumns) -> GraphTables:
    """Return the tables of a graph."""
    count, buffers = len(columns.own_bytes), len(columns.size)
    made = np.flatnonzero(columns.producer >= 0)
    pairs = _starts(columns.pair_node, count)
    return GraphTables(
        nodes=count,
        buffers=buffers,
        total=int(columns.size.sum()) + int(columns.own_bytes.sum()),
        before=rows_of(columns.behind, columns.before, count),
        behind=rows_of(columns.before, columns.behind, count),
        reads=rows_of(columns.user, columns.used, count),
        makes=rows_of(columns.producer[made], made, count),
        users=rows_of(columns.used, columns.user, buffers),
        size=columns.size,
        producer=columns.producer,
        live_out=columns.live_out,
        own_bytes=columns.own_bytes,
        pairs=Pairs(
            pairs, columns.pair_read, columns.pair_made, _has_one_made(columns.pair_made, pairs)
        ),
    )


def with_edges(tables: GraphTables, before: Array, behind: Array) -> GraphTables:
    """Return the same graph in which node `before[i]` also comes before node `behind[i]`."""
    count = tables.nodes
    first = np.concatenate([tables.behind.numbers(), before])
    second = np.concatenate([tables.behind.items, behind])
    pairs = np.unique(first * count + second)
    first, second = pairs // count, pairs % count
    return replace(
        tables, before=rows_of(second, first, count), behind=rows_of(first, second, count)
    )


def rows_of(owners: Array, items: Array, count: int) -> Rows:
    """Return `count` rows: item `items[i]` stands in row `owners[i]`, in the order given."""
    order = np.argsort(owners, kind="stable")
    return Rows(_starts(owners, count), items[order])


def _edges(graph: MemoryGraph) -> tuple[Array, Array]:
    """Who comes before whom, each pair once: by value, through a buffer, or by control."""
    count = graph.node_count
    uses = graph.consumers
    producer = graph.producer[uses.row_numbers()]
    by_list = [(row.items, row.row_numbers()) for row in (graph.operands, graph.control)]
    by_list.append((producer, uses.items))
    before = np.concatenate([x for x, _ in by_list]).astype(np.int64)
    behind = np.concatenate([x for _, x in by_list]).astype(np.int64)
    real = (before >= 0) & (before != behind)
    pairs = np.sort(before[real] * max(1, count) + behind[real])
    pairs = pairs[np.diff(pairs, prepend=-1) > 0]
    return pairs // max(1, count), pairs % max(1, count)


def _starts(owners: Array, count: int) -> Array:
    starts = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(owners, minlength=count), out=starts[1:])
    return starts


def _has_one_made(made: Array, starts: Array) -> Array:
    """Per node 1 where all its pairs have the same made buffer."""
    same = np.ones(len(made), np.int64)
    same[1:] = made[1:] == made[:-1]
    first = starts[:-1][starts[:-1] < starts[1:]]
    same[first] = 1
    different = np.concatenate([[0], np.cumsum(1 - same)])
    is_one: Array = (different[starts[1:]] == different[starts[:-1]]).astype(np.int64)
    return is_one


def _arrays(record: Record) -> list[Array]:
    """The arrays of a record and of those within it, in order."""
    waiting = [record]
    found: list[Array] = []
    while waiting:
        here = waiting.pop()
        values = here.values()
        found += [value for value in values if isinstance(value, np.ndarray)]
        waiting += [value for value in values if isinstance(value, Record)]
    return found
