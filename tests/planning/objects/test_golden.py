"""The outputs of the originals: upstream's assertions, and runs of the compiled C++."""

import json

import pytest
from tests.support import CONFORMANCE, needs_shared

from lowtide.planning import TensorUsageRecord, assign_objects
from lowtide.planning.objects.task_profile import (
    lower_bound_offsets,
    lower_bound_shared_objects,
    positional_maximums,
    task_profiles,
)
from lowtide.planning.objects.usage_graph import reallocation_graph

pytestmark = needs_shared


@pytest.fixture(scope="module")
def cases():
    return json.loads((CONFORMANCE / "planner_cases.json").read_text())["tflite"]


def records_of(case):
    return [
        TensorUsageRecord(tuple(size) if isinstance(size, list) else size, first, last)
        for size, first, last in case["records"]
    ]


def check(case, name, graph=None):
    plan = assign_objects(records_of(case), name.lower(), reallocation_graph=graph)
    sizes = [list(size) if isinstance(size, tuple) else size for size in plan.object_sizes]
    assert {"object_ids": list(plan.object_ids), "object_sizes": sizes} == case["expected"][name]


def test_upstream_cases(cases):
    for case in [*cases["sets"].values(), *cases["multi_dim"].values()]:
        for name in case["expected"]:
            check(case, name)


def test_original_programs(cases):
    for case in cases["golden_cpp"]:
        assert positional_maximums(records_of(case)) == case["positional_maximums"]
        graph = reallocation_graph(case["deps"]) if "deps" in case else None
        for name in case["expected"]:
            check(case, name, graph if name == "GREEDY_IN_ORDER" else None)


def test_reallocation_graphs(cases):
    for case in cases["reallocation_graph"]:
        assert reallocation_graph(case["deps"]) == case["realloc"]


def test_task_profiles(cases):
    for case in cases["task_profiles"]:
        records = records_of(case)
        assert task_profiles(records) == case["profiles"]
        assert positional_maximums(records) == case["positional_maximums"]
        assert lower_bound_shared_objects(records) == case["lower_bound_shared"]
        assert lower_bound_offsets(records) == case["lower_bound_offsets"]
