"""Bounds of modules attacked from below: no order needs less, by a count that shares no code."""

from itertools import islice, product
from math import prod

import pytest
from tests.analysis.random_modules import RandomModule
from tests.hunting.order_machine import is_simulated
from tests.hunting.orders import BoundAttack
from tests.random_modules import MEMORY, Recipe, random_module
from tests.scheduling.test_module_bound import orders_of

from lowtide.compiler import PlanOptions, scheduled
from lowtide.frontend.hlo_text import parse_hlo

RECIPE = Recipe(
    ("loops", "branches", "in place", "call sites", "elementwise", "data movement", "tuples"),
    max_instructions=9,
    element_types=MEMORY.element_types,
    shared_results=True,
)
"""Calls, branches and loops that return what they are given; outputs that are arguments."""


def drawn(seed):
    """A small module with its copies, by turns of both generators."""
    if seed % 2:
        source = random_module(seed, RECIPE)
    else:
        source = parse_hlo(RandomModule(seed, 3 + seed % 5).text())
    return scheduled(source, PlanOptions("input"))


def try_all(found, most):
    """Try all orders; return whether there were no more than `most`."""
    rows = [[*islice(orders_of(x), most + 1)] for x in found.flows]
    if prod([len(row) for row in rows]) > most:
        return False
    for orders in product(*rows):
        found.try_order(dict(zip(found.flows, orders, strict=True)))
    return True


def attack(seeds, orders):
    """How many modules were tried, and in how many an order needs just the bound."""
    tried = tight = 0
    for seed in seeds:
        module = drawn(seed)
        if not is_simulated(module):
            continue
        found = BoundAttack(module)
        found.try_random(seed, orders)
        assert found.bound <= found.least, seed
        tried += 1
        tight += found.bound == found.least
    return tried, tight


def test_no_random_order_needs_less_than_the_bound():
    tried, tight = attack(range(40), 6)
    assert tried >= 35
    assert tight >= tried // 2  # The count is no looser than the bound: it can fail.


def exhaust(seeds, most):
    """How many modules were tried in all orders, and in how many one needs just the bound."""
    tried = tight = 0
    for seed in seeds:
        module = parse_hlo(RandomModule(seed, 3, depth=1 + seed % 2).text())
        found = BoundAttack(scheduled(module, PlanOptions("input")))
        if not try_all(found, most):
            continue
        assert found.bound <= found.least, seed
        tried += 1
        tight += found.bound == found.least
    return tried, tight


def test_no_order_at_all_needs_less_than_the_bound():
    tried, tight = exhaust(range(120), 300)
    assert tried >= 12
    assert tight >= tried // 2


@pytest.mark.slow
@pytest.mark.parametrize("start", range(10_000, 14_000, 500))
def test_many_random_orders(start):
    attack(range(start, start + 500), 25)


@pytest.mark.slow
@pytest.mark.parametrize("start", range(10_000, 20_000, 2_000))
def test_all_orders_of_many_modules(start):
    exhaust(range(start, start + 2_000), 5_000)
