"""Kernels: the most bytes that the results of a node take over from operands that die there."""

from __future__ import annotations

import numpy as np

from lowtide.analysis.graph_tables import GraphTables
from lowtide.records import dataclass
from lowtide.search.kernels import Array, Record, kernel

NONE = -1


@dataclass(frozen=True, eq=False, slots=True)
class Matching(Record):
    """Arrays of a search for pairs of operands and results, all per buffer.

    `partner`: the result that an operand is matched with, NONE but during the search. `by`: the
    result from which an operand was reached. `queue`: results to look at.
    """

    partner: Array
    by: Array
    queue: Array


def matching(buffers: int) -> Matching:
    """Return the arrays for a graph of so many buffers."""
    return Matching(
        partner=np.full(buffers, NONE, np.int64),
        by=np.zeros(buffers, np.int64),
        queue=np.zeros(buffers, np.int64),
    )


@kernel
def taken_over(graph: GraphTables, node: int, left: Array, dead: int, matching: Matching) -> int:
    """The bytes taken over in the step of a node.

    An operand can be taken over where it is not live-out and `left` says `dead` of it.
    """
    pairs = graph.pairs
    first = pairs.starts[node]
    stop = pairs.starts[node + 1]
    if first == stop:
        return 0
    if pairs.has_one_made[node] == 0:
        return matched(graph, node, left, dead, matching)
    for i in range(first, stop):
        operand = pairs.read[i]
        if left[operand] == dead and graph.live_out[operand] == 0:
            return int(graph.size[operand])
    return 0


@kernel
def matched(graph: GraphTables, node: int, left: Array, dead: int, matching: Matching) -> int:
    """The bytes of a largest matching of operands that die and results.

    Buffers that are connected by pairs have equal bytes, so most pairs are most bytes: augmenting
    paths, breadth first (Berge 1957).
    """
    pairs = graph.pairs
    partner = matching.partner
    by = matching.by
    queue = matching.queue
    first = pairs.starts[node]
    stop = pairs.starts[node + 1]
    total = 0
    for k in range(graph.makes.starts[node], graph.makes.starts[node + 1]):
        root = graph.makes.items[k]
        head = 0
        tail = 1
        queue[0] = root
        found = NONE
        for i in range(first, stop):
            by[pairs.read[i]] = NONE
        while head < tail and found < 0:
            made = queue[head]
            head += 1
            for i in range(first, stop):
                operand = pairs.read[i]
                if pairs.made[i] != made or by[operand] >= 0:
                    continue
                if left[operand] != dead or graph.live_out[operand] != 0:
                    continue
                by[operand] = made
                if partner[operand] < 0:
                    found = operand
                    break
                queue[tail] = partner[operand]
                tail += 1
        if found >= 0:
            total += graph.size[root]
        while found >= 0:
            made = by[found]
            before = NONE
            for i in range(first, stop):
                operand = pairs.read[i]
                if partner[operand] == made:
                    before = operand
            partner[found] = made
            found = before if made != root else NONE
    for i in range(first, stop):
        partner[pairs.read[i]] = NONE
    return total
