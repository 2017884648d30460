"""Ops of ONNX's and TensorFlow's tables as native code: what NumPy says of each holds."""

import pytest
from tests.frontend.graphs import cases, test_onnx_ops, test_tensorflow_ops

from lowtide.client.executable import compile_module
from lowtide.options import Options

PAIRS = [
    *[(cases.run_onnx, x) for x in test_onnx_ops.CASES],
    *[(cases.run_tensorflow, x) for x in test_tensorflow_ops.CASES],
]
EVERY = 16
"""Of so many cases one is compiled in each run of the tests, all of them in slow ones."""


def chosen() -> list:
    marks = [[] if number % EVERY == 0 else [pytest.mark.slow] for number in range(len(PAIRS))]
    return [pytest.param(*x, id=str(x[1]), marks=m) for x, m in zip(PAIRS, marks, strict=True)]


@pytest.mark.parametrize(("run", "case"), chosen())
def test_native_code_gives_what_numpy_says(run, case, monkeypatch) -> None:
    options = Options(cache=False, threads=2)
    monkeypatch.setattr(cases, "evaluate", lambda module, x: compile_module(module, options)(*x))
    cases.check(case, run(case))
