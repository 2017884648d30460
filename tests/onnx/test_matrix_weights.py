"""Second factors of products that are kept in panels: what is cut, what stays, equal results."""

from dataclasses import replace

import numpy as np
import pytest
from tests.onnx import beside
from tests.onnx.models import FLOAT, helper, model, numpy_helper, tensor

from lowtide.frontend.onnx.model import load_model
from lowtide.onnx import InferenceSession
from lowtide.onnx.matrix_weights import with_matrices_in_panels

CASES = {
    "one row": ("MatMul", (1, 96), (96, 64), {}),
    "a vector": ("MatMul", (96,), (96, 64), {}),
    "batches": ("MatMul", (3, 2, 5, 96), (96, 64), {}),
    "columns that fill no panel": ("MatMul", (7, 40), (40, 1001), {}),
    "long blocks": ("MatMul", (20, 2500), (2500, 48), {}),
    "many rows": ("MatMul", (130, 70), (70, 80), {}),
    "factors and a bias": ("Gemm", (9, 96), (96, 64), {"alpha": 0.5, "beta": 2.0}),
    "columns that lie along k": ("Gemm", (9, 96), (64, 96), {"transB": 1}),
    "both turned": ("Gemm", (96, 9), (1001, 96), {"transA": 1, "transB": 1}),
}


def product(name):
    op, sizes, matrix, attributes = CASES[name]
    rng = np.random.default_rng(len(name))
    columns = matrix[0] if attributes.get("transB") else matrix[1]
    weights = {"w": (rng.normal(size=matrix) / 50).astype(np.float32)}
    if op == "Gemm":
        weights["b"] = rng.normal(size=columns).astype(np.float32)
    node = helper.make_node(op, ["x", *weights], ["y"], **attributes)
    proto = model([node], [tensor("x", FLOAT, sizes)], [tensor("y", FLOAT, None)], weights)
    proto.ir_version = 8
    return proto, {"x": rng.normal(size=sizes).astype(np.float32)}


@pytest.mark.parametrize("name", CASES)
def test_columns_of_a_panel_lie_side_by_side(name):
    proto, feeds = product(name)
    prepared = with_matrices_in_panels(load_model(proto))
    matrix = numpy_helper.to_array(proto.graph.initializer[0])
    matrix = matrix.T if CASES[name][3].get("transB") else matrix
    panels = prepared.initializers["w in panels"]
    assert "w" not in prepared.initializers
    assert panels.shape == (-(-matrix.shape[1] // 16), matrix.shape[0], 16)
    whole = panels.swapaxes(0, 1).reshape(matrix.shape[0], -1)
    np.testing.assert_array_equal(whole[:, : matrix.shape[1]], matrix)
    beside.check(beside.ours(proto, feeds), beside.reference(proto, feeds))


@pytest.mark.parametrize("target", ["avx2", "native"])
@pytest.mark.parametrize("name", CASES)
def test_every_width_of_vectors_reads_panels(name, target):
    proto, feeds = product(name)
    found = beside.ours(proto, feeds, target=target)
    beside.check(found, beside.reference(proto, feeds))


def test_what_follows_a_product_is_computed_where_the_sums_are():
    proto, feeds = product("factors and a bias")
    proto.graph.node[0].output[0] = "a"
    proto.graph.node.append(helper.make_node("Relu", ["a"], ["y"]))
    session = InferenceSession(proto.SerializeToString(), cache=False, compiler="here")
    beside.check(session.run(None, feeds), beside.reference(proto, feeds))
    assert len(beside.kernels(session)) == 1


@pytest.mark.parametrize(
    "reason", ["another node", "the caller", "an output", "both ways", "small", "few columns"]
)
def test_matrices_stay_that_are_read_otherwise(reason):
    proto, _ = product("columns that lie along k" if reason == "both ways" else "one row")
    weight = numpy_helper.to_array(proto.graph.initializer[0])
    if reason == "another node":
        proto.graph.node.append(helper.make_node("Identity", ["w"], ["v"]))
    elif reason == "the caller":
        proto.graph.input.append(tensor("w", FLOAT, weight.shape))
    elif reason == "an output":
        proto.graph.output.append(tensor("w", FLOAT, weight.shape))
    elif reason == "both ways":
        proto.graph.node.append(helper.make_node("MatMul", ["y", "w"], ["z"]))
    else:
        kept = weight[:8] if reason == "small" else np.tile(weight[:, :20], (20, 1))
        proto.graph.initializer[0].CopyFrom(numpy_helper.from_array(kept, "w"))
    given = load_model(proto)
    assert with_matrices_in_panels(given) is given


def test_a_matrix_of_two_products_is_stored_once():
    proto, feeds = product("one row")
    proto.graph.node.append(helper.make_node("MatMul", ["u", "w"], ["v"]))
    proto.graph.input.append(tensor("u", FLOAT, (5, 96)))
    proto.graph.output.append(tensor("v", FLOAT, None))
    feeds["u"] = np.random.default_rng(1).normal(size=(5, 96)).astype(np.float32)
    assert [*with_matrices_in_panels(load_model(proto)).initializers] == ["w in panels"]
    beside.check(beside.ours(proto, feeds), beside.reference(proto, feeds))


def test_one_array_under_several_names_is_stored_once():
    proto, _ = product("one row")
    proto.graph.node.append(helper.make_node("MatMul", ["x", "v"], ["z"]))
    again = numpy_helper.to_array(proto.graph.initializer[0])
    proto.graph.initializer.append(numpy_helper.from_array(again, "v"))
    given = load_model(proto)
    known = {**given.initializers, "v": given.initializers["w"]}
    prepared = with_matrices_in_panels(replace(given, initializers=known)).initializers
    assert prepared["v in panels"] is prepared["w in panels"]


def test_one_array_that_products_read_both_ways_is_stored_for_each():
    weight = np.random.default_rng(3).normal(size=(96, 96)).astype(np.float32)
    inputs, outputs = [tensor("x", FLOAT, (4, 96))], [tensor(y, FLOAT, None) for y in "yz"]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["y"]),
        helper.make_node("Gemm", ["x", "v"], ["z"], transB=1),
    ]
    given = load_model(model(nodes, inputs, outputs, {"w": weight, "v": weight}))
    known = {**given.initializers, "v": given.initializers["w"]}
    prepared = with_matrices_in_panels(replace(given, initializers=known)).initializers
    for name, wanted in (("w", weight), ("v", weight.T)):
        panels = prepared[f"{name} in panels"]
        np.testing.assert_array_equal(panels.swapaxes(0, 1).reshape(96, 96), wanted)
