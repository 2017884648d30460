"""Kernels of one place that are kept in panels: what is cut, what stays, equal results."""

import numpy as np
import pytest
from tests.onnx import beside
from tests.onnx.models import FLOAT, helper, model, numpy_helper, tensor

from lowtide.frontend.onnx.model import load_model
from lowtide.onnx import InferenceSession
from lowtide.onnx.pointwise_weights import with_pointwise_kernels_in_panels

CASES = {
    "one dimension": ((2, 260, 7), (272, 260, 1), {}),
    "two dimensions": ((1, 256, 5, 6), (256, 256, 1, 1), {}),
    "strides": ((1, 256, 7, 4), (272, 256, 1, 1), {"strides": [2, 3]}),
    "no padding": ((1, 256, 3, 3), (256, 256, 1, 1), {"auto_pad": "SAME_UPPER"}),
    "columns that fill no panel": ((1, 150, 2, 3), (500, 150, 1, 1), {}),
}


def convolution(name, follows=()):
    sizes, kernel, attributes = CASES[name]
    rng = np.random.default_rng(len(name))
    weights = {
        "w": (rng.normal(size=kernel) / 16).astype(np.float32),
        "b": rng.normal(size=kernel[:1]).astype(np.float32),
    }
    first = helper.make_node("Conv", ["x", "w", "b"], ["a" if follows else "y"], **attributes)
    inputs = [tensor("x", FLOAT, sizes)]
    proto = model([first, *follows], inputs, [tensor("y", FLOAT, None)], weights)
    proto.ir_version = 8
    return proto, {"x": rng.normal(size=sizes).astype(np.float32)}


@pytest.mark.parametrize("target", ["avx2", "native"])
@pytest.mark.parametrize("name", CASES)
def test_output_features_of_a_panel_lie_side_by_side(name, target):
    proto, feeds = convolution(name)
    panels = with_pointwise_kernels_in_panels(load_model(proto)).initializers["w in panels"]
    kernel = numpy_helper.to_array(proto.graph.initializer[0])
    matrix = kernel.reshape(kernel.shape[:2]).T
    whole = panels.swapaxes(0, 1).reshape(matrix.shape[0], -1)
    np.testing.assert_array_equal(whole[:, : matrix.shape[1]], matrix)
    beside.check(beside.ours(proto, feeds, target=target), beside.reference(proto, feeds))


def test_what_follows_is_computed_where_the_sums_are():
    follows = [helper.make_node("Relu", ["a"], ["y"])]
    proto, feeds = convolution("two dimensions", follows)
    session = InferenceSession(proto.SerializeToString(), cache=False, compiler="here")
    beside.check(session.run(None, feeds), beside.reference(proto, feeds))
    assert len(beside.kernels(session)) == 1


@pytest.mark.parametrize("reason", ["padding", "groups", "a window", "small", "the caller"])
def test_kernels_stay_of_other_convolutions(reason):
    proto, _ = convolution("two dimensions")
    (node,), (weight, *_) = proto.graph.node, proto.graph.initializer
    given = numpy_helper.to_array(weight)
    if reason == "padding":
        node.attribute.append(helper.make_attribute("pads", [1, 1, 0, 0]))
    elif reason == "groups":
        node.attribute.append(helper.make_attribute("group", 2))
        weight.CopyFrom(numpy_helper.from_array(np.tile(given[:, :128], (4, 1, 1, 1)), "w"))
    elif reason == "the caller":
        proto.graph.input.append(tensor("w", FLOAT, given.shape))
    else:
        kept = given[:128] if reason == "small" else np.tile(given, (1, 1, 3, 3))
        weight.CopyFrom(numpy_helper.from_array(kept, "w"))
    loaded = load_model(proto)
    assert with_pointwise_kernels_in_panels(loaded) is loaded
