"""Kernels of convolutions that are kept by output features: what is moved, and equal results."""

import numpy as np
import pytest
from tests.onnx import beside
from tests.onnx.models import FLOAT, helper, model, numpy_helper, tensor

from lowtide.frontend.onnx.model import load_model
from lowtide.ir import Opcode
from lowtide.onnx import InferenceSession
from lowtide.onnx.convolution_weights import with_kernels_prepared
from lowtide.onnx.loaded import LoadedModel

CASES = {
    "one dimension": ((2, 6, 50), (24, 6, 3), {}),
    "two dimensions": ((1, 5, 12, 13), (40, 5, 3, 2), {"strides": [1, 2], "pads": [1, 0, 1, 1]}),
    "one tap": ((1, 20, 9, 9), (30, 20, 1, 1), {}),
    "three dimensions": ((1, 3, 6, 7, 8), (17, 3, 2, 3, 2), {"dilations": [1, 2, 1]}),
    "groups": ((1, 12, 11, 11), (16, 3, 3, 3), {"group": 4}),
    "few places": ((1, 29, 4), (64, 29, 3), {"pads": [1, 1]}),
    "few places, two dimensions": ((2, 24, 4, 5), (32, 24, 3, 3), {"strides": [1, 2]}),
}


def convolution(name):
    sizes, kernel, attributes = CASES[name]
    rng = np.random.default_rng(len(name))
    weights = {"w": rng.normal(size=kernel).astype(np.float32)}
    node = helper.make_node("Conv", ["x", "w"], ["y"], **attributes)
    inputs = [tensor("x", FLOAT, sizes)]
    proto = model([node], inputs, [tensor("y", FLOAT, None)], weights)
    proto.ir_version = 8
    return proto, {"x": rng.normal(size=sizes).astype(np.float32)}


PANELS = {
    "few places": CASES["few places"],
    "few places, two dimensions": CASES["few places, two dimensions"],
    "in panels": ((1, 21, 9, 11), (48, 21, 3, 3), {"pads": [1, 1, 1, 1]}),
    "in panels, strided": ((2, 64, 10, 9), (80, 64, 1, 1), {"strides": [2, 2]}),
    "in panels, three dimensions": ((1, 6, 5, 6, 7), (32, 6, 3, 3, 3), {"dilations": [1, 2, 1]}),
}
CASES |= PANELS


@pytest.mark.parametrize("name", CASES)
def test_kernels_are_kept_with_output_features_last(name):
    proto, feeds = convolution(name)
    prepared = with_kernels_prepared(load_model(proto))
    weight = numpy_helper.to_array(proto.graph.initializer[0])
    wanted = np.moveaxis(weight, [0, 1], [-1, -2])
    if name in PANELS:
        wanted = np.stack(np.split(wanted, weight.shape[0] // 16, axis=-1))
    assert [*prepared.initializers] == ["w by output features"]
    np.testing.assert_array_equal(prepared.initializers["w by output features"], wanted)
    beside.check(beside.ours(proto, feeds), beside.reference(proto, feeds))


@pytest.mark.parametrize("name", CASES)
def test_kernels_begin_with_a_line_of_memory(name):
    proto, _ = convolution(name)
    # Several are made, since NumPy's own arrays begin with one now and then.
    prepared = [with_kernels_prepared(load_model(proto)).initializers for _ in range(8)]
    begins = [x.ctypes.data % 64 for found in prepared for x in found.values()]
    assert begins == [0] * 8


@pytest.mark.parametrize("name", [x for x in CASES if x.startswith("few")])
def test_products_of_few_rows_read_filters_as_they_are_kept(name):
    proto, feeds = convolution(name)
    modules = []

    def compile_(module):
        modules.append(module)
        return lambda *_: [np.zeros(module.entry.root.shape.dimensions, np.float32)]

    loaded = LoadedModel(proto, {}, compile_, 1)
    loaded.runner.run(feeds)
    instructions = [*modules[0].entry.instructions.values()]
    (dot,) = [x for x in instructions if x.opcode is Opcode.DOT]
    filters = dot.operands[1]
    while filters.opcode in (Opcode.RESHAPE, Opcode.TRANSPOSE):
        filters = filters.operands[0]
    assert filters.opcode is Opcode.PARAMETER
    assert Opcode.CONVOLUTION not in [x.opcode for x in instructions]


REASONS = ["groups", "another size", "small", "one panel", "one tap", "two readers"]


@pytest.mark.parametrize("reason", REASONS)
def test_kernels_do_not_lie_in_panels_that_these_would_not_serve(reason):
    kernel, attributes = (48, 21, 3, 3), {}
    if reason == "groups":
        attributes = {"group": 2}
    elif reason == "another size":
        kernel = (47, 21, 3, 3)
    elif reason == "small":
        kernel = (32, 10, 3, 3)
    elif reason == "one panel":
        kernel = (16, 42, 3, 3)
    elif reason == "one tap":
        kernel = (48, 189, 1, 1)
    weights = {"w": np.ones(kernel, np.float32)}
    image = (1, kernel[1] * attributes.get("group", 1), 9, 9)
    node = helper.make_node("Conv", ["x", "w"], ["y"], **attributes)
    nodes = [node]
    if reason == "two readers":
        nodes.append(helper.make_node("Conv", ["x", "w"], ["z"], strides=[2, 2]))
    proto = model(nodes, [tensor("x", FLOAT, image)], [tensor("y", FLOAT, None)], weights)
    proto.ir_version = 8
    (stored,) = with_kernels_prepared(load_model(proto)).initializers.values()
    assert stored.shape == (*kernel[2:], kernel[1], kernel[0])


SHARED = {
    "one in groups": [{}, {"group": 2}],
    "one in groups, first": [{"group": 2}, {}],
    "two readers of one name": [{}, {"strides": [2, 2]}, {}],
}


@pytest.mark.parametrize("way", ["Identity", "Cast"])
@pytest.mark.parametrize("name", SHARED)
def test_kernels_of_several_names_are_kept_in_one_way(name, way):
    rng = np.random.default_rng(7)
    kernel = rng.normal(size=(48, 21, 3, 3)).astype(np.float32 if way == "Identity" else np.float16)
    given = {"w0": kernel} if way == "Identity" else {"w0": kernel, "w1": kernel.copy()}
    to = {} if way == "Identity" else {"to": FLOAT}
    nodes = [helper.make_node(way, [[*given][-i]], [f"k{i}"], **to) for i in (0, 1)]
    feeds, results = {}, []
    for i, attributes in enumerate(SHARED[name]):
        features = 21 * attributes.get("group", 1)
        feeds[f"x{i}"] = rng.normal(size=(1, features, 9, 8)).astype(np.float32)
        nodes.append(helper.make_node("Conv", [f"x{i}", f"k{min(i, 1)}"], [f"y{i}"], **attributes))
        results.append(tensor(f"y{i}", FLOAT, None))
    inputs = [tensor(x, FLOAT, y.shape) for x, y in feeds.items()]
    proto = model(nodes, inputs, results, given)
    proto.ir_version = 8
    beside.check(beside.ours(proto, feeds), beside.reference(proto, feeds))


@pytest.mark.parametrize("reason", ["another node", "the caller", "an output", "one feature"])
def test_kernels_stay_that_are_read_otherwise(reason):
    proto, _ = convolution("one tap")
    weight = numpy_helper.to_array(proto.graph.initializer[0])
    if reason == "another node":
        proto.graph.node.append(helper.make_node("Identity", ["w"], ["v"]))
    elif reason == "the caller":
        proto.graph.input.append(tensor("w", FLOAT, weight.shape))
    elif reason == "an output":
        proto.graph.output.append(tensor("w", FLOAT, weight.shape))
    else:
        proto.graph.initializer[0].CopyFrom(numpy_helper.from_array(weight[:, :1], "w"))
        proto.graph.node[0].attribute.append(helper.make_attribute("group", 20))
    given = load_model(proto)
    assert with_kernels_prepared(given) is given


def quantized(kind, kernel=(12, 7, 3, 3), image=(1, 7, 9, 9), dtype=np.int8):
    """A quantized convolution of images of bytes: of QDQ pairs, or of integers."""
    rng = np.random.default_rng(len(kind))
    low, high = (-127, 128) if dtype is np.int8 else (0, 256)
    weights = {
        "w": rng.integers(low, high, kernel).astype(dtype),
        "s": rng.uniform(0.01, 0.02, kernel[0]).astype(np.float32),
        "z": np.full(kernel[0], (low + high) // 2, dtype),
        "xs": np.float32(0.05),
        "xz": np.uint8(9),
        "ys": np.float32(0.5),
        "yz": np.uint8(100),
        "wz": dtype((low + high) // 2),
    }
    node = helper.make_node
    pads = {"pads": [1, 1, 1, 1]}
    if kind == "QDQ":
        nodes = [
            node("DequantizeLinear", ["x", "xs", "xz"], ["a"]),
            node("DequantizeLinear", ["w", "s", "z"], ["k"], axis=0),
            node("Conv", ["a", "k"], ["c"], **pads),
            node("QuantizeLinear", ["c", "ys", "yz"], ["y"]),
        ]
    elif kind == "QLinearConv":
        nodes = [node(kind, ["x", "xs", "xz", "w", "xs", "wz", "ys", "yz"], ["y"], **pads)]
    else:
        nodes = [node(kind, ["x", "w", "xz"], ["y"], **pads)]
    result = tensor("y", 6 if kind == "ConvInteger" else 2, None)
    proto = model(nodes, [tensor("x", 2, image)], [result], opset=21)
    read = {x for n in proto.graph.node for x in n.input}
    proto.graph.initializer.extend(
        [numpy_helper.from_array(np.asarray(y), x) for x, y in weights.items() if x in read]
    )
    proto.ir_version = 10
    return proto, {"x": rng.integers(0, 256, image).astype(np.uint8)}


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("kind", ["QDQ", "QLinearConv", "ConvInteger"])
def test_numbers_of_quantized_kernels_are_kept_so(kind, dtype):
    proto, feeds = quantized(kind, dtype=dtype)
    given = load_model(proto)
    prepared = with_kernels_prepared(given)
    wanted = np.moveaxis(given.initializers["w"], [0, 1], [-1, -2])
    np.testing.assert_array_equal(prepared.initializers["w by output features"], wanted)
    assert "w" not in prepared.initializers
    for target in ("native", "avx2"):
        found = beside.ours(proto, feeds, target=target)
        for x, y in zip(found, beside.reference(proto, feeds), strict=True):
            steps = np.abs(x.astype(np.int64) - y.astype(np.int64))
            assert steps.max() <= (0 if kind == "ConvInteger" else 1)
            assert np.ptp(x) > 50


@pytest.mark.parametrize("reason", ["another node", "another maker", "one tap"])
def test_numbers_of_quantized_kernels_stay(reason):
    taps = 1 if reason == "one tap" else 3
    proto, _ = quantized("QDQ", (12, 7, taps, taps))
    if reason == "another node":
        proto.graph.node.append(helper.make_node("Neg", ["k"], ["v"]))
    elif reason == "another maker":
        proto.graph.node.append(helper.make_node("DequantizeLinear", ["w", "xs"], ["v"]))
    given = load_model(proto)
    assert with_kernels_prepared(given) is given


def test_a_quantized_convolution_at_few_places_is_one_of_integers():
    proto, feeds = quantized("QDQ", (64, 32, 3, 3), (1, 32, 2, 2))
    session = InferenceSession(proto, effort="fast", cache=False, threads=1)
    (found,), (wanted,) = session.run(None, feeds), beside.reference(proto, feeds)
    assert np.abs(found.astype(np.int64) - wanted).max() <= 1
    ((_, _, executable),) = session._executables()
    products = [x for x in executable.as_text().splitlines() if " dot(" in x or "convolution(" in x]
    assert products and all("s32[" in x.partition("(")[0] for x in products)


def test_a_name_that_is_taken_is_left_alone():
    proto, feeds = convolution("one tap")
    proto.graph.node.append(helper.make_node("Neg", ["y"], ["w by output features"]))
    proto.graph.output[0].name = "w by output features"
    beside.check(beside.ours(proto, feeds), beside.reference(proto, feeds))
