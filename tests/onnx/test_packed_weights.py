"""Weights of 2, 4 and 8 bits: by the definition, and beside ONNX Runtime where it is installed."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.onnx.beside import HAS_RUNTIME, ours
from tests.onnx.models import FLOAT, tensor

K, N, BLOCK = 70, 5, 32
BLOCKS = -(-K // BLOCK)
ZEROS = ("none", "packed", "floats")
CASES = [(bits, zeros) for bits in (2, 4, 8) for zeros in ZEROS]
AXES = {
    "tensor": ([], {}, lambda x: x),
    "columns": ([8], {"axis": 1}, lambda x: x),
    "rows": ([6], {"axis": 0}, lambda x: x[:, None]),
    "blocks of rows": ([3, 8], {"axis": 0, "block_size": 2}, lambda x: np.repeat(x, 2, 0)),
    "blocks of columns": ([6, 2], {"axis": 1, "block_size": 4}, lambda x: np.repeat(x, 4, 1)),
}
KINDS = {"INT4": -8, "UINT4": 0}


def made(nodes, inputs, sizes, initializers):
    graph = helper.make_graph(nodes, "graph", inputs, [tensor("y", FLOAT, sizes)], initializers)
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def unpacked(data, bits):
    """The numbers of bytes, those in low bits first."""
    return ((data[..., None] >> np.arange(0, 8, bits)) & ((1 << bits) - 1)).reshape(
        *data.shape[:-1], -1
    )


def product_of_packed(bits, zeros):
    """A model, its feeds, and what it gives in f64."""
    random = np.random.default_rng(bits)
    data = random.integers(0, 256, (N, BLOCKS, BLOCK * bits // 8), dtype=np.uint8)
    scales = random.normal(size=(N, BLOCKS)).astype(np.float32)
    values = {"q": data, "s": scales.reshape(-1)}
    shift = np.full((N, BLOCKS), float(1 << (bits - 1)))
    if zeros == "packed":
        packed = random.integers(0, 256, (N, -(-BLOCKS * bits // 8)), dtype=np.uint8)
        values["z"], shift = packed.reshape(-1), unpacked(packed, bits)[:, :BLOCKS]
    elif zeros == "floats":
        shift = random.normal(size=(N, BLOCKS)).astype(np.float32)
        values["z"] = shift.reshape(-1)
    matrix = (unpacked(data, bits) - shift[..., None]) * scales[..., None].astype(np.float64)
    x = random.normal(size=(3, K)).astype(np.float32)
    node = helper.make_node(
        "MatMulNBits",
        ["x", *values],
        ["y"],
        domain="com.microsoft",
        K=K,
        N=N,
        bits=bits,
        block_size=BLOCK,
    )
    constants = [numpy_helper.from_array(y, name) for name, y in values.items()]
    proto = made([node], [tensor("x", FLOAT, [3, K])], [3, N], constants)
    return proto, {"x": x}, x @ matrix.reshape(N, -1)[:, :K].T


def product_of_dequantized(kind, axis, has_zero):
    """A model, its feeds, and what it gives in f64."""
    sizes, attributes, spread = AXES[axis]
    low, random = KINDS[kind], np.random.default_rng(len(axis))
    numbers = random.integers(low, low + 16, (6, 8))
    zeros = random.integers(low, low + 16, sizes)
    scales = (random.random(sizes) + 0.1).astype(np.float32)
    element = getattr(TensorProto, kind)
    constants = [
        helper.make_tensor("w", element, [6, 8], numbers.reshape(-1).tolist()),
        numpy_helper.from_array(np.asarray(scales), "s"),
    ]
    if has_zero:
        constants.append(helper.make_tensor("z", element, sizes, np.ravel(zeros).tolist()))
    given = ["w", "s", "z"][: len(constants)]
    nodes = [
        helper.make_node("DequantizeLinear", given, ["d"], **attributes),
        helper.make_node("MatMul", ["x", "d"], ["y"]),
    ]
    x = random.normal(size=(2, 6)).astype(np.float32)
    shift = spread(np.asarray(zeros)) if has_zero else 0
    matrix = (numbers - shift) * spread(np.asarray(scales)).astype(np.float64)
    return made(nodes, [tensor("x", FLOAT, [2, 6])], [2, 8], constants), {"x": x}, x @ matrix


def plain_runtime(proto, feeds):
    """What ONNX Runtime gives without its optimizations: some of them round the other factor."""
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), settings, ["CPUExecutionProvider"]
    )
    return session.run(None, feeds)


def check(proto, feeds, wanted, *, has_runtime=HAS_RUNTIME):
    near = {"rtol": 1e-5, "atol": 1e-6 * np.abs(wanted).max()}
    (found,) = ours(proto, feeds)
    np.testing.assert_allclose(found, wanted, **near)
    if has_runtime:
        np.testing.assert_allclose(found, plain_runtime(proto, feeds)[0], **near)


@pytest.mark.parametrize(("bits", "zeros"), CASES)
def test_products_with_packed_weights(bits, zeros):
    runs_there = HAS_RUNTIME and (bits, zeros) != (8, "floats")  # ONNX Runtime refuses these.
    check(*product_of_packed(bits, zeros), has_runtime=runs_there)


@pytest.mark.parametrize("has_zero", [False, True])
@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("kind", KINDS)
def test_products_with_weights_of_four_bits_that_are_dequantized(kind, axis, has_zero):
    check(*product_of_dequantized(kind, axis, has_zero))
