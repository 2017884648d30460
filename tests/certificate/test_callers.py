"""Graphs that several nodes of several graphs run: maker and checker agree on all that adds up."""

import random

from tests.certificate.cases import answer
from tests.certificate.graphs import TEXT, bulky, memory_graph_of, orders, random_graph

from lowtide.analysis.module_graphs import GraphCall
from lowtide.certificate import REJECTED
from lowtide.certificate.orders import Boundary, Ordered, budget_certificate, order_certificate
from lowtide.scheduling.proof import CutBound

GRAPHS = 4
NODES = 4


def program(seed):
    """Computations of which each may run any before it, from several nodes, some at most once."""
    draw = random.Random(seed)
    found = []
    for number in range(GRAPHS):
        is_bulky = draw.random() < 0.6
        document = bulky() if is_bulky else random_graph(100 * seed + number, NODES)
        graph = memory_graph_of(document)
        calls = {
            (node, callee): GraphCall(node, callee, draw.randrange(3), draw.choice((0, 1, 1, 3)))
            for node in range(NODES)
            for callee in range(number)
            if (node == 0 and callee == number - 1) or draw.random() < 0.4
        }
        order = draw.choice(orders(graph))
        proof = CutBound(0, draw.randrange(NODES))
        found.append(Ordered(f"g{number}", graph, order, proof, tuple(calls.values())))
    return draw, found


def test_bounds_of_orders_add_up() -> None:
    """Of what a node runs, the callee that needs most is what counts."""
    for seed in range(60):
        _, computations = program(seed)
        verdict = answer(order_certificate(computations, TEXT, packed=seed % 2 == 0))
        assert verdict.answer != REJECTED, (seed, verdict)


def test_costs_within_budgets_add_up() -> None:
    """Runs and room of a callee are those of all its callers, at whatever budget."""
    proved = 0
    for seed in range(25):
        draw, computations = program(seed)
        peak = order_certificate(computations, TEXT, packed=False)["plan"]["orders"][-1]["peak"]
        prices = [draw.choice((1e-7, 1e-6, 5e-6)) for _ in range(GRAPHS)]
        boundaries = [Boundary(draw.choice((2, 2, draw.randrange(NODES))), x) for x in prices]
        for budget in range(peak // 2, peak + 1):
            made = budget_certificate(computations, TEXT, budget, boundaries, False, has_plan=False)
            verdict = answer(made)
            assert verdict.answer != REJECTED, (seed, budget, verdict)
            proved += 0 < made["bound"] < 1 << 98
    assert proved > 50
