"""Parts of a graph that every order runs one after the other.

A node that comes before or behind every other one splits all orders there. A part is a graph by
itself: what is made before it is there from the start, what is needed behind it is kept, and what
only passes adds a constant.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from lowtide.scheduling.words import (
    KEPT,
    MAKER,
    OWN,
    PRED,
    PREDS,
    SHARE,
    SHARE_MADE,
    SHARE_READ,
    SIZE,
    SUCC,
    SUCCS,
    USE,
    USES,
    Tables,
    Words,
    joined,
)
from lowtide.search.kernels import Array

SMALLEST: Final = 256
"""Parts of fewer nodes are not worth a graph of their own."""


@dataclass(frozen=True, eq=False, slots=True)
class Part:
    """A graph, the nodes of the whole that are its nodes, and bytes live during all of it."""

    words: Words
    nodes: Array
    carried: int


def parts(words: Words, order: Array, smallest: int = SMALLEST) -> list[Part]:
    """Return the parts of a graph, first to last, given any of its orders."""
    ends = _ends(words, order, smallest)
    if len(ends) == 1:
        return [Part(words, np.arange(words.nodes), 0)]
    first, last = _lives(words, order)
    bounds = pairwise([0, *ends])
    return [_part(words, order, first, last, low, high) for low, high in bounds]


def _ends(words: Words, order: Array, smallest: int) -> list[int]:
    """The places behind the last node of each part."""
    count = words.nodes
    place = np.empty(count, np.int64)
    place[order] = np.arange(count)
    follower = np.full(count + 1, count, np.int64)
    start, items = words.rows(SUCC, SUCCS)
    np.minimum.at(follower, np.repeat(place, np.diff(start)), place[items])
    needed = np.full(count + 1, -1, np.int64)
    start, items = words.rows(PRED, PREDS)
    np.maximum.at(needed, np.repeat(place, np.diff(start)), place[items])
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


def _lives(words: Words, order: Array) -> tuple[Array, Array]:
    """The first and last place at which each buffer is live; -1 from the start, n to the end."""
    count, buffers = words.nodes, words.buffers
    place = np.empty(count + 1, np.int64)
    place[order] = np.arange(count)
    place[-1] = -1
    first = place[words.table(MAKER, buffers)]
    last = first.copy()
    start = words.table(USE, buffers + 1)
    uses = words.table(USES, int(start[-1]))
    np.maximum.at(last, np.repeat(np.arange(buffers), np.diff(start)), place[uses])
    last[words.table(KEPT, buffers) != 0] = count
    return first, last


def _part(words: Words, order: Array, first: Array, last: Array, low: int, high: int) -> Part:
    nodes = np.sort(order[low:high])
    local = np.full(words.nodes + 1, -1, np.int64)
    local[nodes] = np.arange(len(nodes))
    size = words.table(SIZE, words.buffers)
    touches = _touched(words, local)
    passing = (first < low) & (last >= high) & ~touches
    buffers = np.flatnonzero(touches)
    number = np.full(words.buffers, -1, np.int64)
    number[buffers] = np.arange(len(buffers))
    start = words.table(USE, words.buffers + 1)
    rows = np.repeat(np.arange(words.buffers), np.diff(start))
    users = local[words.table(USES, int(start[-1]))]
    inside = users >= 0
    node_shares = np.repeat(np.arange(words.nodes), np.diff(words.table(SHARE, words.nodes + 1)))
    own = local[node_shares] >= 0
    share_count = len(node_shares)
    starts, before = words.rows(PRED, PREDS)
    behind = np.repeat(np.arange(words.nodes), np.diff(starts))
    edges = (local[before] >= 0) & (local[behind] >= 0)
    tables = Tables(
        before=local[before[edges]],
        behind=local[behind[edges]],
        used=number[rows[inside]],
        user=users[inside],
        size=size[buffers],
        maker=local[words.table(MAKER, words.buffers)[buffers]],
        kept=(last[buffers] >= high).astype(np.int64),
        own=words.table(OWN, words.nodes)[nodes],
        share_node=local[node_shares[own]],
        share_read=number[words.table(SHARE_READ, share_count)[own]],
        share_made=number[words.table(SHARE_MADE, share_count)[own]],
    )
    return Part(joined(tables), nodes, int(size[passing].sum()))


def _touched(words: Words, local: Array) -> npt.NDArray[np.bool_]:
    maker = words.table(MAKER, words.buffers)
    touched = local[maker] >= 0
    start = words.table(USE, words.buffers + 1)
    rows = np.repeat(np.arange(words.buffers), np.diff(start))
    touched[rows[local[words.table(USES, int(start[-1]))] >= 0]] = True
    return touched
