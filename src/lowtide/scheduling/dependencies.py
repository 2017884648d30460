"""Nodes of a memory graph that wait for others, as lists."""

from __future__ import annotations

from lowtide.analysis.memory_graph import MemoryGraph


def transposed(rows: list[list[int]], count: int) -> list[list[int]]:
    """Return for each of `count` numbers the rows that contain it, ascending."""
    found: list[list[int]] = [[] for _ in range(count)]
    for row, items in enumerate(rows):
        for item in items:
            found[item].append(row)
    return found


def successors(graph: MemoryGraph) -> tuple[list[list[int]], list[int]]:
    """Return per node those that wait for it, and for how many each one waits.

    A node that waits for another one both for its value and by control stands there twice.
    """
    count = graph.node_count
    waiting: list[list[int]] = [[] for _ in range(count)]
    number = [0] * count
    for predecessors in (graph.operands.rows(), graph.control.rows()):
        for node, before in enumerate(predecessors):
            number[node] += len(before)
            for predecessor in before:
                waiting[predecessor].append(node)
    return waiting, number
