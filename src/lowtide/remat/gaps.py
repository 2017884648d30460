"""An order of all nodes, and the gaps between the uses of each buffer in it.

A gap is the time from one use of a buffer to the next: where it is dropped, the buffer is not held
meanwhile and its producer runs again before the use. The first gap of a buffer begins with its
production; the last one, behind all uses, says whether the buffer is held for recomputations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lowtide.remat.tables import NODE, NODES_AT, ONCE, Int64Array, Tables


@dataclass(frozen=True, eq=False, slots=True)
class Base:
    """An order for the kernels, in `words`.

    These are the order, the position of each node, the last position before which it may run again
    (-1: it may not), where the gaps of each buffer begin, one more where all end, and per gap the
    position of the use that ends it. The end of the sequence counts as a use of a live-out buffer;
    the last gap of any other buffer ends one behind. Per gap, `starts` and `ends` are the positions
    at which it begins and ends, `sizes` the bytes and `producers` the producer of its buffer.
    """

    tables: Tables
    order: Int64Array
    words: Int64Array
    gaps_of: Int64Array
    ends: Int64Array
    starts: Int64Array
    sizes: Int64Array
    producers: Int64Array

    def nothing_dropped(self) -> Int64Array:
        """Return the flags of gaps with which each node runs once: only the last are dropped."""
        return (self.ends > self.tables.node_count).astype(np.int64)

    def held_at(self, node: int, buffers: Int64Array) -> Int64Array:
        """Return the flags of gaps with which only `buffers` are held when `node` has run.

        They are held behind their last use too. What is made later, or read later again, is held.
        """
        position = int(self.words[self.tables.node_count + node])
        dropped = self.nothing_dropped()
        spans = (self.starts <= position) & (self.ends > position) & (self.sizes > 0)
        spans &= self.producers >= 0
        dropped[spans & (self.ends < self.tables.node_count)] = 1
        kept = np.zeros(self.tables.buffer_count, np.bool_)
        kept[buffers] = True
        dropped[spans & np.repeat(kept, np.diff(self.gaps_of))] = 0
        return dropped

    def droppable_over(self, dropped: Int64Array, position: int) -> Int64Array:
        """Return the gaps not dropped that are open at a position and might be dropped."""
        last = self.words[2 * self.tables.node_count :][: self.tables.node_count]
        open_there = (self.starts < position) & (self.ends > position) & (self.sizes > 0)
        may = (self.producers >= 0) & (self.ends < self.tables.node_count) & (dropped == 0)
        return np.flatnonzero(open_there & may & (last[self.producers] >= self.ends))


def base_of(tables: Tables, order: Int64Array) -> Base:
    """Return an order, which holds each node once, with its gaps."""
    count = tables.node_count
    graph = tables.graph
    position = np.empty(count, np.int64)
    position[order] = np.arange(count)
    owner = np.concatenate([graph.consumers.row_numbers(), np.arange(tables.buffer_count)])
    behind = np.where(graph.live_out, count, count + 1)
    ends = np.concatenate([position[graph.consumers.items], behind])
    by_end = np.lexsort([ends, owner])
    gaps_of = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=tables.buffer_count))])
    owner, ends = owner[by_end], ends[by_end].astype(np.int64)
    words = np.concatenate([order, position, _closing(tables, position), gaps_of, ends])
    producers = graph.producer[owner].astype(np.int64)
    made = np.where(producers < 0, -1, position[producers])
    is_first = np.diff(owner, prepend=-1) > 0
    return Base(
        tables=tables,
        order=order,
        words=words.astype(np.int64),
        gaps_of=gaps_of.astype(np.int64),
        ends=ends,
        starts=np.where(is_first, made, np.roll(ends, 1)),
        sizes=graph.buffer_bytes[owner],
        producers=producers,
    )


def _closing(tables: Tables, position: Int64Array) -> Int64Array:
    """The last position before which each node may run again: that of who waits for it."""
    control = tables.graph.control
    closing = np.full(tables.node_count, tables.node_count)
    np.minimum.at(closing, control.items, position[control.row_numbers()])
    once = tables.words[NODES_AT + 1 :][ONCE : tables.node_count * NODE : NODE]
    closing[once > 0] = -1
    return closing
