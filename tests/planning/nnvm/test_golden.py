"""Plans of dmlc/nnvm, produced by the original C++, and the examples of its tests."""

import json

import pytest
from tests.support import CONFORMANCE, needs_shared

from lowtide.planning import nnvm

SETTINGS = {
    "default": {},
    "match_range_0": {"match_range": 0},
    "match_range_1": {"match_range": 1},
    "auto_search": {"auto_search_match_range": True},
    "num_temp_3": {"num_temp": 3},
}
VARIABLES = {
    "default": {},
    "match_range_0": {"NNVM_EXEC_MATCH_RANGE": "0"},
    "match_range_1": {"NNVM_EXEC_MATCH_RANGE": "1"},
    "auto_search": {"NNVM_AUTO_SEARCH_MATCH_RANGE": "1"},
    "num_temp_3": {"NNVM_EXEC_NUM_TEMP": "3"},
}


def cases():
    return json.loads((CONFORMANCE / "planner_cases.json").read_text())["nnvm"]


def as_json(plan):
    return {
        "storage_id": list(plan.storage_id),
        "inplace_index": list(plan.inplace_index),
        "bytes": plan.bytes,
        "not_allocated": plan.not_allocated,
    }


@needs_shared
@pytest.mark.parametrize("setting", SETTINGS)
def test_plans_of_the_original(setting):
    found = cases()
    assert found["golden_cpp"]
    for graph in found["golden_cpp"]:
        plan = nnvm.plan(graph, ops=found["ops"], **SETTINGS[setting])
        assert as_json(plan) == graph["expected"][setting]
        options = nnvm.options_from(VARIABLES[setting])
        assert nnvm.plan(graph, ops=found["ops"], **options) == plan


@needs_shared
def test_example_of_nnvm():
    found = cases()
    graph = found["test_plan_memory"]
    plan = nnvm.plan(graph, ops=found["ops"])
    assert as_json(plan) == graph["full"]
    decorated = nnvm.decorate(graph, plan, ops=found["ops"])
    assert list(decorated.storage_id) == graph["after_decorate"]["storage_id"]
    pool = nnvm.StoragePool(nnvm.read_graph(graph), decorated.storage_id)
    assert pool.sizes == (32, 32, 32)


def chain(length):
    """x: (10,), y: (1,); exp(y); x + exp(y); then exp again and again."""
    nodes = [
        {"name": "x", "op": None, "inputs": [], "sizes": [10]},
        {"name": "y", "op": None, "inputs": [], "sizes": [1]},
        {"name": "y2", "op": "exp", "inputs": [[1, 0]], "sizes": [1]},
        {"name": "z", "op": "add", "inputs": [[0, 0], [2, 0]], "sizes": [10]},
    ]
    nodes += [
        {"name": f"e{k}", "op": "exp", "inputs": [[k, 0]], "sizes": [10]}
        for k in range(3, 3 + length)
    ]
    return {"nodes": nodes, "outputs": [[3 + length, 0]]}


def test_example_of_relay():
    plan = nnvm.plan(chain(5), variant="relay")
    assert len(set(plan.storage_id)) == 4
    assert plan.storage_id[:2] == (0, 1)
    assert plan.block_bytes == (40, 4, 40, 40)


def test_elements_of_equal_width_share_a_place_in_tvm_only():
    nodes = [
        {"op": None, "inputs": [], "sizes": [8], "dtype": "float32"},
        {"op": "conv2d", "inputs": [[0, 0]], "sizes": [8], "dtype": "float32"},
        {"op": "cast", "inputs": [[1, 0]], "sizes": [8], "dtype": "int32"},
        {"op": "cast", "inputs": [[2, 0]], "sizes": [8], "dtype": "float64"},
    ]
    graph = {"nodes": nodes, "outputs": [[3, 0]]}
    assert nnvm.plan(graph).inplace_index == (-1, -1, -1, -1)
    assert nnvm.plan(graph, variant="tvm").inplace_index == (-1, -1, 0, -1)


def test_an_identity_of_another_type_is_none_in_tvm():
    nodes = [
        {"op": None, "inputs": [], "sizes": [8], "dtype": "float32"},
        {"op": "conv2d", "inputs": [[0, 0]], "sizes": [8], "dtype": "float32"},
        {"op": "reshape", "inputs": [[1, 0]], "sizes": [8], "dtype": "int32"},
        {"op": "reshape", "inputs": [[1, 0]], "sizes": [8], "dtype": "float32"},
    ]
    graph = {"nodes": nodes, "outputs": [[1, 0], [2, 0], [3, 0]]}
    assert nnvm.plan(graph).inplace_index == (-1, -1, -1, 0)
    plan = nnvm.plan(graph, variant="tvm")
    assert plan.inplace_index == (-1, -1, -1, 0)
    assert plan.storage_id == (-1, 0, 1, 0)


def test_one_output_takes_the_place_of_an_input():
    """Also where several could, since none of them changes a byte."""
    twice = {"inplace_pairs": [[0, 0], [0, 1]], "identity": [True, True]}
    nodes = [
        {"op": None, "inputs": [], "sizes": [8]},
        {"op": "conv2d", "inputs": [[0, 0]], "sizes": [8]},
        {"op": "twice", "inputs": [[1, 0]], "sizes": [8, 8], **twice},
    ]
    plan = nnvm.plan({"nodes": nodes, "outputs": [[2, 0], [2, 1]]})
    assert plan.storage_id == (-1, 0, 0, 1)
    assert plan.inplace_index == (-1, -1, 0, -1)


def test_presets():
    graph = chain(3)
    external = nnvm.plan({**graph, "storage": [-1, -2, -1, -1, -3, -1, -2]})
    assert external.storage_id == (-1, -2, 0, 1, -3, 1, -2)
    assert external.not_allocated == 0
    graph = chain(0)
    others = nnvm.plan({**graph, "storage": [-1, -2, -2, -3]})
    assert nnvm.decorate(graph, others).storage_id == (0, 1, -2, -3)
    graph = chain(3)
    counted = nnvm.plan({**graph, "ref_count": [1, 1, 1, 2, 1, 1, 1]})
    assert counted.inplace_index == (-1, -1, -1, -1, -1, 0, 0)
    part = nnvm.plan({**graph, "node_range": [0, 4]})
    assert part.storage_id == (-1, -1, 0, 1, -1, -1, -1)


def test_unknown_shapes_are_not_allocated():
    graph = chain(2)
    graph["nodes"][4]["sizes"] = [-1]
    plan = nnvm.plan(graph)
    assert plan.storage_id == (-1, -1, 0, 1, -1, 1)
    assert plan.not_allocated == 1
    with pytest.raises(ValueError, match="1 entries have no storage"):
        nnvm.decorate(graph, plan)


def test_search_up_to_nothing_plans_nothing():
    plan = nnvm.plan(chain(2), match_range=0, auto_search_match_range=True)
    assert set(plan.storage_id) == {-1}
    assert (plan.bytes, plan.not_allocated, plan.match_range) == (0, 4, None)


def test_blocks_do_not_change_devices():
    graph = chain(0)
    graph["nodes"] += [
        {"op": "dense", "inputs": [[3, 0]], "sizes": [10]},
        {"op": "dense", "inputs": [[4, 0]], "sizes": [10]},
        {"op": "dense", "inputs": [[5, 0]], "sizes": [10]},
    ]
    graph["outputs"] = [[6, 0]]
    assert nnvm.plan(graph).storage_id[3:] == (1, 0, 1, 0)
    graph["device"] = [0, 0, 0, 0, 0, 1, 1]
    assert nnvm.plan(graph).storage_id[3:] == (1, 0, 2, 3)
