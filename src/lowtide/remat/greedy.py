"""Dropping gaps until a sequence fits, and taking back what turns out needless; compiled."""

from __future__ import annotations

from typing import Final

import numpy as np

from lowtide.analysis.graph_tables import GraphTables
from lowtide.records import dataclass
from lowtide.remat.gaps import Gaps
from lowtide.remat.lazy import LONGEST, Steps, Unfolding, cost_of, unfold, unfolding
from lowtide.remat.measure import Liveness, liveness, measure
from lowtide.remat.tables import Problem
from lowtide.search.kernels import Array, FloatArray, Record, kernel

ANY: Final = 1 << 62
CLOSURE: Final = 60
"""The cost of running a node again counts at most so many nodes."""
MOST_AT_ONCE: Final = 12


@dataclass(frozen=True, eq=False, slots=True)
class Candidates(Record):
    """Gaps that can be dropped, at most one per buffer, with the position at which each begins.

    `score` is what dropping it is worth.
    """

    gap: Array
    buffer: Array
    start: Array
    score: FloatArray


@dataclass(frozen=True, eq=False, slots=True)
class Scratch(Record):
    """Arrays with which plans are made, for all orders of a graph.

    `bytes` are those of each step of `steps`. `over[i]` is how many positions before i are above a
    cap. `seen` has a stamp for each node, `stack` nodes to look at.
    """

    steps: Steps
    bytes: Array
    unfolding: Unfolding
    liveness: Liveness
    over: Array
    candidates: Candidates
    seen: Array
    stack: Array


def scratch_of(graph: GraphTables) -> Scratch:
    """Return the arrays for a graph."""
    count, buffers = graph.nodes, graph.buffers
    longest = LONGEST * count + 1
    gap, buffer, start = (np.zeros(buffers, np.int64) for _ in range(3))
    return Scratch(
        steps=Steps(np.zeros(longest, np.int64), np.zeros(longest, np.int64)),
        bytes=np.zeros(longest, np.int64),
        unfolding=unfolding(count, buffers),
        liveness=liveness(buffers),
        over=np.zeros(count + 3, np.int64),
        candidates=Candidates(gap, buffer, start, score=np.zeros(buffers)),
        seen=np.zeros(count, np.int64),
        stack=np.zeros(count + 1, np.int64),
    )


@kernel
def held_at(base: Gaps, dropped: Array, b: int, j: int) -> int:
    """Whether a buffer is held at position `j`, before which some of its gaps begin."""
    k = base.first[b]
    last = base.first[b + 1] - 1
    while k < last and base.ends[k] < j:
        k += 1
    return int(1 - dropped[k])


@kernel
def closure_cost(
    problem: Problem,
    base: Gaps,
    dropped: Array,
    p: int,
    j: int,
    most: int,
    stamp: int,
    scratch: Scratch,
) -> int:
    """Return the ticks of running `p` again before position `j` with what is missing for it.

    No more than `most` nodes are looked at. `scratch.seen` has no `stamp` yet.
    """
    reads = problem.graph.reads
    seen = scratch.seen
    stack = scratch.stack
    total = 0
    depth = 1
    count = 0
    stack[0] = p
    seen[p] = stamp
    while depth > 0:
        depth -= 1
        v = stack[depth]
        total += problem.cost[v]
        count += 1
        if count > most:
            break
        for i in range(reads.starts[v], reads.starts[v + 1]):
            a = reads.items[i]
            q = problem.graph.producer[a]
            if q < 0:
                continue
            if seen[q] == stamp or base.closing[q] < j:
                continue
            if held_at(base, dropped, a, j):
                continue
            seen[q] = stamp
            stack[depth] = q
            depth += 1
    return int(total)


@kernel
def open_gaps(
    graph: GraphTables, base: Gaps, dropped: Array, worst: int, candidates: Candidates
) -> int:
    """List the gaps that can be dropped over position `worst`; return how many there are."""
    total = 0
    for b in range(graph.buffers):
        p = graph.producer[b]
        if graph.size[b] == 0 or p < 0:
            continue
        if base.position[p] >= worst:
            continue
        k = base.first[b]
        last = base.first[b + 1] - 1
        while k < last and base.ends[k] < worst:
            k += 1
        j = base.ends[k]
        if dropped[k] > 0 or j <= worst or j >= graph.nodes or base.closing[p] < j:
            continue
        candidates.gap[total] = k
        candidates.buffer[total] = b
        candidates.start[total] = base.ends[k - 1] if k > base.first[b] else base.position[p]
        total += 1
    return int(total)


@kernel
def gap_behind(base: Gaps, b: int, i: int) -> int:
    """The gap of a buffer that begins at position `i` or holds it."""
    k = base.first[b]
    last = base.first[b + 1] - 1
    while k < last and base.ends[k] <= i:
        k += 1
    return int(k)


@kernel
def is_taken(graph: GraphTables, base: Gaps, dropped: Array, v: int, made: int, i: int) -> int:
    """Whether a result of `v` at position `i` lies over an operand that is not held behind it."""
    pairs = graph.pairs
    for k in range(pairs.starts[v], pairs.starts[v + 1]):
        b = pairs.read[k]
        may = pairs.made[k] == made and graph.live_out[b] == 0
        if may and dropped[gap_behind(base, b, i)] > 0:
            return 1
    return 0


@kernel
def overwritten_gaps(
    graph: GraphTables, base: Gaps, dropped: Array, worst: int, total: int, candidates: Candidates
) -> int:
    """Add the gaps that begin at position `worst`, without which its node could overwrite a buffer.

    There are `total` candidates before; how many there are then is returned.
    """
    pairs = graph.pairs
    v = base.order[worst]
    for i in range(pairs.starts[v], pairs.starts[v + 1]):
        b = pairs.read[i]
        p = graph.producer[b]
        k = gap_behind(base, b, worst)
        j = base.ends[k]
        if p < 0 or graph.live_out[b] or j >= graph.nodes or base.closing[p] < j:
            continue
        if total > 0 and candidates.buffer[total - 1] == b:
            continue
        if is_taken(graph, base, dropped, v, pairs.made[i], worst):
            continue
        candidates.gap[total] = k
        candidates.buffer[total] = b
        candidates.start[total] = worst
        total += 1
    return int(total)


@kernel
def rate_gaps(
    problem: Problem,
    base: Gaps,
    dropped: Array,
    total: int,
    excess: int,
    seed: int,
    scratch: Scratch,
) -> int:
    """Write the score of each candidate: bytes and root of the steps covered, by cost, squared.

    The peak is `excess` bytes above the cap. With a `seed` above 0 costs are blurred. Returns
    `total`.
    """
    graph = problem.graph
    candidates = scratch.candidates
    over = scratch.over
    for v in range(graph.nodes):
        scratch.seen[v] = -1
    for c in range(total):
        b = candidates.buffer[c]
        j = base.ends[candidates.gap[c]]
        p = graph.producer[b]
        spent = float(closure_cost(problem, base, dropped, p, j, CLOSURE, b, scratch) + 1)
        if seed > 0:
            seed = (seed * 1103515245 + 12345) & 2147483647
            spent = spent * (1.0 + float(seed >> 15) / 65536.0)
        covered = max(over[j] - over[candidates.start[c] + 1], 1)
        worth = float(min(2 * graph.size[b], 3 * excess))
        candidates.score[c] = worth * worth * float(covered) / (spent * spent)
    return total


@kernel
def drop_best(
    graph: GraphTables, candidates: Candidates, total: int, excess: int, dropped: Array
) -> int:
    """Drop the gaps of highest score; return how many.

    Those make up for a quarter of `excess`, or are twelve, or all.
    """
    score = candidates.score
    freed = 0
    added = 0
    while added < total and added < MOST_AT_ONCE and 4 * freed < excess:
        best = 0
        for c in range(total):
            if score[c] > score[best]:
                best = c
        score[best] = -1.0
        dropped[candidates.gap[best]] = 1
        freed += graph.size[candidates.buffer[best]]
        added += 1
    return int(added)


@kernel
def count_over(nodes: int, length: int, cap: int, scratch: Scratch) -> int:
    """Fill in `scratch.over`; return the first of the highest steps."""
    over = scratch.over
    worst = 0
    for t in range(length):
        if scratch.bytes[t] > scratch.bytes[worst]:
            worst = t
    for i in range(nodes + 2):
        over[i] = 0
    for t in range(length):
        if scratch.bytes[t] > cap:
            over[scratch.steps.position[t] + 1] = 1
    for i in range(nodes + 1):
        over[i + 1] += over[i]
    return worst


@kernel
def fit(
    problem: Problem,
    base: Gaps,
    dropped: Array,
    cap: int,
    reach: int,
    rounds: int,
    seed: int,
    overwrites: int,
    scratch: Scratch,
) -> int:
    """Drop gaps until the sequence holds at most `cap` bytes; return its length, -1 for none.

    With `overwrites`, those with which a node overwrites what it reads are among them.
    """
    graph = problem.graph
    steps = scratch.steps
    candidates = scratch.candidates
    for _ in range(rounds):
        length = unfold(graph, base, dropped, reach, steps, scratch.unfolding)
        if length < 0:
            return -1
        peak = measure(graph, steps.node, length, ANY, scratch.bytes, scratch.liveness)
        if peak <= cap:
            return length
        worst = count_over(graph.nodes, length, cap, scratch)
        if seed > 0:
            seed = (seed * 69069 + 1) & 2147483647
        at = steps.position[worst]
        total = open_gaps(graph, base, dropped, at, candidates)
        if overwrites and steps.node[worst] == base.order[at]:
            total = overwritten_gaps(graph, base, dropped, at, total, candidates)
        rate_gaps(problem, base, dropped, total, peak - cap, seed, scratch)
        if drop_best(graph, candidates, total, peak - cap, dropped) == 0:
            return -1
    return -1


@kernel
def prune(
    problem: Problem,
    base: Gaps,
    dropped: Array,
    gaps: Array,
    gap_count: int,
    cap: int,
    reach: int,
    scratch: Scratch,
) -> int:
    """Hold the gaps in `gaps` one by one where that is no dearer and fits; return the ticks."""
    graph = problem.graph
    steps = scratch.steps
    length = unfold(graph, base, dropped, reach, steps, scratch.unfolding)
    best = cost_of(problem.cost, steps.node, length)
    for c in range(gap_count):
        k = gaps[c]
        dropped[k] = 1 - dropped[k]
        length = unfold(graph, base, dropped, reach, steps, scratch.unfolding)
        cost = ANY
        if length >= 0:
            cost = cost_of(problem.cost, steps.node, length)
        if cost > best:
            dropped[k] = 1 - dropped[k]
            continue
        if measure(graph, steps.node, length, cap, scratch.bytes, scratch.liveness) > cap:
            dropped[k] = 1 - dropped[k]
            continue
        best = cost
    return int(best)


@kernel
def margins(
    problem: Problem,
    base: Gaps,
    dropped: Array,
    gaps: Array,
    gap_count: int,
    reach: int,
    margin: Array,
    scratch: Scratch,
) -> int:
    """Write how many ticks each gap costs or saves when it alone changes; return the ticks now."""
    graph = problem.graph
    steps = scratch.steps
    length = unfold(graph, base, dropped, reach, steps, scratch.unfolding)
    now = cost_of(problem.cost, steps.node, length)
    for c in range(gap_count):
        k = gaps[c]
        dropped[k] = 1 - dropped[k]
        length = unfold(graph, base, dropped, reach, steps, scratch.unfolding)
        margin[c] = ANY
        if length >= 0:
            margin[c] = cost_of(problem.cost, steps.node, length) - now
        dropped[k] = 1 - dropped[k]
    return int(now)
