"""An order of all nodes, and the gaps between the uses of each buffer in it.

A gap is the time from one use of a buffer to the next. A buffer is not held in a gap that is
dropped, and its producer runs again before the use at the end. The first gap of a buffer begins
with its production. The last one, behind all uses, says whether the buffer is held for
recomputations.
"""

from __future__ import annotations

import numpy as np

from lowtide.records import dataclass
from lowtide.remat.tables import BoolArray, Int64Array, RematTables
from lowtide.search.kernels import Array, Record


@dataclass(frozen=True, eq=False, slots=True)
class Gaps(Record):
    """An order with its gaps, for kernels.

    Node `order[i]` runs at position i. Per node: its `position`, and in `closing` the last position
    before which it may run again (-1: it may not). The gaps of buffer b are those from `first[b]`
    up to `first[b + 1]`; `ends` has the position of the use that ends each one. The end of the
    sequence counts as a use of a live-out buffer; the last gap of any other buffer ends one behind.

        position   2     3     4     5     6     7
        buffer     made ------ use --------- use ------ ...
                   |  gap 0    |   gap 1     |  gap 2, to the end
    """

    order: Array
    position: Array
    closing: Array
    first: Array
    ends: Array


@dataclass(frozen=True, eq=False, slots=True)
class Base:
    """An order of a graph, and more of its gaps.

    Per gap, `starts` is the position at which it begins, `sizes` the bytes and `producers` the
    producer of its buffer; it is `overwritable` where the node there may overwrite what it reads.
    """

    tables: RematTables
    gaps: Gaps
    starts: Int64Array
    sizes: Int64Array
    producers: Int64Array
    overwritable: BoolArray

    @property
    def order(self) -> Int64Array:
        """All nodes, each once."""
        return self.gaps.order

    @property
    def ends(self) -> Int64Array:
        """Per gap the position at which it ends."""
        return self.gaps.ends

    def nothing_dropped(self) -> Int64Array:
        """Return the flags of gaps with which each node runs once: only the last are dropped."""
        return (self.ends > self.tables.node_count).astype(np.int64)

    def held_at(self, node: int, buffers: Int64Array) -> Int64Array:
        """Return the flags of gaps with which only `buffers` are held when `node` has run.

        They are held behind their last use too. What is made later, or read later again, is held.
        """
        position = int(self.gaps.position[node])
        dropped = self.nothing_dropped()
        spans = (self.starts <= position) & (self.ends > position) & (self.sizes > 0)
        spans &= self.producers >= 0
        dropped[spans & (self.ends < self.tables.node_count)] = 1
        kept = np.zeros(self.tables.buffer_count, np.bool_)
        kept[buffers] = True
        dropped[spans & np.repeat(kept, np.diff(self.gaps.first))] = 0
        return dropped

    def droppable_over(self, dropped: Int64Array, position: int) -> Int64Array:
        """Return the gaps not dropped that are open at a position and might be dropped.

        Those that begin there are among them where its node could overwrite the buffer.
        """
        begins = (self.starts == position) & self.overwritable
        open_there = ((self.starts < position) | begins) & (self.ends > position) & (self.sizes > 0)
        may = (self.producers >= 0) & (self.ends < self.tables.node_count) & (dropped == 0)
        return np.flatnonzero(open_there & may & (self.gaps.closing[self.producers] >= self.ends))

    def dropped_in(self, sequence: Int64Array) -> Int64Array:
        """Return the flags of gaps before whose ends a sequence makes their buffers again.

        The first runs of the sequence are in this order.
        """
        graph = self.tables.problem.graph
        dropped = self.nothing_dropped()
        latest, used = np.zeros((2, self.tables.buffer_count), np.int64)
        gap = self.gaps.first[:-1].copy()
        has_run = np.zeros(self.tables.node_count, np.bool_)
        for node in sequence.tolist():
            makes = graph.makes.items[graph.makes.starts[node] : graph.makes.starts[node + 1]]
            if has_run[node]:
                latest[makes] += 1
                continue
            has_run[node] = True
            reads = graph.reads.items[graph.reads.starts[node] : graph.reads.starts[node + 1]]
            dropped[gap[reads][latest[reads] != used[reads]]] = 1
            gap[reads] += 1
            used[reads] = latest[reads]
        return dropped


def base_of(tables: RematTables, order: Int64Array) -> Base:
    """Return an order, which holds each node once, with its gaps."""
    count = tables.node_count
    graph = tables.graph
    position = np.empty(count, np.int64)
    position[order] = np.arange(count)
    owner = np.concatenate([graph.consumers.row_numbers(), np.arange(tables.buffer_count)])
    behind = np.where(graph.live_out, count, count + 1)
    ends = np.concatenate([position[graph.consumers.items], behind])
    by_end = np.lexsort([ends, owner])
    lengths = np.bincount(owner, minlength=tables.buffer_count)
    first = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    owner, ends = owner[by_end], ends[by_end].astype(np.int64)
    gaps = Gaps(np.array(order, np.int64), position, _closing(tables, position), first, ends)
    producers = graph.producer[owner].astype(np.int64)
    made = np.where(producers < 0, -1, position[producers])
    is_first = np.diff(owner, prepend=-1) > 0
    starts = np.where(is_first, made, np.roll(ends, 1))
    return Base(
        tables=tables,
        gaps=gaps,
        starts=starts,
        sizes=graph.buffer_bytes[owner],
        producers=producers,
        overwritable=_overwritable(tables, position, starts, owner),
    )


def _overwritable(
    tables: RematTables, position: Int64Array, starts: Int64Array, owner: Int64Array
) -> BoolArray:
    """Per gap whether the node at its start may overwrite its buffer."""
    node, read = tables.graph.shares[:, 0], tables.graph.shares[:, 1]
    count = tables.buffer_count
    return np.isin(starts * count + owner, position[node] * count + read)


def _closing(tables: RematTables, position: Int64Array) -> Int64Array:
    """The last position before which each node may run again: that of who waits for it."""
    control = tables.graph.control
    closing = np.full(tables.node_count, tables.node_count)
    np.minimum.at(closing, control.items, position[control.row_numbers()])
    closing[tables.problem.once > 0] = -1
    return closing
