"""The tables of a graph hold what the graph says, and matchings on them are largest ones."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from tests.scheduling.small_graphs import small_graph

from lowtide.analysis.graph_tables import GraphTables, Rows, tables_of, with_edges
from lowtide.analysis.memory_graph import MemoryGraph
from lowtide.analysis.memory_profile import matched_bytes
from lowtide.analysis.taken_over import NONE, matching, taken_over


def graphs(count: int) -> list[MemoryGraph]:
    return [small_graph(Random(seed), 2, 14).memory_graph() for seed in range(count)]


def lists(rows: Rows) -> list[list[int]]:
    ends = zip(rows.starts[:-1].tolist(), rows.starts[1:].tolist(), strict=True)
    return [rows.items[a:b].tolist() for a, b in ends]


@pytest.mark.parametrize("graph", graphs(40))
def test_tables_hold_what_the_graph_says(graph: MemoryGraph) -> None:
    tables = tables_of(graph)
    consumers, producer = graph.consumers.rows(), graph.producer.tolist()
    before: list[set[int]] = [set() for _ in range(graph.node_count)]
    for rows in (graph.operands.rows(), graph.control.rows()):
        for node, others in enumerate(rows):
            before[node] |= set(others)
    for b, nodes in enumerate(consumers):
        for node in nodes:
            before[node] |= {producer[b]} - {-1, node}
    assert lists(tables.users) == consumers
    assert [set(row) for row in lists(tables.before)] == before
    assert [len(row) for row in lists(tables.before)] == [len(row) for row in before]
    for node in range(graph.node_count):
        assert lists(tables.behind)[node] == [v for v, row in enumerate(before) if node in row]
        assert lists(tables.reads)[node] == [b for b, row in enumerate(consumers) if node in row]
        assert lists(tables.makes)[node] == [b for b, v in enumerate(producer) if v == node]
    assert tables.total == graph.buffer_bytes.sum() + tables.own_bytes.sum()


def with_kept_operands(graph: MemoryGraph) -> MemoryGraph:
    """The graph with every second buffer kept to the end, operands of pairs among them."""
    kept = np.arange(len(graph.live_out)) % 2 == 0
    return replace(graph, live_out=kept)


@pytest.mark.parametrize("graph", [*graphs(40), *map(with_kept_operands, graphs(40))])
def test_the_most_bytes_are_taken_over(graph: MemoryGraph) -> None:
    tables, size = tables_of(graph), graph.buffer_bytes.tolist()
    room = matching(tables.buffers)
    random = np.random.default_rng(0)
    for node in range(tables.nodes):
        left = random.integers(0, 2, tables.buffers)
        dying = (left == 0) & ~graph.live_out
        pairs = [(a, b) for v, a, b in graph.shares.tolist() if v == node and dying[a]]
        for kernel in (taken_over, taken_over.python):
            assert kernel(tables, node, left, 0, room) == matched_bytes(pairs, size)
            assert (room.partner == NONE).all()


def with_twins() -> MemoryGraph:
    """A graph in which some node has two operands and two results that they may become."""
    kinds = [(np.unique(g.shares, axis=0), g) for g in graphs(400)]
    for shares, graph in kinds:
        for node in np.unique(shares[:, 0]).tolist():
            rows = shares[shares[:, 0] == node]
            if len(set(rows[:, 1].tolist())) > 1 and len(set(rows[:, 2].tolist())) > 1:
                return graph
    raise AssertionError("no graph lets a node choose")


def test_some_nodes_can_choose_what_to_take_over() -> None:
    graph = with_twins()
    assert not tables_of(graph).pairs.has_one_made.all()
    test_the_most_bytes_are_taken_over(graph)


def test_edges_are_added_once_and_the_rest_stays() -> None:
    tables = tables_of(graphs(1)[0])
    first, last = np.array([0, 0]), np.array([tables.nodes - 1] * 2)
    more = with_edges(tables, first, last)
    assert lists(more.behind)[0].count(tables.nodes - 1) == 1
    assert lists(more.before)[-1].count(0) == 1
    assert more.reads is tables.reads
    assert lists(with_edges(more, first, last).behind) == lists(more.behind)


def test_equal_graphs_have_equal_keys_and_others_not() -> None:
    tables = [tables_of(graph) for graph in graphs(40)]
    keys = {one.key() for one in tables}
    texts = {repr([lists(one.before), lists(one.users), _numbers(one)]) for one in tables}
    assert len(keys) == len(texts)
    again = [tables_of(graph) for graph in graphs(40)]
    assert [one.key() for one in again] == [one.key() for one in tables]


def _numbers(tables: GraphTables) -> list[list[int]]:
    columns = (tables.size, tables.producer, tables.live_out, tables.own_bytes)
    pairs = (tables.pairs.starts, tables.pairs.read, tables.pairs.made)
    return [column.tolist() for column in (*columns, *pairs)]
