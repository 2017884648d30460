"""Convolutions of quantized images: sums of filters are weights of a session, results the same."""

import numpy as np
import pytest
from tests.onnx.models import FLOAT, TensorProto, helper, model, tensor

import lowtide
from lowtide.frontend.onnx.model import load_model
from lowtide.onnx import InferenceSession, read_module
from lowtide.onnx.quantized_convolutions import with_convolutions_of_numbers

RNG = np.random.default_rng(11)
NUMBERS = {np.dtype(np.uint8): TensorProto.UINT8, np.dtype(np.int8): TensorProto.INT8}
CASES = [
    {"said": {"pads": [1, 1, 1, 1], "auto_pad": "NOTSET"}},
    {"said": {"pads": [0, 1, 2, 1], "strides": [2, 1], "dilations": [1, 2]}},
    {"said": {"pads": [1, 1, 1, 1], "group": 3}},
    {"said": {"pads": [1, 1, 1, 1], "group": 6}, "features": 6},
    {"said": {"pads": [0, 0, 0, 0]}, "side": 1, "channels": 33},
    {"said": {"pads": [1, 1, 1, 1]}, "channels": 160, "features": 40, "size": 7},
]


def quantized(op, kind="uint8", said=None, channels=6, features=9, side=3, size=11, zero=131):
    """A convolution of quantized numbers by the operator `op`."""
    group = said.get("group", 1)
    known = {
        "xs": np.float32(0.04),
        "xz": np.array(zero if kind == "uint8" else zero - 128, kind),
        "w": RNG.integers(-128, 128, (features, channels // group, side, side)).astype(np.int8),
        "ws": RNG.uniform(0.001, 0.02, features).astype(np.float32),
    }
    end, nodes = FLOAT, []
    if op == "Conv":
        known["b"] = RNG.normal(size=features).astype(np.float32)
        nodes += [helper.make_node("DequantizeLinear", ["q", "xs", "xz"], ["x"])]
        nodes += [helper.make_node("DequantizeLinear", ["w", "ws"], ["wide"], axis=0)]
        nodes += [helper.make_node("Conv", ["x", "wide", "b"], ["y"], name="c", **said)]
    elif op == "QLinearConv":
        known["b"] = RNG.integers(-9999, 9999, features).astype(np.int32)
        known |= {"wz": np.int8(0), "ys": np.float32(0.3), "yz": np.array(5, kind)}
        inputs = ["q", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"]
        nodes += [helper.make_node(op, inputs, ["y"], name="c", **said)]
        end = NUMBERS[np.dtype(kind)]
    else:
        nodes += [helper.make_node(op, ["q", "w", "xz"], ["y"], name="c", **said)]
        end = TensorProto.INT32
    numbers = tensor("q", NUMBERS[np.dtype(kind)], [2, channels, size, size])
    inputs = [numbers]
    if op == "dynamic":
        nodes[-1].op_type = "ConvInteger"
        inputs.append(tensor("xz", NUMBERS[np.dtype(kind)], []))
        known.pop("xz")
    used = {x for node in nodes for x in node.input}
    known = {x: y for x, y in known.items() if x in used}
    return model(nodes, inputs, [tensor("y", end, None)], known)


def prepared(proto):
    return with_convolutions_of_numbers(load_model(proto))


@pytest.mark.parametrize("target", ["native", "avx2"])
@pytest.mark.parametrize("kind", ["uint8", "int8"])
@pytest.mark.parametrize("op", ["Conv", "QLinearConv", "ConvInteger", "dynamic"])
@pytest.mark.parametrize("given", CASES)
def test_results_are_those_of_the_module_to_the_last_bit(op, kind, given, target):
    proto = quantized(op, kind, **given)
    found = prepared(proto)
    assert any(x.endswith(("sums", "bias")) for x in found.initializers)
    ends = np.iinfo(kind)
    sizes = (2, given.get("channels", 6), given.get("size", 11), given.get("size", 11))
    feeds = {"q": RNG.integers(ends.min, ends.max, sizes, endpoint=True).astype(kind)}
    if op == "dynamic":
        feeds["xz"] = np.array(3, kind)
    module = lowtide.compile(read_module(proto), threads=1, cache=False, target=target)
    session = InferenceSession(proto, threads=1, cache=False, compiler="here", target=target)
    (here,) = session.run(None, feeds)
    expected = module(*feeds.values())
    expected = expected[0] if isinstance(expected, tuple | list) else expected
    assert here.tobytes() == np.asarray(expected).tobytes()


def test_no_run_adds_up_filters():
    proto = quantized("Conv", said={"pads": [1, 1, 1, 1]})
    known, made = load_model(proto).initializers, prepared(proto).initializers
    sums = known["w"].astype(np.int32).sum((1, 2, 3)) * 131
    np.testing.assert_array_equal(made["c sums"].ravel(), sums)
    np.testing.assert_array_equal(made["c scales"].ravel(), known["xs"] * known["ws"])
    assert made["w"] is not None and "ws" not in made


def test_a_zero_point_around_the_image_is_read_as_what_it_stands_for():
    proto = quantized("ConvInteger", said={"pads": [1, 1, 1, 1]})
    session = InferenceSession(proto, threads=1, cache=False, compiler="here")
    (found,) = session.run(None, {"q": np.full((2, 6, 11, 11), 131, np.uint8)})
    np.testing.assert_array_equal(found, 0)


@pytest.mark.parametrize(
    "given",
    [
        {"said": {"pads": [1, 1, 1, 1]}, "zero": 0},
        {"said": {"auto_pad": "SAME_UPPER"}},
        {"said": {"pads": [1, 1]}},
        {"said": {}, "channels": 33031, "side": 1, "size": 1},
    ],
)
def test_what_stays_as_it_is(given):
    proto = quantized("Conv", **given)
    model_ = load_model(proto)
    assert with_convolutions_of_numbers(model_) is model_
