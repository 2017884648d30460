"""ONNX's own suite: one case of each operator that has no test of its own, and the whole of it."""

import importlib.util
from pathlib import Path

import pytest

onnx = pytest.importorskip("onnx", reason="ONNX's suite comes with the package onnx")

from tests.onnx.slice import CASES  # noqa: E402

_FILE = Path(__file__).parents[2] / "benchmarks" / "onnx_suite.py"
_SPEC = importlib.util.spec_from_file_location("onnx_suite", _FILE)
suite = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(suite)

LEAST_PASSED = 2000

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def node_cases():
    return {case.name: case for case in suite.cases("node")}


@pytest.mark.parametrize("name", CASES)
def test_case_of_the_suite(name, node_cases):
    if name not in node_cases:
        pytest.skip(f"onnx {onnx.__version__} has no case {name}")
    suite.run_case(node_cases[name], "native")


@pytest.mark.slow
def test_the_whole_suite():
    found = [suite.outcome(case, "native") for kind in suite.KINDS for case in suite.cases(kind)]
    assert suite.count_passed(found) >= LEAST_PASSED
