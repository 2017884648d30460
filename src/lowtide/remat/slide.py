"""Orders in which bytes are held for fewer steps, by moving one node at a time; compiled.

A peak does not tell how long memory is full, and recomputation pays for each such stretch.
"""

from __future__ import annotations

import numpy as np

from lowtide.analysis.graph_tables import Rows, rows_of
from lowtide.remat.tables import Int64Array, Problem, RematTables
from lowtide.search.kernels import Array, kernel


@kernel
def earliest(problem: Problem, place: Array, v: int) -> int:
    """Return the first place at which `v` may stand, the other nodes where they are."""
    reads = problem.graph.reads
    waits = problem.waits
    first = 0
    for i in range(waits.starts[v], waits.starts[v + 1]):
        first = max(first, place[waits.items[i]] + 1)
    for i in range(reads.starts[v], reads.starts[v + 1]):
        p = problem.graph.producer[reads.items[i]]
        if p >= 0:
            first = max(first, place[p] + 1)
    return int(first)


@kernel
def last_other_use(problem: Problem, place: Array, b: int, v: int) -> int:
    """Return the place of the last use of a buffer but by `v`; its producer's if there is none."""
    graph = problem.graph
    users = graph.users
    if graph.live_out[b]:
        return graph.nodes
    p = graph.producer[b]
    last = place[p] if p >= 0 else -1
    for i in range(users.starts[b], users.starts[b + 1]):
        if users.items[i] != v:
            last = max(last, place[users.items[i]])
    return int(last)


@kernel
def latest(problem: Problem, waiting: Rows, place: Array, v: int) -> int:
    """Return the last place at which `v` may stand, the other nodes where they are.

    `waiting`: per node those that wait for it by control.
    """
    makes = problem.graph.makes
    users = problem.graph.users
    last = problem.graph.nodes - 1
    for i in range(waiting.starts[v], waiting.starts[v + 1]):
        last = min(last, place[waiting.items[i]] - 1)
    for i in range(makes.starts[v], makes.starts[v + 1]):
        b = makes.items[i]
        for j in range(users.starts[b], users.starts[b + 1]):
            last = min(last, place[users.items[j]] - 1)
    return int(last)


@kernel
def target(problem: Problem, waiting: Rows, place: Array, weight: Array, v: int) -> int:
    """Return the place at which `v` makes for the fewest bytes held, weighted by step.

    `weight[i]`: the sum of the weights of steps before `i`.
    """
    graph = problem.graph
    makes = graph.makes
    reads = graph.reads
    now = place[v]
    low = earliest(problem, place, v)
    high = latest(problem, waiting, place, v)
    made = 0
    for i in range(makes.starts[v], makes.starts[v + 1]):
        made += graph.size[makes.items[i]]
    begin = reads.starts[v]
    stop = reads.starts[v + 1]
    best = now
    least = 0
    for k in range(stop - begin + 2):
        at = low
        if k == 1:
            at = high
        if k > 1:
            at = last_other_use(problem, place, reads.items[begin + k - 2], v)
        if at < low or at > high or at == now:
            continue
        change = made * (weight[now] - weight[at])
        for i in range(begin, stop):
            q = last_other_use(problem, place, reads.items[i], v)
            size = graph.size[reads.items[i]]
            change += size * (weight[max(at, q)] - weight[max(now, q)])
        if change < least:
            least = change
            best = at
    return int(best)


@kernel
def slide(
    problem: Problem, waiting: Rows, order: Array, place: Array, weight: Array, passes: int
) -> int:
    """Move nodes of an order, in turn, to where they hold least; return how many moves."""
    count = problem.graph.nodes
    moves = 0
    for r in range(passes):
        before = moves
        for k in range(count):
            v = order[k] if r % 2 else order[count - 1 - k]
            now = place[v]
            best = target(problem, waiting, place, weight, v)
            if best == now:
                continue
            moves += 1
            for i in range(now, best):
                order[i] = order[i + 1]
                place[order[i]] = i
            for i in range(now, best, -1):
                order[i] = order[i - 1]
                place[order[i]] = i
            order[best] = v
            place[v] = best
        if moves == before:
            break
    return int(moves)


def settled(tables: RematTables, order: Int64Array, weight: Int64Array, passes: int) -> Int64Array:
    """Return an order near a given one that holds fewer bytes times the weight of each step."""
    count = tables.node_count
    waits = tables.problem.waits
    waiting = rows_of(waits.items, waits.numbers(), count)
    result = order.copy()
    place = np.empty(count, np.int64)
    place[result] = np.arange(count)
    sums = np.concatenate([[0], np.cumsum(weight), [0]]).astype(np.int64)
    sums[-1] = sums[-2]
    slide(tables.problem, waiting, result, place, sums, passes)
    return result
