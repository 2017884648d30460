"""Values that leave a memory and come back, as nodes of a memory graph that run again.

A value that may be stored elsewhere is made by a node of its own, its *return*:

  before   p  makes  v                         readers of v
  here     p  ..stored elsewhere..  return  makes  v        readers of v

The step of `p` still holds v. A return reads what takes no bytes, so it may run at any time behind
`p`. Where it runs first right behind `p`, v is just kept; every other run is a copy from the other
memory. So a search for what runs again also finds what comes back, at the time of its copy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final

import numpy as np

from lowtide.analysis.memory_graph import MemoryGraph, lists
from lowtide.records import dataclass
from lowtide.remat.measure import step_bytes
from lowtide.remat.tables import Float64Array, Int64Array, RematTables

_LEAST_STEPS: Final = 3
"""A value that is not used for fewer steps than this stays."""


@dataclass(frozen=True, eq=False, slots=True)
class ReturnGraph:
    """A graph with the returns of `values`: node `first + k` is that of `values[k]`.

    `makers` are the nodes that make them; `reads` and `makes` have, per node of the graph without
    returns, the places in `values` of those that it reads and makes.
    """

    graph: MemoryGraph
    values: tuple[int, ...]
    makers: tuple[int, ...]
    first: int
    reads: tuple[tuple[int, ...], ...]
    makes: tuple[tuple[int, ...], ...]

    @property
    def sizes(self) -> Int64Array:
        """The bytes of each value."""
        return self.graph.buffer_bytes[list(self.values)]

    def order(self, plain: Sequence[int]) -> Int64Array:
        """Return an order of the graph without returns, with each right behind its maker."""
        found: list[int] = []
        for node in plain:
            found += [node, *[self.first + k for k in self.makes[node]]]
        return np.array(found, np.int64)


def unused_steps(graph: MemoryGraph, order: Sequence[int]) -> list[int]:
    """Return per buffer the most steps of an order between two uses of it, one after the other."""
    place = np.empty(graph.node_count, np.int64)
    place[np.asarray(order, np.int64)] = np.arange(len(order))
    found = []
    for maker, readers in zip(graph.producer.tolist(), graph.consumers.rows(), strict=True):
        uses = sorted([int(place[x]) for x in (*((maker,) if maker >= 0 else ()), *readers)])
        found.append(max([b - a for a, b in pairwise(uses)], default=0))
    return found


def movable(graph: MemoryGraph, order: Sequence[int], least_bytes: int) -> list[int]:
    """Return the buffers of at least so many bytes that an order does not use for a while.

    What is there from the start and what lives to the end is none of them.
    """
    steps = unused_steps(graph, order)
    is_large = (graph.buffer_bytes >= max(1, least_bytes)) & (graph.producer >= 0)
    found = np.flatnonzero(is_large & ~graph.live_out & (graph.alias_set < 0))
    return [int(x) for x in found if steps[x] >= _LEAST_STEPS]


def with_returns(graph: MemoryGraph, values: Sequence[int], seconds: Float64Array) -> ReturnGraph:
    """Return a graph with returns for some buffers that nodes make, each with its seconds."""
    nodes = graph.node_count
    makers = graph.producer[list(values)].tolist()
    reads: list[list[int]] = [[] for _ in range(nodes)]
    makes: list[list[int]] = [[] for _ in range(nodes)]
    consumers = graph.consumers.rows()
    for k, value in enumerate(values):
        makes[makers[k]].append(k)
        for node in consumers[value]:
            reads[node].append(k)
    extended = _with_buffers(_with_nodes(graph, makers, reads, seconds), values, nodes)
    rows = [tuple(map(tuple, x)) for x in (reads, makes)]
    return ReturnGraph(extended, tuple(values), tuple(makers), nodes, rows[0], rows[1])


def _with_nodes(
    graph: MemoryGraph, makers: Sequence[int], reads: Sequence[list[int]], seconds: Float64Array
) -> MemoryGraph:
    """The graph with a node behind each maker, for which those wait that read its value."""
    nodes, none = graph.node_count, np.zeros(len(makers), np.int64)
    rows = zip(graph.operands.rows(), reads, strict=True)
    operands = [[*row, *[nodes + k for k in read]] for row, read in rows]
    return replace(
        graph,
        operands=lists([*operands, *[[x] for x in makers]]),
        control=lists([*graph.control.rows(), *[[] for _ in makers]]),
        scratch_bytes=_longer(graph.scratch_bytes, none),
        inner_bytes=_longer(graph.inner_bytes, none),
        name_rank=_longer(graph.name_rank, np.arange(nodes, nodes + len(makers))),
        is_scalar=_longer(graph.is_scalar, none),
        is_leaf=_longer(graph.is_leaf, none),
        urgency=_longer(graph.urgency, none),
        seconds=_longer(graph.seconds, seconds),
    )


def _with_buffers(graph: MemoryGraph, values: Sequence[int], first: int) -> MemoryGraph:
    """The graph in which returns, from node `first` on, make the values.

    Their makers make two buffers for each: one of its bytes, which nothing reads, and behind these
    one of none, which the return reads.
    """
    count, held = len(values), len(graph.producer)
    returns, chosen = range(first, first + count), list(values)
    makers, none = graph.producer[chosen], np.zeros(2 * count, np.int64)
    producer = _longer(graph.producer, np.concatenate([makers, makers]))
    producer[chosen] = returns
    place = np.arange(held)
    place[chosen] = np.arange(held, held + count)
    shares = graph.shares.copy()
    shares[:, 2] = place[shares[:, 2]]
    consumers = [*graph.consumers.rows(), *[[] for _ in values], *[[x] for x in returns]]
    return replace(
        graph,
        producer=producer,
        consumers=lists(consumers),
        buffer_bytes=_longer(graph.buffer_bytes, [*graph.buffer_bytes[chosen], *none[count:]]),
        live_out=_longer(graph.live_out, none),
        alias_set=_longer(graph.alias_set, none - 1),
        colour=_longer(graph.colour, none),
        bin=_longer(graph.bin, none - 1),
        shares=shares,
    )


def _longer(array: Any, added: Any) -> Any:
    """An array with more entries, of its type."""
    return np.concatenate([array, np.asarray(added).astype(array.dtype)])


@dataclass(slots=True)
class Stay:
    """A value in memory from step `begin` of a sequence on, its uses there, and if it came back."""

    begin: int
    uses: list[int]
    is_back: bool


def stays(found: ReturnGraph, sequence: Int64Array) -> tuple[list[int], list[list[Stay]]]:
    """Return per value the step that first makes it, and its stays in memory, in order."""
    made = [-1] * len(found.values)
    kept: list[list[Stay]] = [[] for _ in found.values]
    last = -1
    for step, node in enumerate(sequence.tolist()):
        if node >= found.first:
            k = node - found.first
            kept[k].append(Stay(step, [], bool(kept[k]) or last != made[k]))
            continue
        last = step
        for k in found.makes[node]:
            made[k] = step if made[k] < 0 else made[k]
        for k in found.reads[node]:
            kept[k][-1].uses.append(step)
    return made, kept


def without_needless(
    found: ReturnGraph, tables: RematTables, sequence: Int64Array, late: Callable[[], bool]
) -> Int64Array:
    """Return a sequence with fewer copies and no more bytes: values stay where there is room.

    The largest values are looked at first, until `late` says so.
    """
    cap = int(step_bytes(tables, sequence).max(initial=0))
    sizes = found.sizes
    for k in sorted(range(len(found.values)), key=lambda k: (-int(sizes[k]), k)):
        if late():
            break
        sequence = staying(found, tables, sequence, k, cap)
    return sequence


def staying(
    found: ReturnGraph, tables: RematTables, sequence: Int64Array, k: int, cap: int
) -> Int64Array:
    """Return a sequence of at most `cap` bytes in which a value stays where there is room."""
    runs = np.flatnonzero(sequence == found.first + k)
    for number in range(len(runs) - 1, -1, -1):
        tried = _staying(found, sequence, k, int(runs[number]), is_first=number == 0)
        if step_bytes(tables, tried).max(initial=0) <= cap:
            sequence = tried
    return sequence


def _staying(
    found: ReturnGraph, sequence: Int64Array, k: int, step: int, *, is_first: bool
) -> Int64Array:
    """A sequence in which a value does not come back at a step, since it never left before it."""
    rest = np.delete(sequence, step)
    if not is_first:
        return rest
    made = int(np.flatnonzero(rest == found.makers[k])[0])
    return np.insert(rest, made + 1, found.first + k)
