"""Branch and bound on the order of pairs of nodes, for an order within a target."""

from __future__ import annotations

from enum import Enum
from typing import Final

import numpy as np

from lowtide.analysis.graph_tables import GraphTables, with_edges
from lowtide.records import dataclass
from lowtide.scheduling.cuts import SMALLEST
from lowtide.scheduling.divide import Divided, Workbench, divide
from lowtide.scheduling.proof import SPLIT, Case
from lowtide.scheduling.propagation import OPEN, Narrowed, PropagationWork, narrowed, unnarrowed
from lowtide.search.kernels import Array

SHARE: Final = 0.985
"""Nodes whose step is above this share of the target are looked at."""

STEPS: Final = 6
"""The highest steps at which a pair to branch on is sought."""

PRICED: Final = 32
"""Nodes on the wrong side of a step that are looked at, those with most bytes."""

CANDIDATES: Final = 6
"""Of these, how many are looked at from both ends."""

ROUNDS: Final = 60
MOST_ROUNDS: Final = 1 << 20
LARGE: Final = 1000
"""Nodes of a graph in which orders are looked for before all that is forced is known."""


class Answer(Enum):
    """The outcomes of a search."""

    FOUND = "found"
    NONE = "none"
    OPEN = "open"


@dataclass(frozen=True, eq=False, slots=True)
class BranchResult:
    """An order within the target where one was found; all cases where there is none."""

    answer: Answer
    order: Array | None
    cases: tuple[Case, ...]


def branch(
    tables: GraphTables, target: int, near: Array, work: PropagationWork, nodes: int
) -> BranchResult:
    """Look for an order with all steps up to `target`, starting close to `near`.

    Ends after so many `nodes` of the tree, or when the work is spent.
    """
    cases: list[Case] = []
    waiting: list[tuple[int, int, int, GraphTables, Array]] = [(-1, -1, -1, tables, near)]
    while waiting:
        if nodes <= 0:
            return BranchResult(Answer.OPEN, None, ())
        nodes -= 1
        parent, first, second, here, close = waiting.pop()
        state, tried = _explored(unnarrowed(here, close), target, work)
        if tried is not None and tried.peak <= target:
            return BranchResult(Answer.FOUND, tried.order, ())
        if state.closed_at != OPEN:
            cases.append(Case(parent, first, second, state.forced, state.closed_at))
            continue
        if tried is None:
            return BranchResult(Answer.OPEN, None, ())
        cases.append(Case(parent, first, second, state.forced, SPLIT))
        u, v = _pair(state, tried.order, target)
        for x, y in ((u, v), (v, u)):
            edge = np.array([x]), np.array([y])
            child = with_edges(state.bench.tables, *edge)
            waiting.append((len(cases) - 1, x, y, child, tried.order))
    return BranchResult(Answer.NONE, None, tuple(cases))


def _explored(
    state: Narrowed, target: int, work: PropagationWork
) -> tuple[Narrowed, Divided | None]:
    """Narrow a case, and look for an order in what is left; None where it is closed, or work ends.

    Rounds are long in a large graph: an order is looked for after the first one too.
    """
    steps = (1, MOST_ROUNDS) if state.bench.tables.nodes >= LARGE else (MOST_ROUNDS,)
    tried = None
    for rounds in steps:
        state = narrowed(state, target, SHARE, work, rounds)
        if state.closed_at != OPEN or not state.has_work:
            return state, None
        tried = divide(state.bench, state.order, target, ROUNDS, passed=work.passed)
        if tried.peak <= target or state.is_complete:
            break
    return state, tried


def _pair(state: Narrowed, order: Array, target: int) -> tuple[int, int]:
    """Two nodes that may run in either order; a bound rises most whichever runs first."""
    bench = state.bench
    profile = bench.stretches.profile(order)
    high = np.flatnonzero(profile > target)
    best: tuple[int, int] | None = None
    best_gain = (-1, -1)
    for place in high[np.argsort(-profile[high], kind="stable")][:STEPS].tolist():
        node = int(order[place])
        for other in _candidates(bench, order, place, target):
            gain = _gain(bench, node, other, target)
            if gain > best_gain:
                best, best_gain = (other, node), gain
        if best_gain[0] > target:
            break
    return best if best is not None else _any_pair(bench, order)


def _candidates(bench: Workbench, order: Array, place: int, target: int) -> list[int]:
    """Nodes on the wrong side of a step for its least state, those that cost most there first."""
    count = len(order)
    has_run = np.zeros(count, bool)
    has_run[order[:place]] = True
    bench.cuts.least(int(order[place]))
    undecided = bench.cuts.undecided
    wrong = np.flatnonzero(undecided & (has_run != (bench.cuts.where[:count] == SMALLEST)))
    wrong = wrong[np.argsort(-bench.touched[wrong], kind="stable")][:PRICED]
    asked = np.zeros(count, np.int64)
    asked[wrong] = 1
    _, costs = bench.cuts.prices(int(order[place]), asked, target)
    dearest: list[int] = wrong[np.argsort(-costs[wrong], kind="stable")].tolist()
    return dearest[:CANDIDATES]


def _gain(bench: Workbench, node: int, other: int, target: int) -> tuple[int, int]:
    """The bound on the step of either node, in the two orders that they may have: less, more."""
    first_a, second_a = _if_before(bench, node, other, target)
    first_b, second_b = _if_before(bench, other, node, target)
    bounds = max(first_a, second_b), max(second_a, first_b)
    return min(bounds), max(bounds)


def _if_before(bench: Workbench, node: int, other: int, target: int) -> tuple[int, int]:
    """The least bytes of the step of a node where another one comes before it, and behind it."""
    asked = np.zeros(bench.tables.nodes, np.int64)
    asked[other] = 1
    value, costs = bench.cuts.prices(node, asked, target)
    cost = int(costs[other])
    inside = bench.cuts.where[other] == SMALLEST
    return (value, value + cost) if inside else (value + cost, value)


def _any_pair(bench: Workbench, order: Array) -> tuple[int, int]:
    """Two nodes that may run in either order, one at the highest step for which there is one."""
    profile = bench.stretches.profile(order)
    for place in np.argsort(-profile, kind="stable").tolist():
        node = int(order[place])
        bench.cuts.least(node)
        undecided = np.flatnonzero(bench.cuts.undecided)
        if len(undecided):
            place_of = np.empty(len(order), np.int64)
            place_of[order] = np.arange(len(order))
            distance = np.abs(place_of[undecided] - place)
            return int(undecided[np.argmin(distance)]), node
    raise AssertionError("an order that leaves no choice is either within the target or refuted")
