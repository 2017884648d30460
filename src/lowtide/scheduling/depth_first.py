"""Depth-first orders: each operand with all that it needs before the next one.

The rules are those of XLA's DFSMemoryScheduler and PostOrderScheduler (OpenXLA,
hlo_memory_scheduler).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lowtide.analysis.memory_graph import MemoryGraph, Rows


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


Int64Array = npt.NDArray[np.int64]


def depth_first_order(graph: MemoryGraph) -> Int64Array:
    """Return a post order in which operands with much behind them come first.

    Operands stand by extra users, then by bytes made, both summed over all that the operand needs
    and largest first, then by name. Extra users are the users of a value beyond the first.
    """
    rank = _ranks(graph)
    rows = [sorted(row, key=rank.__getitem__) for row in graph.operands.rows()]
    starts = [node for node in _unread(graph) if node != graph.root]
    return _post_order(graph, rows, [*starts, graph.root])


def post_order(graph: MemoryGraph) -> Int64Array:
    """Return the plain post order: operands from first to last, nodes by creation."""
    return _post_order(graph, graph.operands.rows(), _unread(graph))


def _unread(graph: MemoryGraph) -> list[int]:
    users = graph.operands.transposed(graph.node_count)
    return [node for node, readers in enumerate(users) if not readers]


def _post_order(graph: MemoryGraph, operands: Rows, starts: list[int]) -> Int64Array:
    """Every node is reached: those without users are starts, and the graph has no cycle."""
    control = graph.control.rows()
    state = [0] * graph.node_count
    order: list[int] = []
    stack = list(reversed(starts))
    while stack:
        node = stack[-1]
        if state[node]:
            stack.pop()
            if state[node] == 1:
                state[node] = 2
                order.append(node)
            continue
        state[node] = 1
        stack.extend([x for x in reversed(control[node]) if not state[x]])
        stack.extend([x for x in reversed(operands[node]) if not state[x]])
    return np.array(order, np.int64)


def _ranks(graph: MemoryGraph) -> list[int]:
    """The place of each node among all by (extra users, bytes made, name)."""
    users = graph.operands.transposed(graph.node_count)
    leaf = graph.is_leaf.tolist()
    made = np.zeros(graph.node_count + 1, np.int64)
    np.add.at(made, graph.producer, graph.buffer_bytes)
    size = made.tolist()
    limit = sum(size)
    operands = graph.operands.rows()
    extra, total = [0] * graph.node_count, [0] * graph.node_count
    for node in _topological(graph):
        if leaf[node]:
            continue
        own = max(0, len(users[node]) - 1)
        extra[node] = min(graph.node_count, own + sum([extra[x] for x in operands[node]]))
        total[node] = min(limit, size[node] + sum([total[x] for x in operands[node]]))
    name = graph.name_rank.tolist()
    order = sorted(range(graph.node_count), key=lambda i: (-extra[i], -total[i], name[i]))
    ranks = [0] * graph.node_count
    for place, node in enumerate(order):
        ranks[node] = place
    return ranks


def _topological(graph: MemoryGraph) -> list[int]:
    waiting_for, waiting = successors(graph)
    order = [node for node, count in enumerate(waiting) if not count]
    for node in order:
        for successor in waiting_for[node]:
            waiting[successor] -= 1
            if not waiting[successor]:
                order.append(successor)
    return order
