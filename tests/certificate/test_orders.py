"""Certificates of orders and of budgets: right ones are accepted, and bounds are never too high."""

import random

import numpy as np
import pytest
from tests.certificate.cases import answer, copied, signed
from tests.certificate.graphs import (
    NONE,
    TEXT,
    budgeted,
    chain,
    is_true,
    least_peak,
    memory_graph_of,
    orders,
    proved,
    random_graph,
    sequences,
)
from tests.remat.replay import replay

from lowtide.analysis.module_graphs import GraphCall
from lowtide.certificate import NOT_CERTIFIED, OPTIMAL, REJECTED
from lowtide.certificate.graphs import graph_of
from lowtide.certificate.matching import largest_matching, least_cover
from lowtide.certificate.orders import Boundary, Ordered, budget_certificate, order_certificate
from lowtide.certificate.sequences import written
from lowtide.scheduling.proof import CYCLE, SPLIT, Case, CutBound, KeptBytes, OrderRefutation


def of_orders(seeds):
    """Check certificates of all nodes' cuts, and of searches; return the kinds of proofs."""
    kinds = []
    for seed in seeds:
        document = random_graph(seed)
        graph = memory_graph_of(document)
        least = least_peak(graph)
        order = random.Random(seed).choice(orders(graph))
        proofs = [CutBound(0, node) for node in range(graph.node_count)]
        for proof in (*proofs, KeptBytes(0)):
            made = order_certificate([Ordered("g", graph, order, proof)], TEXT)
            verdict = answer(made)
            assert verdict.answer != REJECTED, (seed, proof, verdict)
            assert verdict.bound <= least <= verdict.size, (seed, proof, verdict)
        best = proved(document, packed=False)
        verdict = answer(best)
        assert (verdict.answer, verdict.size) == (OPTIMAL, least), (seed, verdict)
        kinds.append(len(best["evidence"][0]["tree"]) > 1 if best["evidence"] else None)
    return kinds


def test_orders_of_random_graphs() -> None:
    assert of_orders(range(60)).count(True) > 0


@pytest.mark.slow
def test_orders_of_many_random_graphs() -> None:
    assert of_orders(range(1_000, 1_600)).count(True) > 10


def of_budgets(seeds):
    """Check certificates of budgets against all sequences; return how many bounds are tight."""
    tight = 0
    for seed in seeds:
        document = random_graph(seed, 4)
        graph = memory_graph_of(document)
        rows = [(replay(graph, steps), steps) for steps in sequences(graph, 7)]
        peaks = sorted({row.peak_bytes for row, _ in rows})
        for budget in {max(1, peaks[0] - 1), *peaks[:3]} - {0}:
            fit = [(x.extra_seconds, steps) for x, steps in rows if x.peak_bytes <= budget]
            extra, steps = min(fit, default=(0.0, None))
            bounds = []
            for node in range(5):
                for price in (0, 1e-7, 1e-6, 1e-5):
                    made = budgeted(document, budget, steps, node, price)
                    assert answer(made).answer != REJECTED, (seed, budget, node, price)
                    assert steps is None or made["bound"] <= round(extra * 1e13) + 4
                    bounds.append(made["bound"])
            tight += extra > 0 and max(bounds) >= round(extra * 1e13) - 4
    return tight


def test_budgets_of_random_graphs() -> None:
    assert of_budgets(range(30)) >= 0


@pytest.mark.slow
def test_budgets_of_many_random_graphs() -> None:
    assert of_budgets(range(1_000, 1_300)) > 3


def test_a_chain_that_is_run_again() -> None:
    document = chain(3)
    graph = memory_graph_of(document)
    rows = [(replay(graph, steps), steps) for steps in sequences(graph, 8)]
    budget = min([x.peak_bytes for x, _ in rows])
    assert budget < least_peak(graph)
    extra, steps = min([(x.extra_seconds, s) for x, s in rows if x.peak_bytes <= budget])
    bounds = {}
    for node in range(6):
        for price in (1e-7, 3e-7, 1e-6, 1e-5):
            made = budgeted(document, budget, steps, node, price, packed=False)
            assert answer(made).answer != REJECTED
            bounds[node, price] = made["bound"]
    assert 0 < max(bounds.values()) <= round(extra * 1e13)
    assert answer(budgeted(document, budget, steps, *max(bounds, key=bounds.get))).bound > 0


def test_a_step_that_is_too_large_for_a_budget() -> None:
    document = chain(2)
    made = budgeted(document, 12, None, 1, 0.0)
    verdict = answer(made)
    assert (verdict.answer, verdict.detail, made["bound"]) == (
        OPTIMAL, ["no plan fits", " and no plan is smaller"][0], NONE,
    )  # fmt: skip
    assert answer(budgeted(document, 13, None, 1, 0.0)).answer == NOT_CERTIFIED


def test_what_is_there_from_the_start_and_what_is_left_at_the_end() -> None:
    document = chain(1)
    document["buffers"][0]["producer"] = -1
    document["buffers"].append(
        {"bytes": 50, "producer": -1, "consumers": [0], "live_out": True, "may_reuse": []}
    )
    graph = memory_graph_of(document)
    made = order_certificate([Ordered("g", graph, [0, 1], KeptBytes(57))], TEXT)
    assert answer(made).bound == 57
    assert is_true(made)


def test_a_graph_that_others_call() -> None:
    """A node holds what the graph that it calls needs, but for the bytes that are its own."""
    inner, outer = memory_graph_of(chain(2)), memory_graph_of(chain(2))
    inside = Ordered("body", inner, [0, 1, 2, 3], CutBound(0, 2))
    caller = Ordered("main", outer, [0, 1, 2, 3], CutBound(0, 2), (GraphCall(2, 0, 5),))
    made = order_certificate([inside, caller], TEXT)
    verdict = answer(made)
    own, need = least_peak(outer), least_peak(inner)
    assert verdict.answer == OPTIMAL
    assert verdict.size == own + need - 5
    late = copied(made)
    late["problem"]["graphs"].reverse()
    assert answer(signed(late)).answer == REJECTED
    boundaries = [Boundary(2, 0.0), Boundary(1, 0.0)]
    more = budget_certificate([inside, caller], TEXT, verdict.size, boundaries)
    assert answer(more).answer == OPTIMAL


def test_peaks_are_those_of_an_evaluator_that_shares_nothing() -> None:
    for seed in range(40):
        graph = memory_graph_of(random_graph(seed, 4))
        own = graph_of(graph)
        for steps in random.Random(seed).sample(found := sequences(graph, 6), min(20, len(found))):
            made = written(own, [x + 1 for x in steps], own.held([]))
            assert made.peak == replay(graph, steps).peak_bytes


def test_no_bytes_and_no_nodes() -> None:
    empty = memory_graph_of({**chain(1), "nodes": [], "buffers": []})
    made = order_certificate([Ordered("g", empty, ())], TEXT)
    assert answer(made).answer == OPTIMAL
    with pytest.raises(ValueError, match="a budget of 0 bytes"):
        budget_certificate([Ordered("g", empty, ())], TEXT, 0, [])


def test_operands_that_no_buffer_shows_still_come_first() -> None:
    document = chain(2)
    graph = memory_graph_of(document)
    assert graph_of(graph).document()["bytes"] == [6, 7, 6, 7]
    for buffer in document["buffers"]:
        buffer["consumers"] = []
    bare = memory_graph_of(document)
    object.__setattr__(bare, "operands", graph.operands)
    section = graph_of(bare).document()
    assert section["bytes"] == [6, 7, 6, 7, 0, 0, 0]
    made = order_certificate([Ordered("g", bare, [0, 1, 2, 3])], TEXT)
    assert answer(made).answer != REJECTED
    made["plan"]["orders"][0]["steps"] = [2, 1, 3, 4]
    assert answer(signed(made)).answer == REJECTED


def test_matchings_and_covers() -> None:
    for seed in range(200):
        draw = random.Random(seed)
        pairs = [(a, b) for a in range(5) for b in range(10, 15) if draw.random() < 0.3]
        matching, cover = largest_matching(pairs), least_cover(pairs)
        assert len({*matching.values()}) == len(matching) == len(cover)
        assert {*matching.items()} <= {*pairs}
        assert all({*pair} & cover for pair in pairs)


def test_cases_that_contradict_each_other() -> None:
    """They are closed by a node in the circle, without a flow."""
    graph = memory_graph_of({**chain(1), "nodes": chain(1)["nodes"], "buffers": []})
    nothing = np.zeros((0, 3), np.int64)
    cases = (
        Case(-1, 0, 0, np.array([(0, 1, 1)]), SPLIT),
        Case(0, 1, 0, nothing, CYCLE),
        Case(0, 0, 1, nothing, 1),
    )
    made = order_certificate([Ordered("g", graph, [0, 1], OrderRefutation(-1, cases))], TEXT)
    assert made["bound"] == 0
    document = memory_graph_of(chain(2))
    plain = order_certificate([Ordered("g", document, [0, 1, 2, 3], CutBound(0, 2))], TEXT)
    leaf = plain["evidence"][0]["tree"][0]
    circle = {"node": 1, "cover": [], "flow": []}
    plain["evidence"][0]["tree"] = [[2, 1], circle, leaf]
    assert answer(signed(plain)).answer == OPTIMAL
    plain["evidence"][0]["tree"] = [[1, 2], circle, leaf]
    assert answer(signed(plain)).answer == REJECTED
