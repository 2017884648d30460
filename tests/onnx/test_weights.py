"""Weights that nodes move or widen: once a session, equal to the last bit to what nodes give."""

import ml_dtypes
import numpy as np
import pytest
from tests.onnx.models import FLOAT, helper, model, tensor

from lowtide.evaluator import evaluate
from lowtide.frontend.onnx.model import load_model
from lowtide.ir import LowtideError
from lowtide.onnx import InferenceSession, read_module
from lowtide.onnx.weights import with_weights_prepared

RANDOM = np.random.default_rng(5)
S8, U8 = RANDOM.integers(-128, 128, (48, 40)).astype(np.int8), np.arange(40, dtype=np.uint8)
SCALES = RANDOM.random(40).astype(np.float32) * 0.01
HALF = RANDOM.normal(size=(48, 40)).astype(np.float16)
WIDE = RANDOM.normal(size=(48, 40)).astype(np.float32) * 3
TIES = np.arange(-120, 120, 0.5, dtype=np.float32).reshape(12, 40)

CASES = {
    "one scale": ("DequantizeLinear", [S8, np.float32(0.02), np.int8(-3)], {}),
    "no zero point": ("DequantizeLinear", [S8, np.float32(0.02)], {}),
    "by columns": ("DequantizeLinear", [S8, SCALES, S8[0]], {"axis": 1}),
    "by rows": ("DequantizeLinear", [S8, RANDOM.random(48).astype(np.float32)], {"axis": 0}),
    "quantized": ("QuantizeLinear", [WIDE, np.float32(0.021), np.uint8(117)], {}),
    "quantized by columns": ("QuantizeLinear", [WIDE, SCALES, S8[0]], {"axis": 1}),
    "quantized ties": ("QuantizeLinear", [TIES, np.float32(1), np.uint8(117)], {}),
    "half": ("Cast", [HALF], {"to": FLOAT}),
    "transposed": ("Transpose", [WIDE], {"perm": [1, 0]}),
}


def using(op, values, attributes):
    """A model that gives x plus what a node makes of weights."""
    names = [f"w{i}" for i in range(len(values))]
    nodes = [
        helper.make_node(op, names, ["w"], **attributes),
        helper.make_node("Cast", ["w"], ["f"], to=FLOAT),
        helper.make_node("Add", ["x", "f"], ["y"]),
    ]
    weights = {n: np.asarray(v) for n, v in zip(names, values, strict=True)}
    return model(nodes, [tensor("x", FLOAT, [1, 1])], [tensor("y", FLOAT, None)], weights)


@pytest.mark.parametrize("name", CASES)
def test_weights_are_prepared_as_the_node_would(name):
    proto = using(*CASES[name])
    prepared = with_weights_prepared(load_model(proto))
    assert len(prepared.graph.nodes) < len(proto.graph.node)
    assert "w0" not in prepared.initializers
    x = np.zeros((1, 1), np.float32)
    session = InferenceSession(proto, effort="fast", cache=False, threads=1)
    (found,) = session.run(None, {"x": x})
    (expected,) = evaluate(read_module(proto), [x])
    np.testing.assert_array_equal(found, np.asarray(expected))


SCALARS = {
    "the same": ("Identity", [np.int64(3)], {}),
    "converted": ("Cast", [np.int64(3)], {"to": FLOAT}),
    "moved": ("Transpose", [np.float32(3)], {}),
    "dequantized": ("DequantizeLinear", [np.int8(3), np.float32(0.5)], {}),
}


@pytest.mark.parametrize("name", SCALARS)
def test_numbers_without_dimensions_get_none(name):
    op, values, attributes = SCALARS[name]
    names = [f"w{i}" for i in range(len(values))]
    nodes = [
        helper.make_node(op, names, ["w"], **attributes),
        helper.make_node("Unsqueeze", ["w", "axes"], ["wide"]),
        helper.make_node("Cast", ["wide"], ["one"], to=FLOAT),
        helper.make_node("Concat", ["x", "one"], ["y"], axis=0),
    ]
    weights = {n: np.asarray(v) for n, v in zip(names, values, strict=True)}
    weights["axes"] = np.asarray([0])
    proto = model(nodes, [tensor("x", FLOAT, [2])], [tensor("y", FLOAT, None)], weights)
    session = InferenceSession(proto, effort="fast", cache=False, threads=1)
    (found,) = session.run(None, {"x": np.asarray([1, 2], np.float32)})
    np.testing.assert_array_equal(found, [1, 2, 1.5 if name == "dequantized" else 3])


MOVED_TYPES = {
    "texts": np.array([["a", "bc"], ["d", "e"], ["f", "g"]], dtype=object),
    "f8e4m3": WIDE[:3, :2].astype(ml_dtypes.float8_e4m3fn),
    "bf16": WIDE[:3, :2].astype(ml_dtypes.bfloat16),
    "s4": (S8[:3, :2] % 8).astype(ml_dtypes.int4),
    "c64": WIDE[:3, :2].astype(np.complex64),
}


@pytest.mark.parametrize("name", MOVED_TYPES)
def test_weights_of_any_type_are_moved(name):
    weights = MOVED_TYPES[name]
    kind = helper.np_dtype_to_tensor_dtype(weights.dtype)
    given = np.vectorize(str.encode)(weights) if name == "texts" else weights
    nodes = [
        helper.make_node("Transpose", ["w"], ["y"]),
        helper.make_node("Identity", ["x"], ["z"]),
    ]
    held = helper.make_tensor("w", kind, weights.shape, given.flatten().tolist())
    outputs = [tensor("y", kind, [2, 3]), tensor("z", FLOAT, [1])]
    proto = model(nodes, [tensor("x", FLOAT, [1])], outputs, {})
    proto.graph.initializer.append(held)
    session = InferenceSession(proto, effort="fast", cache=False, threads=1)
    found, _ = session.run(None, {"x": np.ones(1, np.float32)})
    assert found.tolist() == weights.T.tolist()


def test_weights_that_may_be_fed_stay():
    proto = using("Transpose", [WIDE], {"perm": [1, 0]})
    proto.graph.input.append(tensor("w0", FLOAT, WIDE.shape))
    fed = load_model(proto)
    assert "Transpose" in [x.op for x in with_weights_prepared(fed).graph.nodes]
    session = InferenceSession(proto, effort="fast", cache=False, threads=1)
    given = {"x": np.zeros((1, 1), np.float32), "w0": WIDE * 2}
    np.testing.assert_array_equal(session.run(None, given)[0], (WIDE * 2).T)


def test_a_node_that_is_malformed_is_told_of_as_usual():
    proto = using("DequantizeLinear", [S8, SCALES], {"axis": 0})
    with pytest.raises(LowtideError, match="DequantizeLinear"):
        InferenceSession(proto, effort="fast", cache=False, threads=1).run(
            None, {"x": np.zeros((1, 1), np.float32)}
        )


def in_branches():
    """A model whose two branches slice and join the same weights."""

    def branch(name, sign):
        nodes = [
            helper.make_node("Constant", [], [f"{name}0"], value=ints([0])),
            helper.make_node("Constant", [], [f"{name}1"], value=ints([24])),
            helper.make_node("Constant", [], [f"{name}2"], value=ints([1 << 62])),
            helper.make_node("Slice", ["w", f"{name}1", f"{name}2", f"{name}0"], [f"{name}low"]),
            helper.make_node("Slice", ["w", f"{name}0", f"{name}1", f"{name}0"], [f"{name}high"]),
            helper.make_node("Concat", [f"{name}low", f"{name}high"], [f"{name}w"], axis=0),
            helper.make_node(sign, ["x", f"{name}w"], [f"{name}y"]),
        ]
        return helper.make_graph(nodes, name, [], [tensor(f"{name}y", FLOAT, None)])

    nodes = [
        helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0),
        helper.make_node("Greater", ["s", "zero"], ["c"]),
        helper.make_node(
            "If", ["c"], ["y"], then_branch=branch("p", "Add"), else_branch=branch("q", "Sub")
        ),
    ]
    weights = {"w": WIDE, "zero": np.float32(0)}
    return model(nodes, [tensor("x", FLOAT, WIDE.shape)], [tensor("y", FLOAT, None)], weights)


def ints(values):
    return helper.make_tensor("", 7, [len(values)], values)


def test_weights_that_branches_move_are_made_once():
    proto = in_branches()
    prepared = with_weights_prepared(load_model(proto))
    assert "w" not in prepared.initializers
    assert prepared.initializers["pw"] is prepared.initializers["qw"]
    np.testing.assert_array_equal(
        prepared.initializers["pw"], np.concatenate([WIDE[24:], WIDE[:24]])
    )
    session = InferenceSession(proto, effort="fast", cache=False, threads=1)
    for x in (np.ones_like(WIDE), -np.ones_like(WIDE)):
        (found,) = session.run(None, {"x": x})
        moved = np.concatenate([WIDE[24:], WIDE[:24]])
        np.testing.assert_array_equal(found, x + moved if x[0, 0] > 0 else x - moved)
    assert session.memory["weight_bytes"] == WIDE.nbytes + 4


def test_branches_may_give_one_name_to_different_weights():
    """Each branch slices another part of the weights under the same names."""
    proto = in_branches()
    for attribute in proto.graph.node[-1].attribute:
        first = attribute.name == "then_branch"
        for node in attribute.g.node:
            for names in (node.input, node.output):
                names[:] = [x if x in ("x", "w") else f"v{x[1:]}" for x in names]
        attribute.g.output[0].name = "vy"
        start = attribute.g.node[1].attribute[0].t
        start.int64_data[:] = [24 if first else 7]
    session = InferenceSession(proto, effort="fast", cache=False, threads=1)
    for x, cut in ((np.ones_like(WIDE), 24), (-np.ones_like(WIDE), 7)):
        (found,) = session.run(None, {"x": x})
        moved = np.concatenate([WIDE[cut:], WIDE[:cut]])
        np.testing.assert_array_equal(found, x + moved if cut == 24 else x - moved)
