"""Searches within one cap, and what is held in first steps, on small random graphs."""

import math
from random import Random

import numpy as np
from tests.remat.replay import replay
from tests.remat.small_graphs import random_graph
from tests.remat.test_soundness import some_orders

from lowtide.remat.bound import BoundSearch, topological_order
from lowtide.remat.budget_search import BudgetSearch
from lowtide.remat.first_steps import first_footprints
from lowtide.remat.gaps import base_of
from lowtide.remat.greedy import scratch_of
from lowtide.remat.levels import LevelSearch
from lowtide.remat.measure import footprints, step_bytes
from lowtide.remat.recompute import Recompute, quick_sequence
from lowtide.remat.tables import tables_of
from lowtide.search.effort import Effort


def test_sequences_keep_to_their_cap_and_get_quicker() -> None:
    found = better = lower = worse = 0
    for seed in range(150):
        random = Random(seed)
        graph = random_graph(random, 12)
        tables, orders = tables_of(graph), some_orders(graph, random, 2)
        search = BudgetSearch(tables, orders, Effort.FAST)
        level = LevelSearch(tables, orders, Effort.FAST)
        peak = int(step_bytes(tables, orders[0]).max())
        for cap in (peak, peak - 1, peak * 3 // 4):
            seconds = []
            for sequence in search.better(cap):
                replayed = replay(graph, sequence.tolist())
                assert replayed.peak_bytes <= cap, seed
                seconds.append(replayed.extra_seconds)
            assert seconds == sorted(seconds, reverse=True)
            assert len(set(seconds)) == len(seconds)
            first = level.within(cap)
            if first is not None and seconds:
                found += 1
                better += seconds[-1] < tables.seconds(first) - 1e-12
                worse += seconds[-1] > tables.seconds(first) + 1e-12
                lower += cap < peak
    assert found > 200
    assert lower > 50
    assert better > worse


def test_gaps_of_a_sequence_make_it_again() -> None:
    made = tried = 0
    for seed in range(400):
        random = Random(seed)
        graph = random_graph(random, 12)
        tables, order = tables_of(graph), topological_order(tables_of(graph))
        peak = int(step_bytes(tables, order).max())
        sequence = quick_sequence(graph, order, max(1, peak * 3 // 4))
        if sequence is None or len(sequence) == len(order):
            continue
        _, first = np.unique(sequence, return_index=True)
        maker = Recompute(
            base_of(tables, sequence[np.sort(first)]), scratch_of(tables.problem.graph)
        )
        dropped = maker.base.dropped_in(sequence)
        again = [maker.sequence(dropped, reach) for reach in (60, 1)]
        most, cap = tables.seconds(sequence) * (1 + 1e-9), step_bytes(tables, sequence).max()
        tried += 1
        alike = [x for x in again if step_bytes(tables, x).max() <= cap]
        made += any(tables.seconds(x) <= most for x in alike)
    assert tried >= 15
    assert 5 * made >= 4 * tried


def test_first_steps_hold_what_is_read_later() -> None:
    above = 0
    for seed in range(300):
        random = Random(seed)
        graph = random_graph(random)
        tables = tables_of(graph)
        least = first_footprints(tables)
        assert (least >= footprints(tables)).all()
        above += bool((least > footprints(tables)).any())
        for order in some_orders(graph, random, 4):
            steps = step_bytes(tables, order)
            assert (steps >= least[order]).all(), seed
        search = BoundSearch(tables, topological_order(tables), Effort.FAST)
        assert search.least_bytes >= least.max(), seed
        needed = search.bytes_of_first_steps
        assert needed == max(search.bytes_of_steps, least.max())
        assert search.beside_link(needed - 1, 1e9) == math.inf
    assert above > 20
