"""The memory graph in which some nodes have become one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from lowtide.analysis.memory_graph import MemoryGraph, Rows, lists


def merged_memory(
    graph: MemoryGraph, stands_for: Sequence[int], shares: Mapping[int, Iterable[tuple[int, int]]]
) -> tuple[MemoryGraph, npt.NDArray[np.int64]]:
    """Return the graph in which the nodes with the same representative are one.

    `stands_for` has the representative of each node, `shares` by merged representative the pairs of
    a buffer that it reads and one that may take it over. Buffers that only a merged node reads
    vanish. Also returns the number of each old node in the new graph.
    """
    kept = sorted(set(stands_for))
    new = {node: i for i, node in enumerate(kept)}
    number = np.array([new[x] for x in stands_for], np.int64)
    producer = np.where(graph.producer >= 0, number[graph.producer], -1).astype(np.int32)
    consumers = _mapped(graph.consumers.rows(), number, producer.tolist())
    inner = np.zeros(len(kept), np.int64)
    np.maximum.at(inner, number, graph.inner_bytes)
    merged_nodes = {new[x] for x in shares}
    nbytes = graph.buffer_bytes.copy()
    for buffer, node in enumerate(producer.tolist()):
        if node in merged_nodes and not graph.live_out[buffer] and not consumers[buffer]:
            nbytes[buffer] = 0
    result = replace(
        graph,
        operands=lists(_by_node(graph.operands.rows(), number, len(kept))),
        control=lists(_by_node(graph.control.rows(), number, len(kept))),
        scratch_bytes=graph.scratch_bytes[kept],
        inner_bytes=inner,
        name_rank=np.argsort(np.argsort(graph.name_rank[kept])).astype(np.int32),
        is_scalar=graph.is_scalar[kept],
        is_leaf=graph.is_leaf[kept],
        urgency=graph.urgency[kept],
        root=int(number[graph.root]),
        buffer_bytes=nbytes,
        producer=producer,
        consumers=lists(consumers),
        shares=_shares(graph, number, nbytes, {new[x]: pairs for x, pairs in shares.items()}),
    )
    return result, number


def _mapped(rows: Rows, number: npt.NDArray[np.int64], own: Sequence[int]) -> list[list[int]]:
    """Per buffer the nodes that read it, without the one that makes it."""
    found = []
    numbers = number.tolist()
    for row, producer in zip(rows, own, strict=True):
        found.append([x for x in dict.fromkeys([numbers[y] for y in row]) if x != producer])
    return found


def _by_node(rows: Rows, number: npt.NDArray[np.int64], count: int) -> list[dict[int, None]]:
    """Per new node what its old nodes list, without itself."""
    found: list[dict[int, None]] = [{} for _ in range(count)]
    numbers = number.tolist()
    for node, row in zip(numbers, rows, strict=True):
        found[node].update(dict.fromkeys([numbers[x] for x in row if numbers[x] != node]))
    return found


def _shares(
    graph: MemoryGraph,
    number: npt.NDArray[np.int64],
    nbytes: npt.NDArray[np.int64],
    merged: Mapping[int, Iterable[tuple[int, int]]],
) -> npt.NDArray[np.int32]:
    rows = [
        (int(number[node]), read, made)
        for node, read, made in graph.shares.tolist()
        if int(number[node]) not in merged
    ]
    rows += [(node, read, made) for node, pairs in merged.items() for read, made in pairs]
    kept = [(node, x, y) for node, x, y in rows if 0 < nbytes[x] == nbytes[y]]
    return np.array(kept, np.int32).reshape(-1, 3)
