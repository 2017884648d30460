"""Instructions that run again compute the same, in what the memory graph says at least."""

from random import Random

import numpy as np
import pytest
from tests.random_modules import MEMORY, Recipe, random_module
from tests.remat.replay import replay

from lowtide import compiler
from lowtide.budgeting.bounds import ModuleBounds
from lowtide.budgeting.graphs import BudgetGraph, BudgetGraphs, budget_graphs
from lowtide.budgeting.rewriting import with_sequences
from lowtide.checking import check_plan
from lowtide.evaluator import evaluate, value_leaves
from lowtide.ir import Computation, Module
from lowtide.search.effort import Effort, SearchOptions
from lowtide.testing.check_pass import seeded_arguments
from lowtide.verifier import verify

FLAT = Recipe(
    ("elementwise", "data movement", "indexing", "tuples", "in place"),
    max_instructions=20,
    control_dependencies=True,
    shared_results=True,
)

Sequences = dict[Computation, tuple[int, ...]]


def random_sequence(graph: BudgetGraph, random: Random) -> tuple[int, ...]:
    """The order of the schedule, with nodes in between that run again where they may."""
    control = graph.found.graph.control.rows()
    sequence: list[int] = []
    closed: set[int] = set(graph.once)
    for node in graph.program(graph.found.order):
        again = [x for x in dict.fromkeys(sequence) if x not in closed]
        sequence += random.choices(again, k=random.randint(0, 2)) if again else []
        sequence.append(node)
        closed.update([x for part in graph.nodes((node,)) for x in control[part]])
    return tuple(sequence)


def graph_bytes(graphs: BudgetGraphs, sequences: Sequences) -> int:
    """What the module needs in these sequences by its graphs, worked out by replaying them."""
    peaks: list[int] = []
    totals = dict.fromkeys(sequences, 0.0)
    for graph in graphs.graphs:
        memory = graph.holding(peaks, totals)
        peaks.append(replay(memory, graph.nodes(sequences[graph.computation])).peak_bytes)
    return peaks[-1] - graphs.entry.state_bytes


def extra_seconds(graphs: BudgetGraphs, sequences: Sequences) -> float:
    """The time of the sequences beyond that of the schedule."""
    totals: list[dict[Computation, float]] = [{}, {}]
    for graph in graphs.graphs:
        computation = graph.computation
        for found, sequence in zip(
            totals, (graph.program(graph.found.order), sequences[computation]), strict=True
        ):
            seconds = graph.times.with_callees(found)
            found[computation] = float(seconds[list(sequence)].sum())
    before, after = [found[graphs.entry.computation] for found in totals]
    return after - before


def same_bits(before: Module, after: Module) -> bool:
    results = [evaluate(x, seeded_arguments(before, 1)) for x in (before, after)]
    pairs = zip(*[value_leaves(x) for x in results], strict=True)
    return all(x is y or x.tobytes() == y.tobytes() for x, y in pairs if isinstance(x, np.ndarray))


@pytest.mark.parametrize("recipe", [MEMORY, FLAT])
def test_random_modules_with_random_sequences(recipe: Recipe) -> None:
    """Plans are right, results equal, and no bound is above what a plan needs."""
    runs, more = 0, 0
    for seed in range(40):
        module = random_module(seed, recipe)
        scheduled = compiler.scheduled(module, compiler.PlanOptions("input"))
        graphs = budget_graphs(scheduled)
        random = Random(seed)
        sequences = {x.computation: random_sequence(x, random) for x in graphs.graphs}
        changed = with_sequences(scheduled, graphs.flows, sequences)
        verify(changed)
        plan = compiler.plan(changed, compiler.PlanOptions(search=SearchOptions(Effort.FAST)))
        live = plan.report.ladder.live_bytes
        assert not check_plan(plan.module, plan.assignment)
        assert same_bits(module, plan.module), seed
        assert not graphs.is_exact or graph_bytes(graphs, sequences) <= live * 1.25
        bound = ModuleBounds(graphs, Effort.FAST).at(live)
        assert bound.extra_seconds <= extra_seconds(graphs, sequences) + 1e-12, seed
        runs += scheduled.instruction_count
        more += changed.instruction_count - scheduled.instruction_count
    assert more > runs // 8
