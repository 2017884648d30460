"""Runs on feeds like the last ones, which take the program of these without a look at the graph."""

import numpy as np
import pytest
from tests.onnx.models import helper, tensor

from lowtide.ir.errors import InputError
from lowtide.onnx import InferenceSession

FLOAT, INT64 = 1, 7


def session_of(nodes, inputs, outputs, **options):
    graph = helper.make_graph(nodes, "graph", inputs, outputs)
    imports = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=8)
    return InferenceSession(model, threads=1, cache=False, **options)


def two_outputs(**options):
    nodes = [
        helper.make_node("Add", ["x", "x"], ["twice"]),
        helper.make_node("Neg", ["x"], ["opposite"]),
    ]
    outputs = [tensor(x, FLOAT, ["n"]) for x in ("twice", "opposite")]
    return session_of(nodes, [tensor("x", FLOAT, ["n"])], outputs, **options)


def test_equal_types_and_sizes_are_run_again_on_other_values():
    session = two_outputs()
    kept = []
    for number in range(4):
        x = np.arange(3, dtype=np.float32) + number
        kept.append((x, session.run(None, {"x": x})))
    assert session._repeated is not None
    for x, (twice, opposite) in kept:
        np.testing.assert_array_equal(twice, 2 * x)
        np.testing.assert_array_equal(opposite, -x)


def test_outputs_come_in_the_order_that_is_asked_for():
    session = two_outputs()
    x = np.ones(2, np.float32)
    session.run(None, {"x": x})
    opposite, twice = session.run(["opposite", "twice"], {"x": x})
    assert opposite.tolist() == [-1, -1] and twice.tolist() == [2, 2]
    assert session.run(["opposite"], {"x": x})[0].tolist() == [-1, -1]


@pytest.mark.parametrize(
    "feeds", [{"x": np.ones(2)}, {"x": np.ones((2, 1), np.float32)}, {"y": np.ones(2, np.float32)}]
)
def test_other_feeds_are_checked_as_at_first(feeds):
    session = two_outputs()
    session.run(None, {"x": np.ones(2, np.float32)})
    with pytest.raises(InputError):
        session.run(None, feeds)


def test_feeds_that_are_no_arrays_become_such():
    session = two_outputs()
    session.run(None, {"x": np.ones(2, np.float32)})
    assert session.run(None, {"x": [1.0, 3.0]})[0].tolist() == [2, 6]


def test_no_more_programs_are_kept_than_asked_for():
    session = two_outputs(kept=1)
    for size in (2, 2, 3, 3, 2):
        assert session.run(None, {"x": np.ones(size, np.float32)})[0].tolist() == [2] * size
        assert len(session.memory["programs"]) == 1
    session.release_memory()
    assert session.memory["programs"] == []
    assert session.run(None, {"x": np.ones(2, np.float32)})[0].tolist() == [2, 2]


def test_a_value_that_decides_is_looked_at_each_time():
    node = helper.make_node("Reshape", ["x", "sizes"], ["y"])
    inputs = [tensor("x", FLOAT, [6]), tensor("sizes", INT64, [2])]
    session = session_of([node], inputs, [tensor("y", FLOAT, None)])
    x = np.arange(6, dtype=np.float32)
    for sizes in ([2, 3], [2, 3], [3, 2], [6, 1]):
        (found,) = session.run(None, {"x": x, "sizes": np.array(sizes)})
        np.testing.assert_array_equal(found, x.reshape(sizes))


def test_sizes_in_turn_are_run_again_without_a_look_at_the_graph(monkeypatch):
    session = two_outputs(kept=3)
    feeds = {size: {"x": np.full(size, size, np.float32)} for size in (2, 3, 4)}
    for size in (2, 3, 4):
        session.run(None, feeds[size])
    with monkeypatch.context() as patched:
        patched.setattr(InferenceSession, "_results", None)
        for size in (2, 4, 3, 3, 2):
            assert session.run(None, feeds[size])[0].tolist() == [2.0 * size] * size
    session.run(None, {"x": np.ones(5, np.float32)})
    for size in (4, 2, 3, 5, 2):
        assert session.run(None, {"x": np.ones(size, np.float32)})[0].tolist() == [2] * size
        assert len(session.memory["programs"]) <= 3
    session.release_memory()
    assert session.memory["programs"] == []


def test_a_value_of_the_model_that_is_fed_as_a_list_is_not_overlooked():
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"])],
        "graph",
        [tensor("x", FLOAT, [2]), tensor("w", FLOAT, [2])],
        [tensor("y", FLOAT, [2])],
        [helper.make_tensor("w", FLOAT, [2], [1.0, 2.0])],
    )
    imports = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=8)
    session = InferenceSession(model, threads=1, cache=False)
    x = np.zeros(2, np.float32)
    for _ in range(2):
        assert session.run(None, {"x": x})[0].tolist() == [1, 2]
        assert session.run(None, {"x": x, "w": [5.0, 6.0]})[0].tolist() == [5, 6]
