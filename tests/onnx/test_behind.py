"""Sessions whose evaluator answers while native code is compiled, and where that is done."""

import json
import subprocess
import sys
from threading import Event

import numpy as np
import pytest
from tests.onnx.models import WEIGHTS, perceptron, through_host
from tests.support import HANG_SECONDS

from lowtide.client.executable.executable import Executable
from lowtide.ir.errors import LowtideError
from lowtide.onnx import InferenceSession
from lowtide.onnx.behind import BehindProgram

QUICK = {"effort": "fast", "threads": 1, "compile": "behind", "cache": False}


def feeds(batch: int) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(batch).normal(size=(batch, 96)).astype(np.float32)}


def expected(given: dict[str, np.ndarray]) -> np.ndarray:
    return np.maximum(given["x"] @ WEIGHTS, 0)


class Gate:
    """A compilation that goes on when it is told to."""

    def __init__(self, session: InferenceSession) -> None:
        self.open, self.begun = Event(), []
        self.compile, session._compile = session._compile, self

    def __call__(self, module):
        self.begun.append(module.name)
        assert self.open.wait(HANG_SECONDS)
        return self.compile(module)


def natives(session: InferenceSession) -> list[object]:
    return [x.native for _, x in session._runner.programs() if isinstance(x, BehindProgram)]


def test_the_first_shapes_are_compiled_while_the_evaluator_answers():
    session = InferenceSession(perceptron(), **QUICK)
    gate = Gate(session)
    first = session.run(None, feeds(3))[0]
    assert natives(session) == [None] and not session.memory["programs"]
    gate.open.set()
    session.wait_compiled()
    assert len(gate.begun) == 1 and isinstance(natives(session)[0], Executable)
    second = session.run(None, feeds(3))[0]
    assert len(session.memory["programs"]) == 1
    for y in (first, second):
        np.testing.assert_allclose(y, expected(feeds(3)), rtol=1e-4, atol=1e-4)


def test_other_shapes_are_compiled_from_their_second_run_on():
    session = InferenceSession(perceptron(), **QUICK)
    gate = Gate(session)
    gate.open.set()
    for batches, begun in (([1], 1), ([2], 1), ([5], 1), ([2], 2), ([2, 2, 1], 2), ([5, 7], 3)):
        for batch in batches:
            given = feeds(batch)
            (y,) = session.run(None, given)
            np.testing.assert_allclose(y, expected(given), rtol=1e-4, atol=1e-4)
        session.wait_compiled()
        assert len(gate.begun) == begun, batches


def test_a_graph_with_nodes_on_the_host_is_compiled_behind_too():
    session = InferenceSession(through_host(), **QUICK)
    for _ in range(2):
        for x, total in (([0.0, 1, 0, 2], 6.0), ([0.0, 0, 0, 0], 0.0)):
            assert session.run(None, {"x": np.array(x, np.float32)})[0] == total
        session.wait_compiled()


def test_what_a_compilation_refuses_is_raised_by_the_next_run():
    session = InferenceSession(perceptron(), **QUICK)

    def refuse(module):
        raise LowtideError("it cannot be")

    session._compile = refuse
    session.run(None, feeds(1))
    session.wait_compiled()
    with pytest.raises(LowtideError, match="it cannot be"):
        session.run(None, feeds(1))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"memory": "1MiB"}, "the evaluator keeps to no memory"),
        ({"compile": "behnd"}, "compile is one of lazy, ahead, behind; found 'behnd'"),
        ({"compiler": "hare"}, "compiler is one of child, here; found 'hare'"),
    ],
)
def test_settings_that_cannot_be_are_errors(options, message):
    with pytest.raises(ValueError, match=message):
        InferenceSession(perceptron(), **{**QUICK, **options})


_WITHOUT_LLVM = """
import json, os, sys
import numpy as np
from tests.onnx.models import perceptron
from lowtide.onnx import InferenceSession

session = InferenceSession(perceptron(), **json.loads(sys.argv[1]))
for _ in range(2):
    y = session.run(None, {"x": np.ones((2, 96), np.float32)})[0]
    session.wait_compiled()
loaded = [x for x in ("llvmlite", "lowtide.compiler", "lowtide.scheduling") if x in sys.modules]
print(json.dumps([float(y.sum()), loaded, len(session.memory["programs"])]))
"""


@pytest.mark.parametrize(
    "options", [{}, {"compile": "behind"}, {"compile": "behind", "cache": False}]
)
def test_with_an_empty_cache_a_session_loads_no_compiler(options, tmp_path, monkeypatch):
    monkeypatch.setenv("LOWTIDE_CACHE", str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_LLVM, json.dumps(options)],
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_SECONDS,
    )
    assert not done.returncode, done.stderr
    total, loaded, programs = json.loads(done.stdout)
    assert total == pytest.approx(float(expected({"x": np.ones((2, 96), np.float32)}).sum()), 1e-4)
    assert (loaded, programs) == ([], 1)


@pytest.mark.parametrize(
    ("wrong", "meant"), [("compilr", "compiler"), ("shape", "shapes"), ("efort", "effort")]
)
def test_a_misspelt_name_is_told_with_the_nearest_of_all(wrong: str, meant: str) -> None:
    with pytest.raises(TypeError, match=f"no option '{wrong}'; did you mean '{meant}'.*'kept'"):
        InferenceSession(perceptron(), **{wrong: "x"})
