"""Products of dequantized factors as products of numbers: what is computed once, what stays."""

import numpy as np
import pytest
from tests.onnx.models import FLOAT, TensorProto, helper, model, tensor

import lowtide
from lowtide.frontend.onnx.model import load_model
from lowtide.onnx import InferenceSession, read_module
from lowtide.onnx.loaded import LoadedModel
from lowtide.onnx.quantized_products import with_products_of_numbers

RNG = np.random.default_rng(7)
NUMBERS = {np.dtype(np.uint8): TensorProto.UINT8, np.dtype(np.int8): TensorProto.INT8}


def quantized(kind="uint8", op="MatMul", scales=40, zero=9, said=None, rows=3, fed=()):
    """A product of quantized numbers with a matrix of 96 x 40, and a bias behind Gemm."""
    said = said or {}
    turned = said.get("transB", 0)
    weights = RNG.integers(-127, 128, (40, 96) if turned else (96, 40)).astype(np.int8)
    known = {
        "xs": np.float32(0.04),
        "xz": np.array(zero, kind),
        "w": weights,
        "ws": RNG.uniform(0.001, 0.02, scales).astype(np.float32) if scales else np.float32(0.01),
    }
    nodes = [
        helper.make_node("DequantizeLinear", ["q", "xs", "xz"], ["x"]),
        helper.make_node("DequantizeLinear", ["w", "ws"], ["wide"], axis=0 if turned else 1),
    ]
    if op == "Gemm":
        known["b"] = RNG.normal(size=40).astype(np.float32)
        nodes.append(helper.make_node("Gemm", ["x", "wide", "b"], ["y"], name="p", **said))
    else:
        nodes.append(helper.make_node("MatMul", ["x", "wide"], ["y"], name="p"))
    inputs = [tensor("q", NUMBERS[np.dtype(kind)], [rows, 96])]
    inputs += [tensor(x, FLOAT, list(known[x].shape)) for x in fed]
    return model(nodes, inputs, [tensor("y", FLOAT, [rows, 40])], known)


def operators(proto):
    return [x.op for x in with_products_of_numbers(load_model(proto)).graph.nodes]


@pytest.mark.parametrize("kind", ["uint8", "int8"])
@pytest.mark.parametrize(
    "given",
    [
        {},
        {"scales": 0},
        {"op": "Gemm"},
        {"op": "Gemm", "said": {"transB": 1}},
        {"rows": 40},
        {"zero": 0},
        {"zero": 0, "op": "Gemm"},
    ],
)
def test_results_are_those_of_the_module_to_the_last_bit(kind, given):
    proto = quantized(kind, **given)
    assert "MatMulInteger" in operators(proto)
    assert "DequantizeLinear" not in operators(proto)
    ends = np.iinfo(kind)
    numbers = RNG.integers(ends.min, ends.max, (given.get("rows", 3), 96), endpoint=True)
    numbers = numbers.astype(kind)
    module = lowtide.compile(read_module(proto), threads=1, cache=False)
    session = InferenceSession(proto, threads=1, cache=False, compiler="here")
    (found,) = session.run(None, {"q": numbers})
    (expected,) = module(numbers)
    assert found.tobytes() == np.asarray(expected).tobytes()


def test_sums_of_columns_and_products_of_scales_are_weights():
    proto = quantized()
    given, prepared = load_model(proto).initializers, with_products_of_numbers(load_model(proto))
    sums = given["w"].astype(np.int32).sum(0) * 9
    np.testing.assert_array_equal(prepared.initializers["p sums"], sums)
    np.testing.assert_array_equal(prepared.initializers["p scales"], given["xs"] * given["ws"])
    assert {*prepared.initializers} == {"w", "p sums", "p scales"}


def test_without_a_zero_point_there_are_no_sums():
    prepared = with_products_of_numbers(load_model(quantized(zero=0)))
    assert {*prepared.initializers} == {"w", "p scales"}
    assert "Sub" not in [x.op for x in prepared.graph.nodes]


def test_matrices_of_dequantized_factors_lie_by_columns():
    """Those of products of numbers are prepared as those of MatMulInteger are."""
    model = LoadedModel(quantized(zero=0), {}, lambda *_: None, 1).model
    assert [x.shape for x in model.initializers.values() if x.dtype == np.int8] == [(40, 96)]


@pytest.mark.parametrize(
    "given", [{"op": "Gemm", "said": {"alpha": 0.5}}, {"fed": ("xs",)}, {"fed": ("ws",)}]
)
def test_what_is_not_known_stays(given):
    assert "MatMulInteger" not in operators(quantized(**given))


def test_factors_dequantized_to_halves_stay():
    proto = quantized()
    for node in proto.graph.node[:2]:
        node.attribute.append(helper.make_attribute("output_dtype", TensorProto.FLOAT16))
    proto.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT16
    proto.opset_import[0].version = 23
    assert "MatMulInteger" not in operators(proto)
    session = InferenceSession(proto, threads=1, cache=False, compiler="here")
    (found,) = session.run(None, {"q": np.full((3, 96), 7, np.uint8)})
    assert found.dtype == np.float16
