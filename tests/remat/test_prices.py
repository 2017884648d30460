"""Prices of bytes: what stands on the side of the flow is rounded down, what is taken off it up."""

from fractions import Fraction
from random import Random

import numpy as np
import pytest
from tests.remat.small_graphs import random_graph

from lowtide.remat.bound import topological_order
from lowtide.remat.network import UNBOUNDED, Networks, Price
from lowtide.remat.tables import tables_of


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
