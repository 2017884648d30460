"""The bytes live at each step of an order of a memory graph.

step          0    1    2    3
x, 8 bytes    #    #
y, 8 bytes         #    #         may be written over x, which dies at step 1
z, 4 bytes              #    #
scratch                      6
live          8    8   12   10    the peak is 12; at step 1 the bytes of x count once
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Final

import numpy as np
import numpy.typing as npt

from lowtide.analysis.memory_graph import MemoryGraph

Int64Array = npt.NDArray[np.int64]


def step_bytes(graph: MemoryGraph, order: Int64Array) -> Int64Array:
    """Return the bytes live during each step of an order, which lists each node once.

    A step counts the buffers live in it and what its node holds while it runs, less what is taken
    over in it: each buffer takes over at most one, and each is taken over by at most one.
    """
    count = graph.node_count
    if count <= _FEW:
        return np.array(_few_steps(graph, np.asarray(order).tolist()), np.int64)
    position, first, last = lifetimes(graph, order)
    change = np.zeros(count + 1, np.int64)
    np.add.at(change, first, graph.buffer_bytes)
    np.subtract.at(change, last + 1, graph.buffer_bytes)
    live = np.cumsum(change)[:count] + (graph.scratch_bytes + graph.inner_bytes)[order]
    at, taken = _taken_over(graph, position, last)
    if at:
        live[at] -= taken
    return live


_FEW: Final = 64
"""Of so few nodes the steps are worked out one by one: to call NumPy takes longer."""


def _few_steps(graph: MemoryGraph, order: list[int]) -> list[int]:
    """The bytes live during each step of an order of few nodes."""
    place = [0] * len(order)
    for step, node in enumerate(order):
        place[node] = step
    change = [0] * (len(order) + 1)
    last = []
    kept = graph.live_out.tolist()
    rows = zip(
        graph.buffer_bytes.tolist(), graph.producer.tolist(), graph.consumers.rows(), strict=True
    )
    for buffer, (nbytes, producer, consumers) in enumerate(rows):
        first = place[producer] if producer >= 0 else 0
        end = first
        if kept[buffer]:
            end = len(order) - 1
        else:
            for x in consumers:
                if place[x] > end:
                    end = place[x]
        change[first] += nbytes
        change[end + 1] -= nbytes
        last.append(end)
    held = (graph.scratch_bytes + graph.inner_bytes).tolist()
    live = [below + held[node] for below, node in zip(accumulate(change), order, strict=False)]
    pairs: dict[int, list[tuple[int, int]]] = {}
    for node, read, made in graph.shares.tolist():
        if last[read] == place[node] and not kept[read]:
            pairs.setdefault(place[node], []).append((read, made))
    if pairs:
        size = graph.buffer_bytes.tolist()
        for step, found in pairs.items():
            live[step] -= matched_bytes(found, size)
    return live


def peak_bytes(graph: MemoryGraph, order: Int64Array) -> int:
    """Return the largest step of an order, in bytes."""
    if graph.node_count <= _FEW:
        return max(_few_steps(graph, np.asarray(order).tolist()), default=0)
    return int(step_bytes(graph, order).max(initial=0))


def lifetimes(graph: MemoryGraph, order: Int64Array) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Return the step of each node, and the first and the last one at which each buffer is live."""
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order))
    first = np.where(graph.producer >= 0, position[graph.producer], 0)
    last = first.copy()
    consumers = graph.consumers
    np.maximum.at(last, consumers.row_numbers(), position[consumers.items])
    last[graph.live_out] = graph.node_count - 1
    return position, first, last


def _taken_over(
    graph: MemoryGraph, position: Int64Array, last: Int64Array
) -> tuple[list[int], list[int]]:
    """The steps at which buffers take over others, and the bytes: a largest matching in each."""
    node, read, made = graph.shares.T
    at = position[node]
    dies = (last[read] == at) & ~graph.live_out[read]
    read = read[dies]
    size = dict(zip(read.tolist(), graph.buffer_bytes[read].tolist(), strict=True))
    pairs: dict[int, list[tuple[int, int]]] = {}
    for step, one, other in zip(at[dies].tolist(), read.tolist(), made[dies].tolist(), strict=True):
        pairs.setdefault(step, []).append((one, other))
    return list(pairs), [matched_bytes(x, size) for x in pairs.values()]


def matched_bytes(pairs: list[tuple[int, int]], size: Mapping[int, int] | Sequence[int]) -> int:
    """Return the most bytes that are taken over in a step by pairs of (read, made) buffers.

    What is read dies in the step. `size` is the bytes of each buffer, those of a pair are equal:
    of buffers that are connected, most pairs are most bytes.
    """
    if len(pairs) < 2:
        return sum([size[read] for read, _ in pairs])
    first_read, first_made = pairs[0]
    if all(made == first_made for _, made in pairs) or all(read == first_read for read, _ in pairs):
        return size[first_read]
    return sum([size[read] for read in _matched(pairs).values()])


def _matched(pairs: list[tuple[int, int]]) -> dict[int, int]:
    """The operand of each made buffer in a largest matching, by augmenting paths (Berge 1957)."""
    candidates: dict[int, list[int]] = {}
    for read, made in pairs:
        candidates.setdefault(made, []).append(read)
    taker: dict[int, int] = {}
    chosen: dict[int, int] = {}
    for maker in candidates:
        _augment(maker, candidates, taker, chosen)
    return chosen


def _augment(
    maker: int, candidates: dict[int, list[int]], taker: dict[int, int], chosen: dict[int, int]
) -> None:
    """Match one more made buffer if that can be, breadth first.

    `candidates` are operands per made buffer, `chosen` one of them; `taker` is the made buffer per
    operand that is taken.
    """
    asking: dict[int, int] = {}
    """Per operand the made buffer that asks for it."""
    queue = [maker]
    for current in queue:
        for operand in candidates[current]:
            if operand in asking:
                continue
            asking[operand] = current
            if operand in taker:
                queue.append(taker[operand])
                continue
            at: int | None = operand
            while at is not None:
                owner = asking[at]
                before = chosen.get(owner)
                chosen[owner], taker[at] = at, owner
                at = before
            return
