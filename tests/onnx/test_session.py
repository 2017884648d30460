"""Sessions: feeds by name, shapes that change, host nodes between compiled stretches."""

import subprocess
import sys

import numpy as np
import pytest
from tests.onnx.models import FLOAT, INT64, WEIGHTS, helper, model, perceptron, tensor, through_host

from lowtide.ir import InputError, LowtideError
from lowtide.ir.errors import UnsupportedOpError
from lowtide.onnx import InferenceSession

QUICK = {"effort": "fast", "cache": False, "threads": 1}


def session(proto, **options):
    return InferenceSession(proto, **{**QUICK, **options})


def test_sizes_may_change_between_runs():
    found = session(perceptron())
    for batch in (1, 3):
        x = np.random.default_rng(batch).normal(size=(batch, 96)).astype(np.float32)
        (y,) = found.run(["y"], {"x": x})
        np.testing.assert_allclose(y, np.maximum(x @ WEIGHTS, 0), rtol=1e-4, atol=1e-4)


def test_inputs_and_outputs_have_names_types_and_sizes():
    found = session(perceptron())
    (given,) = found.get_inputs()
    assert (given.name, given.type, given.shape) == ("x", "tensor(float)", ["batch", 96])
    assert [x.name for x in found.get_outputs()] == ["y"]


def test_a_host_node_stands_between_compiled_stretches():
    found = session(through_host())
    for x, total in (([0.0, 1, 0, 2], 6.0), ([0.0, 0, 0, 0], 0.0)):
        assert found.run(None, {"x": np.array(x, np.float32)})[0] == total


def test_the_reference_engine_gives_the_same():
    x = np.array([0, 1, 0, 2], np.float32)
    pair = [
        session(through_host(), engine=e).run(None, {"x": x})[0] for e in ("native", "reference")
    ]
    np.testing.assert_array_equal(*pair)


def reshaping():
    node = helper.make_node("Reshape", ["x", "sizes"], ["y"])
    inputs = [tensor("x", FLOAT, [2, 6]), tensor("sizes", INT64, [2])]
    return model([node], inputs, [tensor("y", FLOAT, None)])


def test_an_input_that_gives_a_shape_may_change():
    found = session(reshaping())
    x = np.arange(12, dtype=np.float32).reshape(2, 6)
    for sizes in ([3, 4], [6, 2], [3, 4]):
        (y,) = found.run(None, {"x": x, "sizes": np.array(sizes)})
        np.testing.assert_array_equal(y, x.reshape(sizes))


def test_bound_arrays_are_read_and_written():
    found = session(perceptron())
    binding = found.io_binding()
    x, y = np.ones((2, 96), np.float32), np.empty((2, 32), np.float32)
    binding.bind_cpu_input("x", x)
    binding.bind_output("y", y)
    found.run_with_iobinding(binding)
    np.testing.assert_allclose(y, np.maximum(x @ WEIGHTS, 0), rtol=1e-4, atol=1e-4)
    assert binding.copy_outputs_to_cpu()[0] is y


GOOD = np.zeros((1, 96), np.float32)


@pytest.mark.parametrize(
    ("feeds", "message"),
    [
        ({}, "Required inputs .*'x'.* are missing"),
        (GOOD, r"feed a mapping of names \(.*x.*\) to values, not ndarray"),
        ({"x": GOOD, "z": GOOD}, "Invalid Feed Input Name: 'z'"),
        ({"x": GOOD.astype(np.float64)}, "Unexpected input data type for 'x'.*float64.*float32"),
        ({"x": GOOD[0]}, "Invalid rank for input: x. Got: 1 Expected: 2"),
        ({"x": GOOD[:, :5]}, "invalid dimensions for input: x .*index: 1 Got: 5 Expected: 96"),
        (
            {"x": np.zeros((1, 97), np.float32)},
            "invalid dimensions for input: x .*index: 1 Got: 97 Expected: 96",
        ),
    ],
)
def test_wrong_feeds_are_named(feeds, message):
    with pytest.raises(InputError, match=message):
        session(perceptron()).run(None, feeds)


def test_a_wrong_output_is_named():
    with pytest.raises(InputError, match="Invalid Output Name: 'z'"):
        session(perceptron()).run(["z"], {"x": GOOD})


def test_an_unknown_operator_is_named_with_what_is_near():
    node = helper.make_node("Reluu", ["x"], ["y"], name="first", domain="com.microsoft")
    proto = model([node], [tensor("x", FLOAT, [1])], [tensor("y", FLOAT, [1])])
    with pytest.raises(UnsupportedOpError, match=r"'first'.*'com\.microsoft\.Reluu'"):
        session(proto).run(None, {"x": np.zeros(1, np.float32)})


def test_a_cycle_is_named():
    nodes = [helper.make_node("Add", ["x", "b"], ["a"]), helper.make_node("Relu", ["a"], ["b"])]
    proto = model(nodes, [tensor("x", FLOAT, [1])], [tensor("a", FLOAT, [1])])
    with pytest.raises(LowtideError, match="cycle"):
        session(proto).run(None, {"x": np.zeros(1, np.float32)})


def test_importing_lowtide_leaves_onnx_alone():
    code = "import lowtide, sys; raise SystemExit('onnx' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
