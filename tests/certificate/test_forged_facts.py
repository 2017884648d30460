"""Certificates that are right by themselves, of facts that are not those of what they name."""

import random
import re
from dataclasses import replace
from functools import cache

import pytest
from tests.budgeting.chains import looped_step, training_step
from tests.budgeting.test_planner import make_plan, planner_of
from tests.certificate.cases import answer, copied, signed
from tests.certificate.graphs import bulky, memory_graph_of
from tests.certificate.test_module_certificates import places_of_numbers

from lowtide.analysis.live_range import CACHE_LINE
from lowtide.budgeting.certificates import certificate_within, differences_within
from lowtide.certificate import REJECTED
from lowtide.certificate.modules import differences, module_orders
from lowtide.certificate.orders import (
    Boundary,
    Ordered,
    arena_of_given,
    budget_certificate,
    order_certificate,
)
from lowtide.compiler.certificates import arena_of, certificate_of
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.scheduling.proof import CutBound

CALLED = """HloModule called, input_output_alias={ {}: (0, {}, may-alias) }

inner {
  x = f32[64] parameter(0)
  e = f32[64] exponential(x)
  r = f32[64] reverse(e), dimensions={0}
  ROOT s = f32[64] add(e, r)
}

ENTRY main {
  p = f32[64] parameter(0)
  zero = f32[] constant(0)
  wide = f32[128] pad(p, zero), padding=0_64
  c = f32[64] call(p), to_apply=inner
  low = f32[64] slice(wide), slice={[0:64]}
  high = f32[64] slice(wide), slice={[8:72]}
  sum = f32[64] add(low, high)
  ROOT out = f32[64] add(sum, c)
}
"""


def donating_step():
    """A training step whose gradients overwrite the weights."""
    pairs = ", ".join([f"{{{i}}}: ({i + 1}, {{}}, may-alias)" for i in range(4)])
    text = str(training_step(layers=4))
    return parse_hlo(text.replace("step, ", f"step, input_output_alias={{ {pairs} }}, ", 1))


MODULES = {
    "donated": donating_step,
    "loop": lambda: looped_step(layers=4),
    "call": lambda: parse_hlo(CALLED),
}


@cache
def of_plan(name):
    made = make_plan(MODULES[name](), "input")
    computations, rows = module_orders(made.module, {}), arena_of(made).rows
    document = certificate_of(made)
    arena = document["plan"]["arena"]  # with a gap below, so that there are better ones
    arena["places"] = [[x, y if x else y + CACHE_LINE] for x, y in arena["places"]]
    arena["height"] += CACHE_LINE
    return signed(document), lambda found: differences(found, computations, rows)


@cache
def of_budget(name, has_plan):
    planner = planner_of(MODULES[name]())
    graphs, most = planner.own.graphs, planner.own.plain.arena_bytes
    budgets, points = [most * x // 20 for x in range(18, 9, -1)], []
    while not points:
        budget, *budgets = budgets
        points = [*planner.own.points(budget)][:1] if has_plan else [None]
    made = points[0].plan if has_plan else None
    document = certificate_within(graphs, planner.bounds, budget, made)
    return document, lambda found: differences_within(found, graphs, made)


def ordered_graph():
    return Ordered("bulky", memory_graph_of(bulky()), [0, 1, 2, 3], CutBound(0, 2))


@cache
def of_graph(budget):
    found = ordered_graph()
    if budget:
        again = replace(found, steps=[0, 1, 2, 0, 3])
        document = budget_certificate([again], b"", budget, [Boundary(2, 1e-7)], packed=False)
    else:
        document = order_certificate([found], b"")
    return document, lambda x: differences(x, [Ordered("bulky", found.graph, ())])


CASES = {
    **{name: (of_plan, name) for name in MODULES},
    **{f"{name} within a budget": (of_budget, name, True) for name in ("donated", "loop")},
    **{f"{name} without a plan": (of_budget, name, False) for name in MODULES},
    "graph": (of_graph, 0),
    "graph within a budget": (of_graph, 14),
}


def certified(case):
    make, *arguments = CASES[case]
    return make(*arguments)


# -- forgeries -------------------------------------------------------------------------------------


def at(document, path):
    for name in path:
        document = document[name]
    return document


def sections(section, path=()):
    """Yield the paths of all lists and objects in a document."""
    rows = section.items() if isinstance(section, dict) else enumerate(section)
    for name, value in rows:
        if isinstance(value, dict | list):
            yield (*path, name)
            yield from sections(value, (*path, name))


CLAIM = re.compile(r"(peak:|height:|is claimed,) ([\d,]+) is what")
NOTHING = {"nodes": [], "bytes": [], "given": [], "kept": [], "reuses": []}


def with_true_claims(document):
    """The document with the peaks, height and bound that the checker finds, signed.

    Where the plan takes less than is proved, nothing is.
    """
    program = document["plan"].get("plan") or document["plan"]
    orders = program.get("orders", [])
    for _ in range(len(orders) + 2):
        detail = answer(signed(document)).detail
        found = CLAIM.search(detail)
        if "is more than the plan takes" in detail:
            document["bound"], document["evidence"] = 0, []
        if found is None:
            break
        value = int(found[2].replace(",", ""))
        if found[1] == "peak:":
            _claim_peak(document, orders, value)
        elif found[1] == "height:":
            program["arena"]["height"] = value
        else:
            document["bound"] = value
    return signed(document)


def _claim_peak(document, orders, value):
    """Put a peak into the first order with another one, by the answer that follows."""
    before = answer(signed(document)).detail
    for order in orders:
        own, order["peak"] = order["peak"], value
        if own != value and answer(signed(document)).detail != before:
            return
        order["peak"] = own


def of_nothing(tick):
    """A program that does nothing, as the plan of a certificate with a budget."""
    problem = {"text": "", "names": [""], "tick": tick, "graphs": [NOTHING], "budget": 0}
    plan = {"orders": [{"steps": [], "takes": [], "peak": 0}], "arena": {}}
    return {"problem": {**problem, "arena": {}}, "plan": plan}


def forgeries(document, draw):
    """Yield paths and documents in which one thing is another: a number, or a section."""
    numbers = [*places_of_numbers(document)]
    numbers = draw.sample(numbers, min(len(numbers), 120))
    changes = [(path, value) for path in numbers for value in (0, at(document, path) + 1)]
    rows = [path for path in sections(document) if path[0] != "evidence"]
    emptied = [x for x in rows if len(x) < 3 or (x[:2] == ("plan", "plan") and len(x) < 4)]
    emptied += draw.sample(rows, min(len(rows), 80))
    changes += [(path, type(at(document, path))()) for path in emptied]
    changes += [(("problem", "arena"), arena_of_given(x)) for x in (1, 64, 1 << 12, 1 << 20)]
    changes.append((("plan",), of_nothing(document["problem"]["tick"])))
    for path, value in changes:
        forged = copied(document)
        at(forged, path[:-1])[path[-1]] = value
        yield path, with_true_claims(forged)
        if path == ("problem", "arena") and "arena" in document["plan"]:
            forged["plan"]["arena"] = {}
            yield path, with_true_claims(forged)


@pytest.mark.parametrize("case", CASES)
def test_a_forgery_does_not_claim_more(case) -> None:
    """It is rejected, shows, or says no more than what is so.

    A budget may be any: what it should be is what the reader of a certificate asks for.
    """
    make, *arguments = CASES[case]
    document, of_module = make(*arguments)
    before, shown = answer(document), 0
    assert before.answer != REJECTED and of_module(document) == []
    for path, forged in forgeries(document, random.Random(case)):
        verdict = answer(forged)
        if verdict.answer == REJECTED:
            continue
        if of_module(forged):
            shown += 1
        elif path != ("problem", "budget"):
            assert verdict.size >= before.size and verdict.bound <= before.bound, path
    assert shown > 10


def test_the_program_of_a_plan_has_no_budget_of_its_own() -> None:
    """Its orders would not count then."""
    document = copied(of_budget("donated", True)[0])
    document["plan"]["problem"]["budget"] = 1 << 40
    assert answer(signed(document)).detail == "plan: ticks or budget"


@pytest.mark.parametrize("tick", ["1e-3 s", "1e-12 s", ""])
def test_the_program_of_a_plan_has_the_ticks_of_what_it_is_compared_with(tick) -> None:
    document = copied(of_budget("donated", True)[0])
    assert document["problem"]["tick"] != tick
    document["plan"]["problem"]["tick"] = tick
    assert answer(signed(document)).detail == "plan: ticks or budget"


def test_a_program_that_takes_less_time_than_is_proved_of_it() -> None:
    document = copied(of_budget("donated", True)[0])
    assert document["bound"] > 0
    document["plan"] = of_nothing(document["problem"]["tick"])
    assert "is more than the plan takes" in answer(signed(document)).detail


def test_a_budget_is_for_what_is_beyond_the_arguments() -> None:
    """Arguments that outputs overwrite do not count, nor do they make the budget larger."""
    document = copied(of_budget("donated", True)[0])
    size = document["plan"]["plan"]["arena"]["height"]
    assert document["problem"]["arena"]["regions"] and size <= document["problem"]["budget"]
    for budget in (size, size - 1, size // 2):
        document["problem"]["budget"] = budget
        forged = with_true_claims(copied(document))
        verdict = answer(forged)
        assert (verdict.answer != REJECTED) == (budget == size), verdict
        assert budget == size or "budget: the plan takes" in verdict.detail


def test_an_arena_has_room_for_all_that_the_order_holds() -> None:
    """What lies in it may be said to be anything, but for its height."""
    document = copied(of_plan("donated")[0])
    regions = document["problem"]["arena"]["regions"]
    given, peak = sum(regions), document["plan"]["orders"][-1]["peak"]
    assert 0 < given < peak
    document["bound"], document["evidence"] = 0, []
    for size, is_enough in ((peak - given, True), (peak - given - 1, False), (0, False)):
        document["problem"]["arena"]["buffers"] = [[size, 1, [], [[0, 0]]]]
        document["plan"]["arena"] = {"places": [[0, 0]], "height": size}
        verdict = answer(signed(copied(document)))
        assert (verdict.answer != REJECTED) == is_enough, verdict
        assert is_enough or verdict.detail == "height: the order takes more"
