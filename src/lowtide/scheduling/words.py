"""A memory graph as one array of 64-bit words, which kernels take as one argument.

The first words say where each table starts; a list of lists is two tables, the starts of the rows
and their items end to end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from lowtide.analysis.memory_graph import MemoryGraph
from lowtide.search.kernels import Array

NODES: Final = 0
BUFFERS: Final = 1
TOTAL: Final = 2
"""Bytes of all buffers and all scratch, so that no step and no cut has more."""

PRED: Final = 3
PREDS: Final = 4
SUCC: Final = 5
SUCCS: Final = 6
READ: Final = 7
READS: Final = 8
MAKE: Final = 9
MAKES: Final = 10
USE: Final = 11
USES: Final = 12
SIZE: Final = 13
MAKER: Final = 14
KEPT: Final = 15
OWN: Final = 16
SHARE: Final = 17
SHARE_READ: Final = 18
SHARE_MADE: Final = 19
ONE_MADE: Final = 20
HEADER: Final = 21
"""Tables, by the word that has their start.

Per node: the nodes before and behind it (each once), the buffers read and made, own bytes while it
runs, pairs of buffers that may share, and whether all its pairs have one made buffer. Per buffer:
the nodes that use it, bytes, maker (-1: there from the start), 1 where it is kept to the end.
"""


@dataclass(frozen=True, eq=False, slots=True)
class Words:
    """A memory graph packed for kernels."""

    words: Array
    nodes: int
    buffers: int

    @property
    def total(self) -> int:
        """Bytes that no step exceeds."""
        return int(self.words[TOTAL])

    def table(self, name: int, count: int) -> Array:
        """Return a view of the first `count` words of a table."""
        start = int(self.words[name])
        found: Array = self.words[start : start + count]
        return found

    def rows(self, starts: int, items: int) -> tuple[Array, Array]:
        """Return views of the two tables of a list of lists, one row per node."""
        start = self.table(starts, self.nodes + 1)
        return start, self.table(items, int(start[-1]))


@dataclass(frozen=True, eq=False, slots=True)
class Tables:
    """A graph as plain lists: pairs of nodes, uses of buffers, pairs of buffers that may share.

    Node `before[i]` comes before `behind[i]`, each pair once; node `user[i]` reads buffer
    `used[i]`; at node `share_node[i]` buffer `share_made[i]` may take over `share_read[i]`, the
    rows by node, then by operand. `size`, `maker` and `kept` are per buffer, `own` per node.
    """

    before: Array
    behind: Array
    used: Array
    user: Array
    size: Array
    maker: Array
    kept: Array
    own: Array
    share_node: Array
    share_read: Array
    share_made: Array


def packed(graph: MemoryGraph) -> Words:
    """Return the tables of a graph, in time linear in its size but for sorting."""
    before, behind = _edges(graph)
    node, read, made = graph.shares[np.lexsort(graph.shares.T[::-1])].T.astype(np.int64)
    tables = Tables(
        before=before,
        behind=behind,
        used=graph.consumers.row_numbers().astype(np.int64),
        user=graph.consumers.items.astype(np.int64),
        size=graph.buffer_bytes,
        maker=graph.producer.astype(np.int64),
        kept=graph.live_out.astype(np.int64),
        own=graph.scratch_bytes + graph.inner_bytes,
        share_node=node,
        share_read=read,
        share_made=made,
    )
    return joined(tables)


def joined(tables: Tables) -> Words:
    """Return the one array of a graph."""
    count, buffers = len(tables.own), len(tables.size)
    made = np.flatnonzero(tables.maker >= 0)
    sharing = _starts(tables.share_node, count)
    pairs = {
        PRED: _rows(tables.behind, tables.before, count),
        SUCC: _rows(tables.before, tables.behind, count),
        READ: _rows(tables.user, tables.used, count),
        MAKE: _rows(tables.maker[made], made, count),
        USE: _rows(tables.used, tables.user, buffers),
    }
    parts = {name + i: part for name, pair in pairs.items() for i, part in enumerate(pair)}
    parts |= {SIZE: tables.size, MAKER: tables.maker, KEPT: tables.kept, OWN: tables.own}
    parts |= {SHARE: sharing, SHARE_READ: tables.share_read, SHARE_MADE: tables.share_made}
    parts |= {ONE_MADE: _one_made(tables.share_made, sharing)}
    total = int(tables.size.sum()) + int(tables.own.sum())
    return Words(_joined(parts, (count, buffers, total)), count, buffers)


def with_edges(words: Words, before: Array, behind: Array) -> Words:
    """Return the same graph in which node `before[i]` also comes before node `behind[i]`."""
    count = words.nodes
    start, items = words.rows(SUCC, SUCCS)
    first = np.concatenate([np.repeat(np.arange(count), np.diff(start)), before])
    second = np.concatenate([items, behind])
    pairs = np.unique(first * count + second)
    first, second = pairs // count, pairs % count
    limits = [*words.words[PRED:HEADER].tolist(), len(words.words)]
    parts = {
        name: words.words[limits[name - PRED] : limits[name - PRED + 1]]
        for name in range(PRED, HEADER)
    }
    parts[PRED], parts[PREDS] = _rows(second, first, count)
    parts[SUCC], parts[SUCCS] = _rows(first, second, count)
    return Words(_joined(parts, words.words[:PRED].tolist()), count, words.buffers)


def _edges(graph: MemoryGraph) -> tuple[Array, Array]:
    """Who comes before whom, each pair once: by value, through a buffer, or by control."""
    count = graph.node_count
    uses = graph.consumers
    maker = graph.producer[uses.row_numbers()]
    by_list = [(row.items, row.row_numbers()) for row in (graph.operands, graph.control)]
    by_list.append((maker, uses.items))
    before = np.concatenate([x for x, _ in by_list]).astype(np.int64)
    behind = np.concatenate([x for _, x in by_list]).astype(np.int64)
    real = (before >= 0) & (before != behind)
    pairs = np.unique(before[real] * max(1, count) + behind[real])
    return pairs // max(1, count), pairs % max(1, count)


def _starts(rows: Array, count: int) -> Array:
    starts = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(rows, minlength=count), out=starts[1:])
    return starts


def _rows(rows: Array, items: Array, count: int) -> tuple[Array, Array]:
    """Starts and items of a list of lists, by the row of each item; rows stay in given order."""
    order = np.argsort(rows, kind="stable")
    return _starts(rows, count), np.asarray(items)[order]


def _one_made(made: Array, starts: Array) -> Array:
    """Per node 1 where all its pairs have the same made buffer."""
    same = np.ones(len(made), np.int64)
    same[1:] = made[1:] == made[:-1]
    first = starts[:-1][starts[:-1] < starts[1:]]
    same[first] = 1
    different = np.concatenate([[0], np.cumsum(1 - same)])
    is_one: Array = (different[starts[1:]] == different[starts[:-1]]).astype(np.int64)
    return is_one


def _joined(parts: dict[int, Array], head: tuple[int, int, int] | list[int]) -> Array:
    sizes = [len(parts[name]) for name in range(PRED, HEADER)]
    ends = HEADER + np.cumsum([0, *sizes])
    words = np.empty(int(ends[-1]), np.int64)
    words[:PRED] = head
    words[PRED:HEADER] = ends[:-1]
    for name in range(PRED, HEADER):
        words[ends[name - PRED] : ends[name - PRED + 1]] = parts[name]
    return words
