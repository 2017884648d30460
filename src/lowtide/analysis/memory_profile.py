"""The bytes live at each step of an order of a memory graph.

step          0    1    2    3
x, 8 bytes    #    #
y, 8 bytes         #    #         may be written over x, which dies at step 1
z, 4 bytes              #    #
scratch                      6
live          8    8   12   10    the peak is 12; at step 1 the bytes of x count once
"""

from __future__ import annotations

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
    if not count:
        return np.zeros(0, np.int64)
    position, first, last = lifetimes(graph, order)
    change = np.zeros(count + 1, np.int64)
    np.add.at(change, first, graph.buffer_bytes)
    np.subtract.at(change, last + 1, graph.buffer_bytes)
    live = np.cumsum(change)[:count] + (graph.scratch_bytes + graph.inner_bytes)[order]
    at, taken = _taken_over(graph, position, last)
    np.subtract.at(live, at, taken)
    return live


def peak_bytes(graph: MemoryGraph, order: Int64Array) -> int:
    """Return the largest step of an order, in bytes."""
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
) -> tuple[Int64Array, Int64Array]:
    """The steps at which a buffer takes over another one, and their bytes: a largest matching."""
    node, read, made = graph.shares.T
    at = position[node]
    dies = (last[read] == at) & ~graph.live_out[read]
    read, made, at = read[dies], made[dies], at[dies]
    first = _first_matching(read, made)
    contested = _contested(at, read, made, first)
    kept = first[~np.isin(at[first], contested)]
    more = [_largest_matching(read, made, np.flatnonzero(at == step)) for step in contested]
    chosen = np.concatenate([kept, *more]) if more else kept
    return at[chosen], graph.buffer_bytes[read[chosen]]


def _first_matching(read: Int64Array, made: Int64Array) -> Int64Array:
    """Rows such that each made buffer takes its first candidate, if no earlier one took that."""
    _, chosen = np.unique(made, return_index=True)
    _, kept = np.unique(read[chosen], return_index=True)
    return chosen[kept]


def _contested(at: Int64Array, read: Int64Array, made: Int64Array, first: Int64Array) -> list[int]:
    """The steps at which a larger matching than the first one may exist.

    There is none where all made buffers, or all operands, are matched.
    """
    matched = _per_step(at[first])
    _, makers = np.unique(made, return_index=True)
    _, operands = np.unique(read, return_index=True)
    most_made, most_read = _per_step(at[makers]), _per_step(at[operands])
    return [
        step for step, count in matched.items() if count < min(most_made[step], most_read[step])
    ]


def _per_step(at: Int64Array) -> dict[int, int]:
    steps, counts = np.unique(at, return_counts=True)
    return dict(zip(steps.tolist(), counts.tolist(), strict=True))


def _largest_matching(read: Int64Array, made: Int64Array, rows: Int64Array) -> Int64Array:
    """Rows of a largest matching among `rows`, by augmenting paths (Berge 1957).

    Buffers that are connected have equal bytes: most pairs are most bytes.
    """
    chosen = _matched([(int(read[row]), int(made[row]), row) for row in rows.tolist()])
    return np.array([row for _, row in chosen.values()], np.int64)


def matched_bytes(pairs: list[tuple[int, int]], size: list[int]) -> int:
    """Return the most bytes that are taken over in a step by pairs of (read, made) buffers.

    What is read dies in the step. `size` is the bytes of each buffer, those of a pair are equal.
    """
    if len(pairs) < 2:
        return sum([size[read] for read, _ in pairs])
    chosen = _matched([(read, made, 0) for read, made in pairs])
    return sum([size[read] for read, _ in chosen.values()])


def _matched(pairs: list[tuple[int, int, int]]) -> dict[int, tuple[int, int]]:
    """Operand and row of each made buffer in a largest matching of (read, made, row)."""
    candidates: dict[int, list[tuple[int, int]]] = {}
    for read, made, row in pairs:
        candidates.setdefault(made, []).append((read, row))
    taker: dict[int, int] = {}
    chosen: dict[int, tuple[int, int]] = {}
    for maker in candidates:
        _augment(maker, candidates, taker, chosen)
    return chosen


def _augment(
    maker: int,
    candidates: dict[int, list[tuple[int, int]]],
    taker: dict[int, int],
    chosen: dict[int, tuple[int, int]],
) -> None:
    """Match one more made buffer if that can be, breadth first.

    `candidates` are operands and rows per made buffer, `chosen` one of them; `taker` is the made
    buffer per operand that is taken.
    """
    reached: dict[int, tuple[int, int]] = {}
    """Per operand the made buffer that asks for it, and the row."""
    queue = [maker]
    for current in queue:
        for operand, row in candidates[current]:
            if operand in reached:
                continue
            reached[operand] = current, row
            if operand in taker:
                queue.append(taker[operand])
                continue
            at: int | None = operand
            while at is not None:
                owner, row = reached[at]
                before = chosen.get(owner)
                chosen[owner], taker[at] = (at, row), owner
                at = None if before is None else before[0]
            return
