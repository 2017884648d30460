"""The arena planner of TFLite's CPU runtime."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support import CONFORMANCE, needs_shared

from lowtide.planning.tflite_arena import NEVER, SimpleMemoryArena, plan


def _cases(kind: str) -> list[dict[str, Any]]:
    cases: dict[str, Any] = json.loads((CONFORMANCE / "planner_cases.json").read_text())
    found: list[dict[str, Any]] = cases["tflite_arena"][kind]
    return found


@needs_shared
def test_arenas_as_upstream_expects() -> None:
    for case in _cases("simple_memory_arena"):
        arena = SimpleMemoryArena()
        offsets = [arena.allocate(*row, case["align"]) for row in case["allocs"]]
        assert offsets == case["offsets"]


@needs_shared
def test_plans_as_upstream_expects() -> None:
    for case in _cases("planner"):
        found = plan(case, case["align"], case.get("preserve_all", False))
        assert list(found.offsets) == case["offsets"], case["name"]
        assert found.arena_size == case["arena_size"], case["name"]
        assert plan(case) == found


def test_the_best_gap_is_measured_from_where_it_begins() -> None:
    """The gap from 9 to 24 holds 8 bytes from 16 on, but counts as 15: the next one is better."""
    arena = SimpleMemoryArena()
    for nbytes, last in ((9, 9), (15, 4), (20, 9), (13, 4), (10, 9)):
        arena.allocate(nbytes, 0, last, 1)
    assert arena.allocate(8, 5, 9, 8) == 48


def _node(inputs: list[int], outputs: list[int], **more: Any) -> dict[str, Any]:
    return {"inputs": inputs, "outputs": outputs, **more}


def test_a_graph_without_nodes_has_its_inputs_only() -> None:
    found = plan({"inputs": [0, 2], "nodes": [], "outputs": [1, 3]}, 4)
    assert found.offsets == (0, None, 4, None)
    assert found.arena_size == 13


def test_tensors_without_bytes_are_never_allocated() -> None:
    graph = {"inputs": [0], "nodes": [_node([0], [1])], "outputs": [1], "bytes": [0, 6]}
    assert plan(graph, 4).offsets == (None, 0)


def test_variables_stay_and_persistent_tensors_have_an_arena_of_their_own() -> None:
    nodes = [_node([0, 1], [2]), _node([2], [3])]
    graph = {"inputs": [0], "nodes": nodes, "outputs": [3], "variables": [1], "bytes": [8] * 4}
    assert plan(graph, 4).offsets == (0, 8, 16, 24)
    assert plan(graph, 4).last == (NEVER, NEVER, 1, NEVER)
    found = plan({**graph, "persistent": [1]}, 4)
    assert (found.offsets, found.arena_size) == ((0, 0, 8, 16), 24)
    assert (found.persistent, found.persistent_size) == (frozenset({1}), 8)


@pytest.mark.parametrize(
    ("change", "shares"),
    [
        ({}, True),
        ({"inplace": [1]}, False),
        ({"inplace": ["unmod"]}, False),
        ({"bytes": [8, 8, 4, 8]}, False),
        ({"bytes": [8, 4, 4, 8]}, False),
        ({"bytes": [8, 4, 4, 8], "inplace": [0, "unmod"]}, True),
        ({"outputs": [2]}, False),
        ({"persistent": [1]}, False),
        ({"persistent": [1, 2]}, False),
        ({"inputs": [1]}, False),
        ({"inputs": [], "constants": [1]}, False),
        ({"preserve_all": True}, False),
        ({"third": [1]}, False),
        ({"third": [1], "inplace": [0, "unmod"]}, True),
    ],
)
def test_which_output_takes_over_the_memory_of_an_input(
    change: dict[str, Any], shares: bool
) -> None:
    """Tensors 0 -> 1 -> 2 -> 3, the second operation in place; all have 8 bytes."""
    change = dict(change)
    nodes = [
        _node([0], [1]),
        _node([1], [2], inplace=change.pop("inplace", [0])),
        _node([2, *change.pop("third", [])], [3]),
    ]
    nodes = nodes[len(nodes) - 2 :] if "constants" in change else nodes
    graph = {"inputs": [0], "nodes": nodes, "outputs": [3], "bytes": [8] * 4}
    found = plan({**graph, **change}, 4)
    assert (found.shares_with[2] == 1) == shares


def test_a_view_of_another_size_has_memory_of_its_own_to_the_end() -> None:
    nodes = [_node([0], [1]), _node([1], [2], inplace=[0, "unmod"]), _node([2], [3])]
    graph = {"inputs": [0], "nodes": nodes, "outputs": [3], "bytes": [8, 8, 4, 8]}
    found = plan(graph, 4)
    assert found.shares_with == (0, 1, 2, 3)
    assert found.last == (NEVER, 2, NEVER, NEVER)


@st.composite
def _graphs(draw: st.DrawFn) -> dict[str, Any]:
    """A chain of nodes that read any tensors before them, but for temporaries."""
    inputs = list(range(draw(st.integers(1, 3))))
    readable, count, nodes = [-1, *inputs], len(inputs), []
    for _ in range(draw(st.integers(1, 8))):
        read = draw(st.lists(st.sampled_from(readable), min_size=1, max_size=3))
        outputs = list(range(count, count + draw(st.integers(1, 2))))
        readable += outputs
        temporaries = [count + len(outputs)] if draw(st.booleans()) else []
        count += len(outputs) + len(temporaries)
        choices = st.sampled_from([[], [0], [0, 1], [0, "unmod"], [2]])
        nodes.append(_node(read, outputs, temporaries=temporaries, inplace=draw(choices)))
    sizes = draw(st.lists(st.sampled_from([0, 4, 8, 24, 100]), min_size=count, max_size=count))
    return {"inputs": inputs, "outputs": readable[-1:], "nodes": nodes, "bytes": sizes}


@settings(max_examples=200, deadline=None)
@given(_graphs(), st.sampled_from([1, 4, 64]))
def test_what_lives_together_does_not_overlap(graph: dict[str, Any], alignment: int) -> None:
    """Lifetimes are worked out anew: from the node that writes to the last that reads."""
    found = plan(graph, alignment)
    first = dict.fromkeys(graph["inputs"], 0)
    last = dict.fromkeys([*graph["inputs"], *graph["outputs"]], len(graph["nodes"]))
    for number, node in enumerate(graph["nodes"]):
        first |= dict.fromkeys([*node["outputs"], *node["temporaries"]], number)
        for tensor in (*node["inputs"], *node["outputs"], *node["temporaries"]):
            last[tensor] = max(last.get(tensor, 0), number)
    for a in first:
        for b in first:
            if a >= b or found.shares_with[a] == found.shares_with[b]:
                continue
            if first[a] > last[b] or first[b] > last[a]:
                continue
            x, y = found.offsets[a], found.offsets[b]
            if x is not None and y is not None:
                assert x + graph["bytes"][a] <= y or y + graph["bytes"][b] <= x
    assert all(x % alignment == 0 for x in found.offsets if x is not None)


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        ({"inputs": [], "outputs": []}, "the graph lacks nodes"),
        ({"inputs": [3], "outputs": [], "nodes": [], "bytes": [1]}, "of the tensors 0 to 3"),
        ({"inputs": [0], "outputs": [], "nodes": [], "bytes": [-1]}, "not negative"),
        ({"inputs": [], "outputs": [], "nodes": [_node([-2], [])]}, "node 0 has a tensor below"),
        ({"inputs": [], "outputs": [], "nodes": [_node([], [], inplace=["x"])]}, "in place are"),
        ({"inputs": [], "outputs": [], "nodes": [], "align": 0}, "alignment 0"),
    ],
)
def test_graphs_that_cannot_be(graph: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plan(graph)
