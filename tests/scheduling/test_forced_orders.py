"""What a target forces holds in every order within it, and nothing is closed that has one."""

import random
from itertools import permutations

import numpy as np
from tests.scheduling.small_graphs import Oracle, small_graph

from lowtide.analysis.graph_tables import tables_of
from lowtide.scheduling.propagation import OPEN, PropagationWork, narrowed, unnarrowed

NODES = 6


def peaks(oracle: Oracle) -> dict[tuple[int, ...], int]:
    """The peak of each order."""
    found = {}
    for order in permutations(range(oracle.count)):
        state, is_order = 0, True
        for node in order:
            is_order &= not oracle.before[node] & ~state
            state |= 1 << node
        if is_order:
            found[order] = oracle.peak(list(order))
    return found


def test_forced_edges_are_those_of_all_orders_within_a_target() -> None:
    closed = edges = 0
    for seed in range(120):
        made = small_graph(random.Random(seed), 3, NODES)
        found = peaks(Oracle(made))
        tables = tables_of(made.memory_graph())
        for target in {*sorted({*found.values()})[:3]}:
            for given in (max(0, target - 1), target):
                start = unnarrowed(tables, np.array(min(found, key=found.__getitem__), np.int64))
                state = narrowed(start, given, 0.0, PropagationWork(1 << 40), 20)
                within = [order for order, peak in found.items() if peak <= given]
                closed += state.closed_at != OPEN
                assert state.closed_at == OPEN or not within, (seed, given)
                for before, behind, _ in state.forced.tolist():
                    edges += 1
                    assert all(x.index(before) < x.index(behind) for x in within), (seed, given)
    assert closed > 30 and edges > 80
