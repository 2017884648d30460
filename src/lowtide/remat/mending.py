"""Sequences that are made to fit: nodes run again where too much lives; compiled.

A run may stand at any place behind the first one of its node: what it makes is held from there for
those that read it before the next run, and what the run before made no longer than for those before
it. So a value that lives over a step that is too large needs only one more run, ahead of its next
use, with runs of what is not there any more to make it of.

step           a   b   c   d          b and d read what a makes, c takes too much
a is held      #   #   #   #

mended         a   b   c   a   d
a is held      #   #       #   #
"""

from __future__ import annotations

from typing import Final

import numpy as np

from lowtide.analysis.graph_tables import GraphTables, Rows
from lowtide.records import dataclass
from lowtide.remat.lazy import LONGEST, sort
from lowtide.remat.measure import NO_CAP, Liveness, liveness, measure
from lowtide.remat.tables import Problem
from lowtide.search.kernels import Array, FloatArray, Record, kernel

MOST_AGAIN: Final = 60
"""At most so many nodes run again for one value."""
MOST_AT_ONCE: Final = 12


@dataclass(frozen=True, eq=False, slots=True)
class Uses(Record):
    """Uses of each buffer in a sequence: the steps that make or read it, ascending, in `steps`.

    In `made`, 1 stands for a step that makes it. Per node, `first` is the step of its first run,
    `closing` the last one before which it may run again, -1 for a node that never may. There is
    room for `most` uses; `next` has per buffer where the next one is written.
    """

    steps: Rows
    made: Array
    first: Array
    closing: Array
    next: Array
    most: int


@dataclass(frozen=True, eq=False, slots=True)
class Mending(Record):
    """Arrays with which sequences are mended.

    `bytes` are those of each step, and `over[i]` is how many steps before i are too large. `stamp`
    marks the nodes to run again, `again` lists their first steps, `stack` nodes to look at. Per
    buffer, `score` is what it is worth to make it again, `next_use` the step ahead of which;
    `chosen` are buffers.

    Where a sequence is thinned, `run` has the steps of the runs that may go and `worth` the ticks.
    The changes that one makes have a step in `again`, bytes in `stack`, and in `over` the bytes
    taken over in that step that would not be any more.
    """

    uses: Uses
    bytes: Array
    liveness: Liveness
    stamp: Array
    again: Array
    stack: Array
    run: Array
    worth: FloatArray
    over: Array
    score: FloatArray
    next_use: Array
    chosen: Array


def mending(graph: GraphTables) -> Mending:
    """Return the arrays for a graph."""
    nodes, buffers, longest = graph.nodes, graph.buffers, longest_room(graph)
    most = LONGEST * (len(graph.reads.items) + len(graph.makes.items))
    return Mending(
        uses=Uses(
            steps=Rows(_zeros(buffers + 1), _zeros(most)),
            made=_zeros(most),
            first=_zeros(nodes),
            closing=_zeros(nodes),
            next=_zeros(buffers),
            most=most,
        ),
        bytes=_zeros(longest),
        liveness=liveness(buffers),
        stamp=_zeros(nodes),
        again=_zeros(max(nodes, buffers) + 1),
        stack=_zeros(max(nodes, buffers) + 1),
        run=_zeros(longest),
        worth=np.zeros(longest),
        over=_zeros(longest + 1),
        score=np.zeros(buffers),
        next_use=_zeros(buffers),
        chosen=_zeros(MOST_AT_ONCE),
    )


def _zeros(count: int) -> Array:
    return np.zeros(count, np.int64)


def longest_room(graph: GraphTables) -> int:
    """Return how many steps a sequence may have while it is mended."""
    return LONGEST * graph.nodes + MOST_AGAIN * MOST_AT_ONCE


@kernel
def list_uses(problem: Problem, sequence: Array, length: int, uses: Uses) -> int:
    """Fill in the uses of a sequence; return how many there are, -1 if there is no room."""
    graph = problem.graph
    makes = graph.makes
    reads = graph.reads
    starts = uses.steps.starts
    next = uses.next
    for b in range(graph.buffers + 1):
        starts[b] = 0
    for v in range(graph.nodes):
        uses.first[v] = -1
        uses.closing[v] = -1 if problem.once[v] else length
    for t in range(length):
        v = sequence[t]
        if uses.first[v] < 0:
            uses.first[v] = t
            for i in range(problem.waits.starts[v], problem.waits.starts[v + 1]):
                w = problem.waits.items[i]
                uses.closing[w] = min(uses.closing[w], t)
        for i in range(reads.starts[v], reads.starts[v + 1]):
            starts[reads.items[i] + 1] += 1
        for i in range(makes.starts[v], makes.starts[v + 1]):
            starts[makes.items[i] + 1] += 1
    for b in range(graph.buffers):
        starts[b + 1] += starts[b]
        next[b] = starts[b]
    if starts[graph.buffers] > uses.most:
        return -1
    for t in range(length):
        v = sequence[t]
        for i in range(reads.starts[v], reads.starts[v + 1]):
            b = reads.items[i]
            uses.steps.items[next[b]] = t
            uses.made[next[b]] = 0
            next[b] += 1
        for i in range(makes.starts[v], makes.starts[v + 1]):
            b = makes.items[i]
            uses.steps.items[next[b]] = t
            uses.made[next[b]] = 1
            next[b] += 1
    return int(starts[graph.buffers])


@kernel
def use_from(uses: Uses, b: int, t: int) -> int:
    """Return the number of the first use of a buffer at step `t` or behind it; its end if none."""
    low = uses.steps.starts[b]
    high = uses.steps.starts[b + 1]
    while low < high:
        middle = (low + high) // 2
        if uses.steps.items[middle] < t:
            low = middle + 1
        else:
            high = middle
    return int(low)


@kernel
def lives_to(graph: GraphTables, uses: Uses, b: int, t: int) -> int:
    """Whether a buffer is held when step `t` begins."""
    k = use_from(uses, b, t)
    if k == uses.steps.starts[b + 1]:
        return int(graph.live_out[b])
    return int(1 - uses.made[k])


@kernel
def list_again(problem: Problem, p: int, t: int, mark: int, m: Mending) -> int:
    """List in `again` what has to run for `p` to run again at step `t`; return how many nodes.

    What lives anyway is not made again, and what may not run again stays. 0: they are too many.
    """
    graph = problem.graph
    reads = graph.reads
    uses = m.uses
    found = 0
    depth = 1
    m.stack[0] = p
    m.stamp[p] = mark
    while depth > 0:
        depth -= 1
        v = m.stack[depth]
        m.again[found] = uses.first[v]
        found += 1
        if found > MOST_AGAIN:
            return 0
        for i in range(reads.starts[v], reads.starts[v + 1]):
            b = reads.items[i]
            q = graph.producer[b]
            if q < 0:
                continue
            if m.stamp[q] == mark or uses.closing[q] < t:
                continue
            if lives_to(graph, uses, b, t):
                continue
            m.stamp[q] = mark
            m.stack[depth] = q
            depth += 1
    return found


@kernel
def is_taken_over(graph: GraphTables, v: int, b: int) -> int:
    """Whether a result of `v` might lie over a buffer that it reads."""
    for i in range(graph.pairs.starts[v], graph.pairs.starts[v + 1]):
        if graph.pairs.read[i] == b:
            return 1
    return 0


@kernel
def next_use_over(
    problem: Problem, sequence: Array, length: int, b: int, worst: int, m: Mending
) -> int:
    """Return the step of the next use of a buffer that lives over step `worst`, -1 if none may.

    The end of the sequence is one of what lives to it.
    """
    graph = problem.graph
    uses = m.uses
    p = graph.producer[b]
    if p < 0 or graph.size[b] == 0:
        return -1
    k = use_from(uses, b, worst)
    if k == uses.steps.starts[b]:
        return -1
    stop = uses.steps.starts[b + 1]
    if k < stop and uses.steps.items[k] == worst:
        if uses.made[k] or is_taken_over(graph, sequence[worst], b) == 0:
            return -1
        k += 1
    if k == stop:
        if graph.live_out[b] and uses.closing[p] >= length:
            return length
        return -1
    t = uses.steps.items[k]
    if uses.made[k] or uses.closing[p] < t:
        return -1
    return int(t)


@kernel
def rate_over(
    problem: Problem, sequence: Array, length: int, worst: int, excess: int, seed: int, m: Mending
) -> int:
    """Write what it is worth to make buffers over step `worst` again ahead of their next uses.

    That is by bytes and root of the steps covered, by ticks, squared; -1 where it may not be. With
    a `seed` above 0 ticks are blurred. Returns how many may be made again.
    """
    graph = problem.graph
    uses = m.uses
    found = 0
    for v in range(graph.nodes):
        m.stamp[v] = 0
    for b in range(graph.buffers):
        m.score[b] = -1.0
        t = next_use_over(problem, sequence, length, b, worst, m)
        m.next_use[b] = t
        if t < 0:
            continue
        count = list_again(problem, graph.producer[b], t, b + 1, m)
        if count == 0:
            continue
        spent = 1.0
        for i in range(count):
            spent += float(problem.cost[sequence[m.again[i]]])
        if seed > 0:
            seed = (seed * 1103515245 + 12345) & 2147483647
            spent = spent * (1.0 + float(seed >> 15) / 65536.0)
        begin = uses.steps.items[use_from(uses, b, worst) - 1]
        covered = float(max(1, m.over[t] - m.over[begin + 1]))
        worth = float(min(2 * graph.size[b], 3 * excess))
        m.score[b] = worth * worth * covered / (spent * spent)
        found += 1
    return found


@kernel
def choose(graph: GraphTables, total: int, excess: int, m: Mending) -> int:
    """List the buffers that are worth most in `stack`, latest next use first; return how many.

    Those make up for a quarter of `excess`, or are twelve, or all of `total`.
    """
    freed = 0
    count = 0
    while count < total and count < MOST_AT_ONCE and 4 * freed < excess:
        best = 0
        for b in range(graph.buffers):
            if m.score[b] > m.score[best]:
                best = b
        m.score[best] = -1.0
        freed += graph.size[best]
        place = count
        while place > 0 and m.next_use[m.chosen[place - 1]] < m.next_use[best]:
            m.chosen[place] = m.chosen[place - 1]
            place -= 1
        m.chosen[place] = best
        count += 1
    return count


@kernel
def put_in(problem: Problem, sequence: Array, length: int, b: int, mark: int, m: Mending) -> int:
    """Have a buffer made again ahead of its next use; return the new length.

    No step up to that use has moved since uses were listed.
    """
    t = m.next_use[b]
    count = list_again(problem, problem.graph.producer[b], t, mark, m)
    sort(m.again, count)
    for i in range(count):
        m.again[i] = sequence[m.again[i]]
    for k in range(length - 1, t - 1, -1):
        sequence[k + count] = sequence[k]
    for i in range(count):
        sequence[t + i] = m.again[i]
    return length + count


@kernel
def worst_step(length: int, cap: int, m: Mending) -> int:
    """Return the first of the largest steps; fill in how many are above a cap before each."""
    worst = 0
    m.over[0] = 0
    for t in range(length):
        if m.bytes[t] > m.bytes[worst]:
            worst = t
        m.over[t + 1] = m.over[t] + (1 if m.bytes[t] > cap else 0)
    return worst


@kernel
def mend(
    problem: Problem, sequence: Array, length: int, cap: int, rounds: int, seed: int, m: Mending
) -> int:
    """Put runs into a sequence until it holds at most `cap` bytes; return its length, -1 for none.

    With a `seed` above 0, what a run costs is blurred at random.
    """
    graph = problem.graph
    most = LONGEST * graph.nodes
    for _ in range(rounds):
        peak = measure(graph, sequence, length, NO_CAP, m.bytes, m.liveness)
        if peak <= cap:
            return length
        if length > most or list_uses(problem, sequence, length, m.uses) < 0:
            return -1
        worst = worst_step(length, cap, m)
        if seed > 0:
            seed = (seed * 69069 + 1) & 2147483647
        total = rate_over(problem, sequence, length, worst, peak - cap, seed, m)
        count = choose(graph, total, peak - cap, m)
        if count == 0:
            return -1
        for i in range(count):
            mark = graph.buffers + 1 + i
            length = put_in(problem, sequence, length, m.chosen[i], mark, m)
    return -1
