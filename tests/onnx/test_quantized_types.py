"""Quantized values and zero points that are no integers are refused with their node."""

import numpy as np
import pytest
from tests.onnx.beside import one_node

from lowtide.ir import InputError
from lowtide.onnx import InferenceSession, read_module

FLOATS = np.float32([[0.5, -1.75], [2.25, 3]])
BYTES = np.int8([[1, -2], [3, 4]])
SCALE, ZERO, HALF = np.float32(0.5), np.int8(1), np.float32(0.5)
IMAGE = np.ones((1, 1, 3, 3), np.int8)
PRODUCT = [BYTES, SCALE, ZERO, BYTES, SCALE, ZERO, SCALE, ZERO]

CASES = {
    "quantized by a float": ("QuantizeLinear", [FLOATS, SCALE, HALF], "", "zero point.*found f32"),
    "quantized by a half": (
        "QuantizeLinear",
        [FLOATS, SCALE, np.float16(0)],
        "",
        "zero point.*found f16",
    ),
    "floats in a product": ("MatMulInteger", [FLOATS, BYTES], "", "integers, found f32"),
    "a product's zero point": ("MatMulInteger", [BYTES, BYTES, HALF], "", "point.*found f32"),
    "floats in an image": (
        "ConvInteger",
        [IMAGE.astype(np.float32), IMAGE],
        "",
        "integers, found f32",
    ),
    "floats in a quantized product": (
        "QLinearMatMul",
        [FLOATS, *PRODUCT[1:]],
        "",
        "integers, found f32",
    ),
    "floats in a sum": (
        "QLinearAdd",
        [FLOATS, *PRODUCT[1:]],
        "com.microsoft",
        "integers, found f32",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_would_lose_its_fraction_is_refused(name):
    op, inputs, domain, message = CASES[name]
    model, feeds = one_node(op, inputs, [3], domain)
    with pytest.raises(InputError, match=f"{op}.*{message}"):
        read_module(model, shapes={n: x.shape for n, x in feeds.items()})


def test_integers_are_taken_as_before():
    model, feeds = one_node("MatMulInteger", [BYTES, BYTES, ZERO], [6], "")
    (found,) = InferenceSession(model, effort="fast", cache=False).run(None, feeds)
    assert found.tolist() == ((BYTES.astype(int) - 1) @ BYTES.astype(int)).tolist()
