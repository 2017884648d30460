"""The compiled evaluator against the replay, and the replay against its rules."""

from random import Random

import numpy as np
import pytest
from tests.remat.replay import ReplayError, replay
from tests.remat.small_graphs import random_graph

from lowtide.analysis.memory_graph import MemoryGraph
from lowtide.analysis.memory_profile import step_bytes as order_step_bytes
from lowtide.remat.bound import topological_order
from lowtide.remat.expand import ExpandedRows, expanded
from lowtide.remat.measure import step_bytes
from lowtide.remat.slide import settled
from lowtide.remat.tables import tables_of


def random_sequence(graph: MemoryGraph, random: Random) -> list[int]:
    """A valid sequence that runs some nodes again."""
    control = graph.control.rows()
    sequence: list[int] = []
    closed: set[int] = set()
    for node in topological_order(tables_of(graph)).tolist():
        again = [x for x in sequence if x not in closed]
        sequence += random.sample(again, min(len(again), random.choice((0, 0, 1, 2))))
        sequence.append(node)
        closed.update(control[node])
    return sequence


@pytest.mark.parametrize("seed", range(60))
def test_measure_agrees_with_replay(seed: int) -> None:
    random = Random(seed)
    graph = random_graph(random, 14)
    tables = tables_of(graph)
    sequence = random_sequence(graph, random)
    steps = step_bytes(tables, np.array(sequence, np.int64))
    checked = replay(graph, sequence)
    assert (int(steps.max()), int(steps.argmax())) == (checked.peak_bytes, checked.peak_step)
    extra = sum(graph.seconds[sequence]) - graph.seconds.sum()
    assert checked.extra_seconds == pytest.approx(extra, abs=1e-15)
    assert tables.seconds(np.array(sequence)) == pytest.approx(extra, abs=1e-15)


@pytest.mark.parametrize("seed", range(40))
def test_an_order_costs_what_the_profile_says(seed: int) -> None:
    graph = random_graph(Random(seed), 14)
    tables = tables_of(graph)
    order = topological_order(tables)
    assert step_bytes(tables, order).tolist() == order_step_bytes(graph, order).tolist()


@pytest.mark.parametrize("seed", range(60))
def test_expanded_graphs_cost_the_same_and_settle_to_valid_sequences(seed: int) -> None:
    random = Random(seed)
    graph = random_graph(random, 12)
    sequence = np.array(random_sequence(graph, random), np.int64)
    runs = expanded(graph, ExpandedRows(graph), sequence)
    tables = tables_of(runs)
    same = np.arange(len(sequence))
    before = step_bytes(tables_of(graph), sequence)
    assert step_bytes(tables, same).tolist() == before.tolist()
    near = settled(tables, same, np.ones(len(sequence), np.int64), 10)
    moved = sequence[near]
    replay(graph, moved.tolist())
    after = step_bytes(tables, near)
    assert step_bytes(tables_of(graph), moved).max() <= after.max()


def chain() -> MemoryGraph:
    """A graph whose node 1 reads node 0's buffer."""
    for seed in range(1000):
        graph = random_graph(Random(seed), 3)
        pairs = zip(graph.producer.tolist(), graph.consumers.rows(), strict=True)
        if any(producer == 0 and 1 in readers for producer, readers in pairs):
            return graph
    raise AssertionError("no such graph")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda order: order[:-1], "never run"),
        (lambda order: [1, 0, *order[2:]], "before it is written"),
        (lambda order: [*order, 99], "no node 99"),
    ],
)
def test_replay_refuses_what_breaks_a_rule(change, problem: str) -> None:
    graph = chain()
    with pytest.raises(ReplayError, match=problem):
        replay(graph, change(list(range(graph.node_count))))


def test_replay_refuses_a_run_after_one_that_waits_for_it() -> None:
    for seed in range(200):
        graph = random_graph(Random(seed))
        listed = graph.control.items.tolist()
        if listed:
            order = topological_order(tables_of(graph)).tolist()
            with pytest.raises(ReplayError, match="again after one that waits for it"):
                replay(graph, [*order, listed[0]])
            return
    raise AssertionError("no graph has control")
