"""Values that leave a memory and come back, as nodes of a memory graph that run again.

A value that may be stored elsewhere is made by a node of its own, its *return*:

  before   p  makes  v                         readers of v
  here     p  ..stored elsewhere..  return  makes  v        readers of v

The step of `p` still holds v. A return reads what takes no bytes, so it may run at any time behind
`p`. Where it runs first right behind `p`, v is just kept; every other run is a copy from the other
memory. So a search for what runs again also finds what comes back, at the time of its copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

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
        uses = sorted([int(place[x]) for x in ([maker] if maker >= 0 else []) + readers])
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
    nodes, count = graph.node_count, len(values)
    numbers = {value: k for k, value in enumerate(values)}
    makers = graph.producer[list(values)].tolist()
    reads: list[list[int]] = [[] for _ in range(nodes)]
    makes: list[list[int]] = [[] for _ in range(nodes)]
    operands, consumers = graph.operands.rows(), graph.consumers.rows()
    for value, k in numbers.items():
        makes[makers[k]].append(k)
        for node in consumers[value]:
            reads[node].append(k)
            operands[node].append(nodes + k)
    producer = graph.producer.copy()
    producer[list(values)] = np.arange(nodes, nodes + count)
    shares = graph.shares.copy()
    held = len(producer)
    for row in shares:
        row[2] = held + numbers[int(row[2])] if int(row[2]) in numbers else row[2]
    none = np.zeros(count, np.int64)
    extended = replace(
        graph,
        operands=lists([*operands, *[[x] for x in makers]]),
        control=lists([*graph.control.rows(), *[[] for _ in values]]),
        seconds=np.concatenate([graph.seconds, seconds]),
        name_rank=np.concatenate([graph.name_rank, np.arange(nodes, nodes + count)]).astype(
            np.int32
        ),
        **{
            name: np.concatenate([getattr(graph, name), none]).astype(getattr(graph, name).dtype)
            for name in _PER_NODE
        },
        producer=np.concatenate([producer, makers, makers]).astype(np.int32),
        consumers=lists([*consumers, *[[] for _ in values], *[[nodes + k] for k in range(count)]]),
        buffer_bytes=np.concatenate([graph.buffer_bytes, graph.buffer_bytes[list(values)], none]),
        live_out=np.concatenate([graph.live_out, none, none]).astype(np.bool_),
        **{
            name: np.concatenate([getattr(graph, name), none + fill, none + fill]).astype(np.int32)
            for name, fill in _PER_BUFFER.items()
        },
        shares=shares,
    )
    rows = [tuple(map(tuple, x)) for x in (reads, makes)]
    return ReturnGraph(extended, tuple(values), tuple(makers), nodes, rows[0], rows[1])


_PER_NODE: Final = ("scratch_bytes", "inner_bytes", "is_scalar", "is_leaf", "urgency")
_PER_BUFFER: Final = {"alias_set": -1, "colour": 0, "bin": -1}
"""Of the two buffers that each value has besides: its bytes in the step that makes it, which
nothing reads, and what its return reads, which takes none."""


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


def without_needless(found: ReturnGraph, tables: RematTables, sequence: Int64Array) -> Int64Array:
    """Return a sequence with fewer copies and no more bytes: values stay where there is room."""
    cap = int(step_bytes(tables, sequence).max(initial=0))
    sizes = found.sizes
    for k in sorted(range(len(found.values)), key=lambda k: (-int(sizes[k]), k)):
        runs = np.flatnonzero(sequence == found.first + k)
        for number in range(len(runs) - 1, -1, -1):
            tried = _staying(found, sequence, k, int(runs[number]), is_first=number == 0)
            if step_bytes(tables, tried).max(initial=0) <= cap:
                sequence = tried
                if number == 0:
                    break
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
