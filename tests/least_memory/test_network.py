"""Minimum cuts: the small network that is left has the cut of the whole one."""

from random import Random

import numpy as np
import pytest
from tests.generated.layers import layered_module

from lowtide.compiler.stages import pipeline
from lowtide.least_memory import least_memory, network
from lowtide.least_memory.network import MomentNetwork
from lowtide.passes import run_pipeline

ENDLESS = 10**6


def drawn(random: Random, nodes: int, arcs: int) -> MomentNetwork:
    """A network whose arcs are endless, empty, or have a capacity."""
    tails = [random.randrange(nodes) for _ in range(arcs)]
    heads = [random.randrange(nodes) for _ in range(arcs)]
    capacity = [random.choice((0, ENDLESS, random.randint(1, 50))) for _ in range(arcs)]
    return network_of(nodes, tails, heads, capacity)


def network_of(nodes: int, *arcs: list[int]) -> MomentNetwork:
    """The network of tails, heads and capacities."""
    tails, heads, capacity = (np.array(x, np.int64) for x in arcs)
    return MomentNetwork(nodes, (tails, heads, capacity), ENDLESS)


@pytest.fixture
def both_ways(monkeypatch):
    """Run a function with networks cut as they are, and made small first."""

    def run(function):
        found = []
        for many in (10**9, 0):
            monkeypatch.setattr(network, "_MANY", many)
            found.append(function())
        return found

    return run


@pytest.mark.parametrize("seed", range(40))
def test_a_small_network_has_the_cut_of_the_whole_one(both_ways, seed):
    random = Random(seed)
    nodes = random.randint(4, 30)
    given = drawn(random, nodes, random.randint(nodes, 4 * nodes))
    begins, ends = ([random.randrange(2, nodes) for _ in range(2)] for _ in range(2))
    without = random.sample(range(len(given)), 2)
    whole, small = both_ways(lambda: given.cut(begins, ends, without))
    assert min(whole, ENDLESS) == min(small, ENDLESS)


def test_the_bound_of_a_program_stays(both_ways):
    module = layered_module(600)
    run_pipeline(module, pipeline("layout"))

    def bound():
        found = least_memory(module)
        assert found.is_whole
        return found.nbytes, [(x.number, x.when) for x in found.moments]

    whole, small = both_ways(bound)
    assert whole == small


def test_little_of_a_program_is_left_to_cut(both_ways, monkeypatch):
    arcs = []
    flow = network._flow
    monkeypatch.setattr(network, "_flow", lambda *x: arcs.append(len(x[0])) or flow(*x))
    module = layered_module(2_400)
    run_pipeline(module, pipeline("layout"))

    def mean():
        arcs.clear()
        least_memory(module, 400_000)
        return sum(arcs) / len(arcs)

    whole, small = both_ways(mean)
    assert 0 < small < whole / 3


def test_source_and_sink_that_cannot_be_kept_apart_are_cut_as_before(both_ways):
    given = network_of(4, [2], [3], [ENDLESS])
    whole, small = both_ways(lambda: given.cut([2], [3]))
    assert whole == small >= ENDLESS
    assert given.cut([3], [2]) == 0
