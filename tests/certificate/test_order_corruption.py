"""Certificates of orders and budgets, damaged and signed anew: what is not so is rejected.

What counts as damage is told by trying all orders or sequences of the changed graph, and by an
evaluator that shares nothing with certificates. A change that leaves all claims true, such as
another flow of the same value, does not count, except where the change is to a flow that has to
have its value.
"""

import random

import pytest
from tests.certificate.cases import answer, copied, signed
from tests.certificate.graphs import (
    budgeted,
    bulky,
    is_true,
    memory_graph_of,
    proved,
    random_graph,
    sequences,
)
from tests.certificate.test_corruption import changed
from tests.remat.replay import replay

from lowtide.certificate import REJECTED, checker


def in_budget(document, longest=6, more=0):
    """The certificate of the cheapest sequence below some peak, by the best of some prices."""
    graph = memory_graph_of(document)
    rows = [(replay(graph, steps), steps) for steps in sequences(graph, longest)]
    budget = max(1, min([row.peak_bytes for row, _ in rows]) + more)
    _, steps = min([(row.extra_seconds, x) for row, x in rows if row.peak_bytes <= budget])
    found = [
        budgeted(document, budget, steps, node, price)
        for node in range(graph.node_count)
        for price in (1e-7, 1.5e-7, 3e-7, 1e-6, 3e-6)
    ]
    return max(found, key=lambda made: made["bound"])


def order_of(draw, made):
    steps = made["plan"]["orders"][0]["steps"]
    i, j = draw.randrange(len(steps)), draw.randrange(len(steps))
    steps[i], steps[j] = steps[j], steps[i]


def size(draw, made):
    sizes = made["problem"]["graphs"][0]["bytes"]
    i = draw.randrange(len(sizes))
    sizes[i] = max(0, sizes[i] + draw.choice((-1, 1)))


def edge(draw, made):
    nodes = made["problem"]["graphs"][0]["nodes"]
    rows = [row[x] for row in nodes for x in (2, 3) if row[x]]
    if rows:
        row = draw.choice(rows)
        del row[draw.randrange(len(row))]


def scratch(draw, made):
    node = draw.choice(made["problem"]["graphs"][0]["nodes"])
    node[0] = max(0, node[0] + draw.choice((-1, 1)))


def peak(draw, made):
    made["plan"]["orders"][0]["peak"] += draw.choice((-1, 1))


def bound(draw, made):
    """A higher bound, said by all parts."""
    made["bound"] += 1
    for part in made["evidence"]:
        if "bound" in part:
            part["bound"] += 1


def budget(draw, made):
    made["problem"]["budget"] -= 1


def anything(draw, made):
    made.update(changed(draw, made))


def falsified(make_all, changes, seed):
    """Change certificates until 1,000 say what is not so; return how many of those got through."""
    draw, makers = random.Random(seed), [signed(made) for made in make_all]
    wrong, passed = 0, []
    for _ in range(20_000):
        made = copied(draw.choice(makers))
        change = draw.choice(changes)
        change(draw, made)
        verdict = answer(signed(made))
        if is_true(made):
            continue
        wrong += 1
        if verdict.answer != REJECTED:
            passed.append((change.__name__, made, verdict))
        if wrong == 1_000:
            return passed
    raise AssertionError(f"{wrong} of the changes made a claim wrong")


def test_a_thousand_wrong_orders() -> None:
    makers = [proved(random_graph(seed, 4)) for seed in range(40)]
    makers = [made for made in makers if made["bound"]]
    changes = [order_of, size, edge, scratch, peak, bound, anything]
    assert falsified(makers, changes, 1) == []


def test_a_thousand_wrong_budgets() -> None:
    makers = [in_budget(bulky(), more=more) for more in (0, 2, 3)]
    assert all(len(made["plan"]["orders"][0]["steps"]) == 5 for made in makers)
    makers += [in_budget(random_graph(seed, 4)) for seed in range(12)]
    changes = [order_of, size, edge, scratch, peak, bound, budget, anything]
    assert falsified(makers, changes, 2) == []


def leaves(made):
    for part in made["evidence"]:
        yield from [part["leaf"]] if "leaf" in part else [x for x in part["tree"] if "node" in x]


def test_every_amount_of_a_flow_counts() -> None:
    """One more or less is no flow, or does not reach the bound."""
    tried = 0
    for made in [in_budget(bulky(), more=2), *[proved(random_graph(x, 5)) for x in range(30)]]:
        if not made["evidence"] or len(made["evidence"][0].get("tree", [0])) > 1:
            continue
        (leaf,) = leaves(made)
        for row in range(len(leaf["flow"])):
            for change in (1, -1):
                broken = copied(made)
                next(leaves(broken))["flow"][row][2] += change
                assert answer(signed(broken)).answer == REJECTED, row
                tried += 1
            broken = copied(made)
            del next(leaves(broken))["flow"][row]
            assert answer(signed(broken)).answer == REJECTED
    assert tried > 100


@pytest.mark.parametrize("share", [2, 8, -2, -8])
def test_the_price_counts(share) -> None:
    made = in_budget(bulky(), more=2)
    assert made["bound"] > 0
    for field in ("price", "rate"):
        broken = copied(made)
        broken["evidence"][0][field] += made["evidence"][0][field] // share
        assert answer(signed(broken)).answer == REJECTED


def test_a_budget_off_by_one() -> None:
    made = in_budget(bulky(), more=2)
    for change in (-1, 1):
        broken = copied(made)
        broken["problem"]["budget"] += change
        assert "is what is proved" in answer(signed(broken)).detail
    broken["problem"]["budget"] = made["plan"]["orders"][0]["peak"] - 1
    assert "budget: the plan takes" in answer(signed(broken)).detail


def test_a_precedence_without_a_reason() -> None:
    """Neither half of a pair can be left out, nor be closed by a cut of the other half."""
    trees = [proved(random_graph(seed, 5)) for seed in range(40, 80)]
    trees = [made for made in trees if made["evidence"] and len(made["evidence"][0]["tree"]) > 1]
    assert trees
    for made in trees:
        tree = made["evidence"][0]["tree"]
        for at, entry in enumerate(tree):
            broken = copied(made)
            del broken["evidence"][0]["tree"][at]
            assert answer(signed(broken)).answer == REJECTED
            if isinstance(entry, list):
                broken = copied(made)
                broken["evidence"][0]["tree"][at].reverse()
                assert answer(signed(broken)).answer == REJECTED or is_true(broken)


def test_a_pair_of_one_node_is_no_case() -> None:
    """A node never comes before itself, so both cases would be closed, whatever is claimed."""
    made = proved(random_graph(7, 5))
    size = made["plan"]["arena"]["height"]
    for node in range(3):
        broken = copied(made)
        leaf = {"node": node, "cover": [], "flow": []}
        broken["evidence"] = [{"bound": size, "tree": [[node, node], leaf, leaf]}]
        broken["bound"] = size
        assert "a pair is of two" in answer(signed(broken)).detail


def test_evidence_that_takes_too_long_is_not_followed(monkeypatch) -> None:
    made = proved(random_graph(7, 5))
    assert answer(made).answer != REJECTED
    monkeypatch.setattr(checker, "_MOST_WORK", 10)
    assert "too long to check" in answer(made).detail


def test_an_arena_in_which_buffers_overlap() -> None:
    made = proved(random_graph(7, 5))
    places = made["plan"]["arena"]["places"]
    rejected = 0
    for number, (_, offset) in enumerate(places):
        for other in {0, offset + 1, max(0, offset - 1)} - {offset}:
            broken = copied(made)
            broken["plan"]["arena"]["places"][number] = [0, other]
            verdict = answer(signed(broken))
            rejected += verdict.answer == REJECTED
            assert verdict.answer == REJECTED or verdict.size == made["plan"]["arena"]["height"]
    assert rejected > 3


def test_a_sequence_is_no_order() -> None:
    made = in_budget(bulky())
    broken = copied(made)
    broken["problem"]["budget"] = broken["bound"] = 0
    broken["evidence"] = []
    assert "each node runs" in answer(signed(broken)).detail
