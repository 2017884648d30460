"""Sequences that are mended, thinned and searched, on small random graphs."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from tests.remat.replay import replay
from tests.remat.small_graphs import random_graph
from tests.remat.test_kernels import run_as_python
from tests.remat.test_windows import graph_of

from lowtide.analysis.memory_graph import MemoryGraph
from lowtide.remat import mending, thinning
from lowtide.remat.bound import topological_order
from lowtide.remat.improve import Improver
from lowtide.remat.measure import NO_CAP, measure, step_bytes
from lowtide.remat.run_search import RunSearch
from lowtide.remat.tables import Int64Array, RematTables, tables_of
from lowtide.search.kernels import Kernel


def problems(
    seeds: range, most: int = 12
) -> Iterator[tuple[MemoryGraph, RematTables, Int64Array, int]]:
    """Yield graphs of so many nodes with their tables, an order, and some caps below its peak."""
    for seed in seeds:
        random = Random(seed)
        once = random.sample(range(most), random.choice((0, 0, 3)))
        graph = random_graph(random, most)
        tables = tables_of(graph, [x for x in once if x < graph.node_count])
        order = topological_order(tables)
        peak = int(step_bytes(tables, order).max(initial=0))
        for cap in (peak - 1, peak * 3 // 4, peak // 2):
            yield graph, tables, order, cap


def test_mended_sequences_fit_and_are_valid() -> None:
    found = longer = 0
    for graph, tables, order, cap in problems(range(300)):
        made = RunSearch(tables).fitted(order, cap)
        if made is None:
            continue
        found += 1
        longer += len(made) > len(order)
        replayed = replay(graph, made.tolist())
        assert replayed.peak_bytes <= cap
        runs = np.bincount(made, minlength=graph.node_count)
        assert runs.min() == 1 and runs[tables.problem.once > 0].max(initial=1) == 1
    assert found > 100
    assert longer > 100


def test_a_search_keeps_to_its_cap_and_takes_no_longer() -> None:
    better = 0
    for graph, tables, order, cap in problems(range(400)):
        search = RunSearch(tables)
        start = search.fitted(order, cap)
        if start is None:
            continue
        found, again = [search.searched(start, cap, 40, lambda: False, 1) for _ in range(2)]
        assert np.array_equal(found, again)
        assert replay(graph, found.tolist()).peak_bytes <= cap
        assert tables.seconds(found) <= tables.seconds(start) + 1e-12
        better += tables.seconds(found) < tables.seconds(start) - 1e-12
    assert better > 10


def thinned_problems(seeds: range, most: int) -> Iterator[tuple[RematTables, Int64Array, int]]:
    """Yield tables, sequences with runs put in, and caps that are theirs or looser."""
    for _, tables, order, cap in problems(seeds, most):
        sequence = RunSearch(tables).fitted(order, cap)
        if sequence is not None:
            half = int(tables.graph.buffer_bytes.max(initial=0)) // 2
            yield from ((tables, sequence, cap + more) for more in sorted({0, 1, 2, half}))


def test_what_is_said_not_to_go_does_not() -> None:
    """A run that `may_go` keeps cannot be taken out alone: the sequence would not fit."""
    kept = gone = 0
    for tables, sequence, cap in thinned_problems(range(400), 20):
        room, problem = mending.mending(tables.problem.graph), tables.problem
        measure(problem.graph, sequence, len(sequence), NO_CAP, room.bytes, room.liveness)
        mending.list_uses(problem, sequence, len(sequence), room.uses)
        for step in range(len(sequence)):
            if step == room.uses.first[sequence[step]]:
                continue
            fits = step_bytes(tables, np.delete(sequence, step)).max() <= cap
            may = thinning.may_go.python(problem, sequence, step, cap, room) >= 0
            assert may or not fits
            kept, gone = kept + (not may), gone + bool(fits)
    assert kept > 50
    assert gone > 50


@pytest.mark.parametrize(("count", "most"), [(800, 12), (400, 20), (200, 40)])
def test_thinned_sequences_are_those_of_trying_each_run_by_itself(count: int, most: int) -> None:
    shorter = 0
    for tables, sequence, cap in thinned_problems(range(count), most):
        made = _thin(tables, sequence, cap)
        assert made == _thinned(tables, sequence, cap).tolist()
        shorter += len(made) < len(sequence)
    assert shorter > 50


def test_a_run_goes_without_which_what_it_reads_is_taken_over() -> None:
    """Nodes 1 and 2 read what node 0 makes; node 2 writes over it where node 1 runs no more."""
    readers, sizes, own = [[1, 2], [3], [3], []], np.array([4, 4, 4, 0]), np.array([0, 0, 3, 0])
    graph = graph_of(readers, own, sizes, np.full(4, 1e-6))
    tables = tables_of(replace(graph, shares=np.array([[2, 0, 2]], np.int32)))
    sequence = np.array([0, 1, 2, 1, 3])
    assert step_bytes(tables, sequence).tolist() == [4, 8, 11, 12, 8]
    assert step_bytes(tables, np.arange(4)).tolist() == [4, 8, 11, 8]
    assert _thin(tables, sequence, 12) == [0, 1, 2, 3]
    assert Improver(tables).improved(sequence, 12).tolist() == [0, 1, 2, 3]


def _thin(tables: RematTables, sequence: Int64Array, cap: int) -> list[int]:
    """A sequence as `thin` leaves it."""
    made, room = sequence.copy(), mending.mending(tables.problem.graph)
    length = thinning.thin(tables.problem, made, len(made), cap, 0, room)
    return [int(node) for node in made[:length]]


def _thinned(tables: RematTables, sequence: Int64Array, cap: int) -> Int64Array:
    """A sequence without the runs that it can spare: the dearest first, then the last."""
    first = set(np.unique(sequence, return_index=True)[1].tolist())
    again = [step for step in range(len(sequence)) if step not in first]
    again.sort(key=lambda step: (-tables.cost[sequence[step]], -step))
    gone: list[int] = []
    for step in again:
        rest = np.delete(sequence, [*gone, step])
        if step_bytes(tables, rest).max(initial=0) <= cap:
            gone.append(step)
    return np.delete(sequence, gone)


@pytest.mark.parametrize("seed", range(6))
def test_no_kernel_leaves_its_arrays(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Kernel, "__call__", run_as_python)
    for graph, tables, order, cap in problems(range(seed, seed + 1)):
        search = RunSearch(tables)
        start = search.fitted(order, cap)
        if start is not None:
            found = search.searched(start, cap, 10, lambda: False, 1)
            assert replay(graph, found.tolist()).peak_bytes <= cap
