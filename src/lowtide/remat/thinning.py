"""Runs that a sequence can do without go; compiled.

A run that goes leaves its step empty until all have been tried. The bytes of steps change where
what it makes would live on from its use before, and where what only this run reads lives no longer
than to that; in the steps of these uses something may be taken over, or not any more. So each run
is tried in the time of the steps back to those uses, whatever the length of the sequence.

step           a   b   c   a   d          d reads what a makes
a is held      #   #       #   #

thinned        a   b   c       d
a is held      #   #   #   #   #
"""

from __future__ import annotations

from lowtide.analysis.graph_tables import GraphTables
from lowtide.analysis.taken_over import taken_over
from lowtide.remat.measure import NO_CAP, measure
from lowtide.remat.mending import Mending, Uses, list_uses, lives_to, use_from
from lowtide.remat.tables import Problem
from lowtide.search.kernels import Array, kernel


@kernel
def note_change(uses: Uses, b: int, t: int, size: int, found: int, m: Mending) -> int:
    """Note that so many bytes more are held from the use of a buffer before step `t` on.

    Returns how many changes are noted: one more than `found`.
    """
    m.again[found] = uses.steps.items[use_from(uses, b, t) - 1]
    m.stack[found] = size
    return found + 1


@kernel
def list_changes(problem: Problem, v: int, t: int, m: Mending) -> int:
    """List what else is held, and what is not any more, without the run of `v` at step `t`."""
    graph = problem.graph
    uses = m.uses
    found = 0
    for i in range(graph.reads.starts[v], graph.reads.starts[v + 1]):
        b = graph.reads.items[i]
        if lives_to(graph, uses, b, t + 1) == 0 and use_from(uses, b, t) > uses.steps.starts[b]:
            found = note_change(uses, b, t, -graph.size[b], found, m)
    for i in range(graph.makes.starts[v], graph.makes.starts[v + 1]):
        b = graph.makes.items[i]
        if lives_to(graph, uses, b, t + 1):
            found = note_change(uses, b, t, graph.size[b], found, m)
    return found


@kernel
def held_without(s: int, found: int, m: Mending) -> int:
    """Return the bytes of step `s` with the changes that begin before it."""
    held = m.bytes[s]
    for k in range(found):
        if m.again[k] < s:
            held += m.stack[k]
    return int(held)


@kernel
def begins_in(s: int, found: int, m: Mending) -> int:
    """Whether a change begins in step `s`."""
    for k in range(found):
        if m.again[k] == s:
            return 1
    return 0


@kernel
def may_go(problem: Problem, sequence: Array, t: int, cap: int, m: Mending) -> int:
    """How many changes it makes to do without the run at step `t`, listed; -1 if it cannot go.

    Steps in which changes begin are left out: something may be taken over there or not any more.
    So this is no proof that the sequence is within `cap` bytes without it.
    """
    found = list_changes(problem, sequence[t], t, m)
    begin = t
    for k in range(found):
        if m.stack[k] > 0:
            begin = min(begin, m.again[k])
    for s in range(begin + 1, t):
        if held_without(s, found, m) > cap and begins_in(s, found, m) == 0:
            return -1
    return found


@kernel
def taken_at(graph: GraphTables, v: int, s: int, m: Mending) -> int:
    """Return the bytes that the run of `v` at step `s` takes over."""
    if graph.pairs.starts[v] == graph.pairs.starts[v + 1]:
        return 0
    dies = m.liveness.dies
    for i in range(graph.reads.starts[v], graph.reads.starts[v + 1]):
        b = graph.reads.items[i]
        dies[b] = 1 - lives_to(graph, m.uses, b, s + 1)
    return int(taken_over(graph, v, dies, 1, m.liveness.matching))


@kernel
def forget_uses(graph: GraphTables, v: int, t: int, uses: Uses) -> int:
    """Write the uses before step `t` over those by the run of `v` in it; `next` has their numbers.

    As `v` has run before, there are some.
    """
    for k in range(2):
        rows = graph.makes if k else graph.reads
        for i in range(rows.starts[v], rows.starts[v + 1]):
            b = rows.items[i]
            first = use_from(uses, b, t)
            uses.next[b] = first
            for j in range(first, use_from(uses, b, t + 1)):
                uses.steps.items[j] = uses.steps.items[first - 1]
                uses.made[j] = uses.made[first - 1]
    return 0


@kernel
def restore_uses(graph: GraphTables, v: int, t: int, uses: Uses) -> int:
    """Write back what was written over."""
    for k in range(2):
        rows = graph.makes if k else graph.reads
        for i in range(rows.starts[v], rows.starts[v + 1]):
            b = rows.items[i]
            for j in range(uses.next[b], use_from(uses, b, t)):
                uses.steps.items[j] = t
                uses.made[j] = k
    return 0


@kernel
def goes(problem: Problem, sequence: Array, t: int, cap: int, m: Mending) -> int:
    """Take out the run at step `t` if the rest is within `cap` bytes; whether it is.

    Steps that are empty hold no bytes: -`NO_CAP`.
    """
    graph = problem.graph
    v = sequence[t]
    found = may_go(problem, sequence, t, cap, m)
    if found < 0:
        return 0
    for k in range(found):
        m.over[k] = taken_at(graph, sequence[m.again[k]], m.again[k], m)
    forget_uses(graph, v, t, m.uses)
    begin = t
    fits = 1
    for k in range(found):
        s = m.again[k]
        begin = min(begin, s)
        m.over[k] -= taken_at(graph, sequence[s], s, m)
        if held_without(s, found, m) + m.over[k] > cap:
            fits = 0
        for i in range(k):
            if m.again[i] == s:
                m.over[k] = 0
    if fits == 0:
        restore_uses(graph, v, t, m.uses)
        return 0
    for s in range(begin + 1, t):
        m.bytes[s] = held_without(s, found, m)
    for k in range(found):
        m.bytes[m.again[k]] += m.over[k]
    m.bytes[t] = -NO_CAP
    return 1


@kernel
def list_runs(problem: Problem, sequence: Array, length: int, seed: int, m: Mending) -> int:
    """List the runs of nodes that have run before, and what they are worth; return how many.

    With a `seed` above 0 ticks are blurred.
    """
    found = 0
    for t in range(length):
        v = sequence[t]
        if m.uses.first[v] == t:
            continue
        m.run[found] = t
        worth = float(problem.cost[v])
        if seed > 0:
            seed = (seed * 1103515245 + 12345) & 2147483647
            worth = worth * (1.0 + float(seed >> 15) / 65536.0)
        m.worth[found] = worth
        found += 1
    return found


@kernel
def thin(problem: Problem, sequence: Array, length: int, cap: int, seed: int, m: Mending) -> int:
    """Take out runs that a sequence can spare within `cap` bytes; return its new length.

    The dearest go first; with a `seed` above 0, about so. The first run of a node stays. Nothing
    goes from a sequence that is above `cap`, or of more uses than there is room for.
    """
    peak = measure(problem.graph, sequence, length, NO_CAP, m.bytes, m.liveness)
    if peak > cap or list_uses(problem, sequence, length, m.uses) < 0:
        return length
    found = list_runs(problem, sequence, length, seed, m)
    for _ in range(found):
        best = 0
        for k in range(found):
            if m.worth[k] >= m.worth[best]:
                best = k
        m.worth[best] = -1.0
        goes(problem, sequence, m.run[best], cap, m)
    kept = 0
    for t in range(length):
        if m.bytes[t] >= 0:
            sequence[kept] = sequence[t]
            kept += 1
    return kept
