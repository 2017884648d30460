"""What runs again is read from then on, and each order that a graph allows can be written."""

from collections.abc import Mapping, Sequence
from random import Random

import pytest
from tests.budgeting.test_rewriting import FLAT, random_sequence
from tests.random_modules import MEMORY, Recipe, random_module

from lowtide import compiler
from lowtide.analysis.dataflow import ComputationDataflow, dataflow
from lowtide.budgeting.graphs import BudgetGraph, BudgetGraphs, budget_graphs
from lowtide.budgeting.rewriting import with_sequences
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import Computation, Instruction, Module, Opcode
from lowtide.verifier import verify

BY_INPUT = compiler.PlanOptions("input")

PASSED_ON = """HloModule m, is_scheduled=true
branch { u = (f32[64], f32[64]) parameter(0)  ROOT a = f32[64] get-tuple-element(u), index=1 }
other { v = (f32[64], f32[64]) parameter(0)  ROOT c = f32[64] get-tuple-element(v), index=0 }
ENTRY e {
  p = f32[64] parameter(0)
  i = s32[] parameter(1)
  x = f32[64] exponential(p)
  y = f32[64] negate(p)
  t = (f32[64], f32[64]) tuple(x, y)
  b = (f32[64], f32[64]) opt-barrier(t)
  first = f32[64] conditional(i, b, b), branch_computations={branch, other}
  second = f32[64] conditional(i, b, t), branch_computations={other, branch}
  ROOT s = f32[64] add(first, second)
}
"""

WAITING = """HloModule m, is_scheduled=true
ENTRY e {
  p = f32[64] parameter(0)
  x = f32[64] exponential(p)
  y = f32[64] negate(p)
  t = (f32[64], f32[64]) tuple(x, y)
  b = (f32[64], f32[64]) opt-barrier(t)
  z = f32[64] cosine(p), control-predecessors={b}
  g = f32[64] get-tuple-element(b), index=0
  ROOT s = f32[64] add(g, z)
}
"""


def graphs_of(module: Module) -> BudgetGraphs:
    return budget_graphs(compiler.scheduled(module, BY_INPUT))


def runs(flow: ComputationDataflow, number: int) -> bool:
    """Whether a node computes something, and does not only pass it on."""
    opcode = flow.nodes[number].opcode
    return opcode is not Opcode.PARAMETER and (
        opcode is Opcode.CONSTANT or bool(flow.makes[number])
    )


def reads_of_later_runs(
    graphs: BudgetGraphs, changed: Module, sequences: Mapping[Computation, Sequence[int]]
) -> int:
    """Return how often a run that is not the first is read; an earlier run must not be."""
    assert changed.schedule is not None
    orders = {x.name: order for x, order in changed.schedule.sequences.items()}
    flows = {x.name: flow for x, flow in dataflow(changed.entry).items()}
    return sum(
        [
            _later_reads(
                flows[x.computation.name],
                orders[x.computation.name],
                [n for n in sequences[x.computation] if runs(x.found.flow, n)],
            )
            for x in graphs.graphs
            if x.computation.name in flows
        ]
    )


def _later_reads(
    flow: ComputationDataflow, order: Sequence[Instruction], wanted: Sequence[int]
) -> int:
    ran = [flow.number[x] for x in order if runs(flow, flow.number[x])]
    origin = dict(zip(ran, wanted, strict=True))
    first: dict[int, int] = {}
    latest: dict[int, int] = {}
    count = 0
    for number in ran:
        for value in flow.reads[number]:
            maker = flow.value_node[value]
            if maker in origin:
                assert latest[origin[maker]] == maker, flow.nodes[number].name
                count += first[origin[maker]] != maker
        first.setdefault(origin[number], number)
        latest[origin[number]] = number
    return count


def test_readers_behind_tuples_and_barriers_have_the_latest_run() -> None:
    graphs = budget_graphs(parse_hlo(PASSED_ON))
    (graph,) = [x for x in graphs.graphs if x.computation.name == "e"]
    names = [x.name for x in graph.found.flow.nodes]
    sequences = {x.computation: x.program(x.found.order) for x in graphs.graphs}
    order = ("p", "i", "x", "y", "t", "b", "first", "x", "y", "second", "s")
    sequences[graph.computation] = tuple([names.index(x) for x in order])
    changed = with_sequences(graphs.module, graphs.flows, sequences)
    verify(changed)
    assert reads_of_later_runs(graphs, changed, sequences)


@pytest.mark.parametrize("recipe", [MEMORY, FLAT])
def test_each_reader_has_the_latest_run(recipe: Recipe) -> None:
    again = 0
    for seed in range(25):
        graphs = graphs_of(random_module(seed, recipe))
        random = Random(seed)
        sequences = {x.computation: random_sequence(x, random) for x in graphs.graphs}
        changed = with_sequences(graphs.module, graphs.flows, sequences)
        again += reads_of_later_runs(graphs, changed, sequences)
    assert again > 20


def random_order(graph: BudgetGraph, random: Random) -> tuple[int, ...]:
    """The instructions in an order that the graph allows."""
    memory = graph.found.graph
    before: list[set[int]] = [set(x) for x in memory.control.rows()]
    for buffer, readers in enumerate(memory.consumers.rows()):
        for reader in readers:
            before[reader] |= {int(memory.producer[buffer])} - {-1}
    order: list[int] = []
    left = list(range(memory.node_count))
    while left:
        free = [x for x in left if before[x] <= set(order)]
        order.append(random.choice(free))
        left.remove(order[-1])
    return graph.program(order)


def written(graphs: BudgetGraphs, random: Random) -> Module:
    sequences: dict[Computation, tuple[int, ...]] = {}
    for graph in graphs.graphs:
        sequences[graph.computation] = random_order(graph, random)
    changed = with_sequences(graphs.module, graphs.flows, sequences)
    verify(changed)
    return changed


def test_what_waits_for_a_tuple_waits_for_what_is_in_it() -> None:
    graphs = budget_graphs(parse_hlo(WAITING))
    for seed in range(20):
        changed = written(graphs, Random(seed))
        assert changed.schedule is not None
        order = [x.name for x in changed.schedule.sequences[changed.entry]]
        assert max(order.index("x"), order.index("y")) < order.index("z")


@pytest.mark.parametrize("seed", range(30))
def test_each_order_that_a_graph_allows_can_be_written(seed: int) -> None:
    graphs = graphs_of(random_module(seed, FLAT))
    for number in range(4):
        written(graphs, Random(number))


def test_what_is_waited_for_through_a_tuple_does_not_run_again() -> None:
    """The makers of what it passes on are closed, too, once the one that waits has run."""
    modules = [parse_hlo(WAITING), *[random_module(seed, FLAT) for seed in range(30)]]
    count = 0
    for module in modules:
        for graph in budget_graphs(compiler.scheduled(module, BY_INPUT)).graphs:
            flow, rows = graph.found.flow, graph.found.graph.control.rows()
            for number, x in enumerate(flow.nodes):
                closed = {y for node in graph.nodes((number,)) for y in rows[node]}
                for before in x.control_predecessors:
                    if runs(flow, flow.number[before]):
                        assert flow.number[before] in closed
                        continue
                    makers = {flow.value_node[v] for v in flow.leaves_of(before)} - {number}
                    assert makers <= closed
                    count += len(makers)
    assert count > 10
