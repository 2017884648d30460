"""Prices of bytes: what stands on the side of the flow is rounded down, what is taken off it up."""

from fractions import Fraction
from random import Random

import numpy as np
import pytest
from tests.remat.small_graphs import random_graph

from lowtide.remat.bound import BoundSearch, topological_order
from lowtide.remat.network import UNBOUNDED, Networks, Price, RematNetwork
from lowtide.remat.tables import tables_of
from lowtide.search.deadline import Deadline
from lowtide.search.effort import Effort


def exact(price: Price, size: int) -> Fraction:
    """The ticks of a size, without rounding."""
    return Fraction(price.numerator) * Fraction(2) ** -price.shift * size


@pytest.mark.parametrize("seed", range(8))
def test_no_rounding_makes_a_bound_higher(seed: int) -> None:
    random = Random(seed)
    tables = tables_of(random_graph(random))
    networks = Networks(tables, topological_order(tables))
    rounded = 0
    for _ in range(40):
        price = networks.price(random.choice((1e-3, 1.0, 1e3)) * random.random())
        size = random.randint(1, 400)
        ticks = exact(price, size)
        assert ticks <= price.of(size) < ticks + 1
        (capacity,) = price.times(np.array([size], np.int64)).tolist()
        assert ticks - 1 < capacity <= ticks or capacity == UNBOUNDED <= ticks
        rounded += ticks.denominator != 1
    assert rounded


@pytest.mark.parametrize("seed", range(4))
def test_from_the_deadline_on_nothing_more_is_cut(seed: int, monkeypatch) -> None:
    """What is known by then is a bound, if a weaker one."""
    tables = tables_of(random_graph(Random(seed)))
    order = topological_order(tables)
    whole = BoundSearch(tables, order, Effort.DEFAULT)
    cuts = []
    least_cut = RematNetwork._with_capacity

    def counted(network, capacity):
        cuts.append(network)
        return least_cut(network, capacity)

    monkeypatch.setattr(RematNetwork, "_with_capacity", counted)
    search = BoundSearch(tables, order, Effort.DEFAULT, Deadline(0))
    assert len(cuts) <= 1
    budget = whole.least_bytes
    late = search.proved(budget)
    assert search.least_bytes <= budget and not late.is_infeasible
    assert search.beside_link(budget, 1e9) <= whole.beside_link(budget, 1e9)
    cuts.clear()
    assert search.proved(budget).extra_seconds <= whole.proved(budget).extra_seconds
    assert not [x for x in cuts if x in [y.network for y in search._lines.values()]]
