"""Parts of a graph that every order runs one after the other.

A node that comes before or behind every other one splits all orders there. A part is a graph by
itself. What is made before it is there from the start, and what is needed behind it is kept. What
only passes through adds a constant.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from lowtide.analysis.graph_tables import GraphColumns, GraphTables, joined
from lowtide.records import dataclass
from lowtide.search.kernels import Array

SMALLEST: Final = 256
"""Parts of fewer nodes are not worth a graph of their own."""


@dataclass(frozen=True, eq=False, slots=True)
class Part:
    """A graph, the nodes of the whole that are its nodes, and bytes live during all of it."""

    tables: GraphTables
    nodes: Array
    carried: int


def parts(tables: GraphTables, order: Array, smallest: int = SMALLEST) -> list[Part]:
    """Return the parts of a graph, first to last, given any of its orders."""
    ends = _ends(tables, order, smallest)
    if len(ends) == 1:
        return [Part(tables, np.arange(tables.nodes), 0)]
    first, last = _lives(tables, order)
    bounds = pairwise([0, *ends])
    return [_part(tables, order, first, last, low, high) for low, high in bounds]


def _ends(tables: GraphTables, order: Array, smallest: int) -> list[int]:
    """The places behind the last node of each part."""
    count = tables.nodes
    place = np.empty(count, np.int64)
    place[order] = np.arange(count)
    follower = np.full(count + 1, count, np.int64)
    np.minimum.at(follower, place[tables.behind.numbers()], place[tables.behind.items])
    needed = np.full(count + 1, -1, np.int64)
    np.maximum.at(needed, place[tables.before.numbers()], place[tables.before.items])
    places = np.arange(count)
    latest = np.maximum.accumulate(np.concatenate([[0], follower[:count]]))[:count]
    earliest = np.minimum.accumulate(needed[count - 1 :: -1])[::-1]
    earliest = np.append(earliest[1:], count)
    ends, low = [], 0
    for high in (places[(latest <= places) & (earliest >= places)] + 1).tolist():
        if high - low >= smallest and count - high >= smallest:
            ends.append(high)
            low = high
    return [*ends, count]


def _lives(tables: GraphTables, order: Array) -> tuple[Array, Array]:
    """The first and last place at which each buffer is live; -1 from the start, n to the end."""
    count = tables.nodes
    place = np.empty(count + 1, np.int64)
    place[order] = np.arange(count)
    place[-1] = -1
    first = place[tables.producer]
    last = first.copy()
    np.maximum.at(last, tables.users.numbers(), place[tables.users.items])
    last[tables.live_out != 0] = count
    return first, last


def _part(
    tables: GraphTables, order: Array, first: Array, last: Array, low: int, high: int
) -> Part:
    nodes = np.sort(order[low:high])
    local = np.full(tables.nodes + 1, -1, np.int64)
    local[nodes] = np.arange(len(nodes))
    size, pairs = tables.size, tables.pairs
    touches = _touched(tables, local)
    passing = (first < low) & (last >= high) & ~touches
    buffers = np.flatnonzero(touches)
    number = np.full(tables.buffers, -1, np.int64)
    number[buffers] = np.arange(len(buffers))
    users = local[tables.users.items]
    inside = users >= 0
    pair_node = local[np.repeat(np.arange(tables.nodes), np.diff(pairs.starts))]
    own = pair_node >= 0
    before, behind = local[tables.before.items], local[tables.before.numbers()]
    edges = (before >= 0) & (behind >= 0)
    columns = GraphColumns(
        before=before[edges],
        behind=behind[edges],
        used=number[tables.users.numbers()[inside]],
        user=users[inside],
        size=size[buffers],
        producer=local[tables.producer[buffers]],
        live_out=(last[buffers] >= high).astype(np.int64),
        own_bytes=tables.own_bytes[nodes],
        pair_node=pair_node[own],
        pair_read=number[pairs.read[own]],
        pair_made=number[pairs.made[own]],
    )
    return Part(joined(columns), nodes, int(size[passing].sum()))


def _touched(tables: GraphTables, local: Array) -> npt.NDArray[np.bool_]:
    touched = local[tables.producer] >= 0
    touched[tables.users.numbers()[local[tables.users.items] >= 0]] = True
    return touched
