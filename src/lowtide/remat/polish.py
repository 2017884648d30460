"""Runs that a sequence can do without; compiled."""

from __future__ import annotations

import numpy as np

from lowtide.records import dataclass
from lowtide.remat.measure import Liveness, measure
from lowtide.remat.tables import Problem
from lowtide.search.kernels import Array, Record, kernel


@dataclass(frozen=True, eq=False, slots=True)
class PolishTrial(Record):
    """Arrays of a search for needless runs.

    `sequence` is the one that is tried. Of each run but the first one of a node, `step` is its
    place in the sequence and `cost` its ticks, -1 once it was tried. Per node, `has_run` is 1
    behind its first run.
    """

    sequence: Array
    step: Array
    cost: Array
    has_run: Array


def trial_of(length: int, nodes: int) -> PolishTrial:
    """Return the arrays for a sequence of so many steps of so many nodes."""
    sequence, step, cost = (np.zeros(length, np.int64) for _ in range(3))
    return PolishTrial(sequence, step, cost, has_run=np.zeros(nodes, np.int64))


@kernel
def list_repeats(problem: Problem, sequence: Array, length: int, trial: PolishTrial) -> int:
    """List the runs of nodes that have run before; return how many there are."""
    for v in range(problem.graph.nodes):
        trial.has_run[v] = 0
    found = 0
    for t in range(length):
        v = sequence[t]
        if trial.has_run[v]:
            trial.step[found] = t
            trial.cost[found] = problem.cost[v]
            found += 1
        trial.has_run[v] = 1
    return found


@kernel
def drop_runs(
    problem: Problem,
    sequence: Array,
    length: int,
    cap: int,
    trial: PolishTrial,
    steps: Array,
    liveness: Liveness,
) -> int:
    """Take out runs that the sequence can spare within `cap` bytes; return its new length.

    The dearest go first; those of equal cost from the last to the first. The first run of a node
    stays. `steps` has room for the bytes of each step.
    """
    cost = trial.cost
    found = list_repeats(problem, sequence, length, trial)
    for _ in range(found):
        best = -1
        for k in range(found):
            if cost[k] < 0:
                continue
            if best < 0 or cost[k] >= cost[best]:
                best = k
        cost[best] = -1
        t = trial.step[best]
        for k in range(t):
            trial.sequence[k] = sequence[k]
        for k in range(t + 1, length):
            trial.sequence[k - 1] = sequence[k]
        if measure(problem.graph, trial.sequence, length - 1, cap, steps, liveness) > cap:
            continue
        for k in range(t, length - 1):
            sequence[k] = sequence[k + 1]
        length -= 1
        for k in range(found):
            if trial.step[k] > t:
                trial.step[k] -= 1
    return length
