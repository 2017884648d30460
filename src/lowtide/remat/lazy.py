"""A sequence from dropped gaps: what is missing is computed again just before it is read.

order        a   b   c   d          b and d read what a makes
a is held    #   #   #   #

sequence     a   b   c   a   d      the gap from b to d is dropped
a is held    #   #       #   #
"""

from __future__ import annotations

import numpy as np

from lowtide.analysis.graph_tables import GraphTables
from lowtide.records import dataclass
from lowtide.remat.gaps import Gaps
from lowtide.search.kernels import Array, Record, kernel

LONGEST = 4
"""A sequence has at most so many steps per node."""


@dataclass(frozen=True, eq=False, slots=True)
class Steps(Record):
    """A sequence: per step the node that runs, and the position of the order that it runs for."""

    node: Array
    position: Array


@dataclass(frozen=True, eq=False, slots=True)
class Unfolding(Record):
    """Arrays with which an order is unfolded.

    Per buffer: `held` is 1 where it is in memory, `gap` is the gap that it is in. Per node: `stamp`
    is the last position before which it was found missing; `again` lists, by their positions, the
    nodes to run again, `stack` those to look at.
    """

    held: Array
    gap: Array
    stamp: Array
    again: Array
    stack: Array


def unfolding(nodes: int, buffers: int) -> Unfolding:
    """Return the arrays for a graph of so many nodes and buffers."""
    by_buffer = [np.zeros(buffers, np.int64) for _ in range(2)]
    by_node = [np.zeros(nodes + 1, np.int64) for _ in range(3)]
    return Unfolding(*by_buffer, *by_node)


@kernel
def unfold(
    graph: GraphTables, base: Gaps, dropped: Array, reach: int, steps: Steps, work: Unfolding
) -> int:
    """Write the sequence of an order with `dropped` gaps; return its length, -1 if too long.

    Before each step of the order, what it reads and is not held is computed again with all that
    this takes, in the order's order. What is computed again is then held if its next use is at most
    `reach` positions away. A node that may not run any more is not: what it made is held instead.
    """
    makes = graph.makes
    reads = graph.reads
    ends = base.ends
    held = work.held
    gap = work.gap
    most = LONGEST * graph.nodes
    for b in range(graph.buffers):
        held[b] = 1 if graph.producer[b] < 0 else 0
        gap[b] = base.first[b]
    for v in range(graph.nodes):
        work.stamp[v] = -1
    length = 0
    for i in range(graph.nodes):
        v = base.order[i]
        again = closure(graph, base, i, v, work)
        if length + again + 1 > most:
            return -1
        for k in range(again):
            steps.node[length] = base.order[work.again[k]]
            steps.position[length] = i
            length += 1
        steps.node[length] = v
        steps.position[length] = i
        length += 1
        for k in range(again):
            x = base.order[work.again[k]]
            for j in range(makes.starts[x], makes.starts[x + 1]):
                b = makes.items[j]
                held[b] = 1 if ends[gap[b]] <= i + reach else 0
        for j in range(reads.starts[v], reads.starts[v + 1]):
            b = reads.items[j]
            while ends[gap[b]] <= i:
                gap[b] += 1
            held[b] = 1 - dropped[gap[b]]
        for j in range(makes.starts[v], makes.starts[v + 1]):
            b = makes.items[j]
            held[b] = 1 - dropped[gap[b]]
    return length


@kernel
def closure(graph: GraphTables, base: Gaps, i: int, target: int, work: Unfolding) -> int:
    """Return how many nodes have to run again before `target` at position `i`.

    Their positions are written to `work.again`, ascending.
    """
    reads = graph.reads
    stack = work.stack
    found = 0
    depth = 1
    stack[0] = target
    while depth > 0:
        depth -= 1
        v = stack[depth]
        for j in range(reads.starts[v], reads.starts[v + 1]):
            b = reads.items[j]
            if work.held[b]:
                continue
            p = graph.producer[b]
            if p < 0:
                continue
            if work.stamp[p] == i or base.closing[p] < i:
                continue
            work.stamp[p] = i
            stack[depth] = p
            depth += 1
            work.again[found] = base.position[p]
            found += 1
    sort(work.again, found)
    return found


@kernel
def sort(values: Array, count: int) -> int:
    """Sort the first `count` values, ascending (Shell 1959); return `count`."""
    gap = 1
    while gap < count:
        gap = 3 * gap + 1
    while gap > 1:
        gap = gap // 3
        for i in range(gap, count):
            value = values[i]
            j = i
            while j >= gap and values[j - gap] > value:
                values[j] = values[j - gap]
                j -= gap
            values[j] = value
    return count


@kernel
def cost_of(cost: Array, sequence: Array, length: int) -> int:
    """Return the ticks of `sequence[:length]`, of which each node has its `cost`."""
    total = 0
    for t in range(length):
        total += cost[sequence[t]]
    return int(total)
