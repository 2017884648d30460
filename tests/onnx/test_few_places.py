"""Convolutions at few places beside ONNX's reference, and as the products that they become."""

import numpy as np
import pytest
from tests.onnx import beside
from tests.onnx.models import FLOAT, helper, model, tensor

from lowtide.ir import Opcode
from lowtide.onnx import read_module

CASES = {
    "one place": ((1, 40, 5), (30, 40, 5), {}),
    "strides": ((1, 3, 640), (33, 3, 256), {"strides": [128]}),
    "padding": ((1, 29, 4), (64, 29, 3), {"pads": [1, 1]}),
    "uneven padding": ((2, 32, 3), (48, 32, 3), {"pads": [2, 0], "strides": [2]}),
    "dilation": ((1, 17, 9), (70, 17, 4), {"dilations": [2], "pads": [0, 3]}),
    "two dimensions": ((1, 24, 4, 5), (32, 24, 3, 2), {"strides": [1, 2]}),
    "large filters": ((1, 240, 4, 5), (496, 240, 3, 3), {"pads": [1, 1, 1, 1]}),
    "only padding is met": ((1, 40, 1), (40, 40, 3), {"pads": [3, 0], "strides": [3]}),
}


@pytest.mark.parametrize("name", CASES)
def test_they_are_products_of_rows(name):
    sizes, filters, attributes = CASES[name]
    rng = np.random.default_rng(3)
    weights = {
        "w": (rng.normal(size=filters) / np.prod(filters[1:]) ** 0.5).astype(np.float32),
        "b": rng.normal(size=filters[:1]).astype(np.float32),
    }
    node = helper.make_node("Conv", ["x", "w", "b"], ["y"], **attributes)
    proto = model([node], [tensor("x", FLOAT, sizes)], [tensor("y", FLOAT, None)], weights)
    proto.ir_version = 8
    opcodes = [x.opcode for x in read_module(proto).entry.instructions.values()]
    assert Opcode.DOT in opcodes
    assert Opcode.CONVOLUTION not in opcodes
    feeds = {"x": rng.normal(size=sizes).astype(np.float32)}
    beside.check(beside.ours(proto, feeds), beside.reference(proto, feeds))


def test_many_places_stay_convolutions():
    node = helper.make_node("Conv", ["x", "w"], ["y"])
    weights = {"w": np.ones((64, 32, 3), np.float32)}
    proto = model([node], [tensor("x", FLOAT, (1, 32, 11))], [tensor("y", FLOAT, None)], weights)
    opcodes = [x.opcode for x in read_module(proto).entry.instructions.values()]
    assert Opcode.CONVOLUTION in opcodes
