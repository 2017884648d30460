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
