"""Functions of weights alone are computed once a session, as the nodes would."""

import numpy as np
import pytest
from tests.onnx.models import FLOAT, helper, model, tensor

from lowtide.evaluator import evaluate
from lowtide.frontend.onnx.model import load_model
from lowtide.ir import LowtideError
from lowtide.onnx import InferenceSession, read_module
from lowtide.onnx.computed_weights import with_functions_computed

RANDOM = np.random.default_rng(5)
COUNTS = np.arange(24, dtype=np.int64)
WIDE = RANDOM.normal(size=(24, 24)).astype(np.float32)


def transform_nodes():
    """The cosines of a Fourier transform, as exporters write them with counts of 64 bits."""
    return [
        helper.make_node("Unsqueeze", ["counts", "last"], ["down"]),
        helper.make_node("Unsqueeze", ["counts", "first"], ["across"]),
        helper.make_node("Mul", ["down", "across"], ["products"]),
        helper.make_node("Mod", ["products", "size"], ["turns"]),
        helper.make_node("Cast", ["turns"], ["wide"], to=FLOAT),
        helper.make_node("Mul", ["wide", "step"], ["angles"]),
        helper.make_node("Cos", ["angles"], ["cosines"]),
    ]


WEIGHTS = {
    "counts": COUNTS,
    "last": np.asarray([1]),
    "first": np.asarray([0]),
    "size": np.int64(24),
    "step": np.float32(2 * np.pi / 24),
}


def transform(*more):
    """A model that multiplies by the cosines, and what else there is."""
    nodes = [*transform_nodes(), helper.make_node("MatMul", ["x", "cosines"], ["y"]), *more]
    outputs = ["y", *[name for node in more for name in node.output if name.startswith("out")]]
    return model(
        nodes, [tensor("x", FLOAT, [3, 2, 24])], [tensor(x, FLOAT, None) for x in outputs], WEIGHTS
    )


def given():
    return RANDOM.normal(size=(3, 2, 24)).astype(np.float32)


def run(proto, x):
    return InferenceSession(proto, effort="fast", cache=False, threads=1).run(None, {"x": x})


def test_a_transform_is_one_product():
    prepared = with_functions_computed(load_model(transform()))
    assert [x.op for x in prepared.graph.nodes] == ["MatMul"]
    assert set(prepared.initializers) == {"cosines"}
    angles = np.outer(COUNTS, COUNTS) % 24 * np.float32(2 * np.pi / 24)
    np.testing.assert_allclose(prepared.initializers["cosines"], np.cos(angles), atol=1e-6)


def test_results_are_those_of_the_nodes():
    proto, x = transform(), given()
    (found,) = run(proto, x)
    (expected,) = evaluate(read_module(proto), [x])
    np.testing.assert_allclose(found, np.asarray(expected), atol=1e-5)


def test_what_others_read_stays():
    """A value in between is an output, another one is read by a node that computes."""
    more = [
        helper.make_node("Cast", ["turns"], ["out"], to=FLOAT),
        helper.make_node("MatMul", ["x", "angles"], ["out scaled"]),
    ]
    proto, x = transform(*more), given()
    prepared = with_functions_computed(load_model(proto))
    assert "Cos" not in [x.op for x in prepared.graph.nodes]
    results = evaluate(read_module(proto), [x])
    for found, expected in zip(run(proto, x), results, strict=True):
        np.testing.assert_allclose(found, np.asarray(expected), rtol=1e-5, atol=1e-5)


def test_weights_that_may_be_fed_are_computed_in_each_run():
    proto = transform()
    step = tensor("step", FLOAT, [])
    proto.graph.input.append(step)
    prepared = with_functions_computed(load_model(proto))
    assert "Cos" in [x.op for x in prepared.graph.nodes]
    assert "Mod" not in [x.op for x in prepared.graph.nodes]
    x = given()
    session = InferenceSession(proto, effort="fast", cache=False, threads=1)
    (zero,) = session.run(["y"], {"x": x, "step": np.float32(0)})
    np.testing.assert_allclose(zero, np.broadcast_to(x.sum(-1, keepdims=True), x.shape), rtol=1e-4)


def test_cheap_functions_stay():
    """What is only moved, spread out or added is part of the kernels that read it."""
    nodes = [
        helper.make_node("Expand", ["counts", "sizes"], ["spread"]),
        helper.make_node("Cast", ["spread"], ["wide"], to=FLOAT),
        helper.make_node("Add", ["x", "wide"], ["y"]),
    ]
    proto = model(
        nodes,
        [tensor("x", FLOAT, [24, 24])],
        [tensor("y", FLOAT, None)],
        {"counts": COUNTS, "sizes": np.asarray([24, 24])},
    )
    found = load_model(proto)
    assert with_functions_computed(found) is found


def test_large_results_stay():
    nodes = [
        helper.make_node("Expand", ["w", "sizes"], ["spread"]),
        helper.make_node("Sin", ["spread"], ["sines"]),
        helper.make_node("Mul", ["x", "sines"], ["y"]),
    ]
    for rows, is_computed in ((100, True), (2000, False), (100_000, False)):
        proto = model(
            nodes,
            [tensor("x", FLOAT, [1])],
            [tensor("y", FLOAT, None)],
            {"w": WIDE.reshape(-1), "sizes": np.asarray([rows, 576])},
        )
        left = [x.op for x in with_functions_computed(load_model(proto)).graph.nodes]
        assert ("Sin" not in left) is is_computed


@pytest.mark.parametrize("op", ["Sin", "Sqrt", "Exp"])
def test_no_larger_than_the_weights_is_computed(op):
    large = np.abs(RANDOM.normal(size=(1200, 1000))).astype(np.float32)
    nodes = [helper.make_node(op, ["w"], ["f"]), helper.make_node("Add", ["x", "f"], ["y"])]
    proto = model(nodes, [tensor("x", FLOAT, [1])], [tensor("y", FLOAT, None)], {"w": large})
    prepared = with_functions_computed(load_model(proto))
    assert [x.op for x in prepared.graph.nodes] == ["Add"]
    assert set(prepared.initializers) == {"f"}


def test_errors_of_nodes_are_raised_where_the_model_runs():
    nodes = [
        helper.make_node("Add", ["counts", "few"], ["sums"]),
        helper.make_node("Cast", ["sums"], ["wide"], to=FLOAT),
        helper.make_node("Sin", ["wide"], ["f"]),
        helper.make_node("Add", ["x", "f"], ["y"]),
    ]
    weights = {"counts": COUNTS, "few": np.arange(5, dtype=np.int64)}
    proto = model(nodes, [tensor("x", FLOAT, [1])], [tensor("y", FLOAT, None)], weights)
    with pytest.raises(LowtideError, match="Add"):
        run(proto, np.zeros(1, np.float32))
