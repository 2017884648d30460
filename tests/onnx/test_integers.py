"""Products of integers beside ONNX Runtime's results, to the last bit, on several processors."""

import numpy as np
import pytest
from tests.onnx.integer_models import CASES, TYPES, dynamic, given, recurrent
from tests.onnx.models import helper, model, numpy_helper, tensor
from tests.onnx.runtime_results import results

from lowtide.evaluator import evaluate
from lowtide.frontend.onnx.model import load_model
from lowtide.onnx import InferenceSession, read_module
from lowtide.onnx.integer_weights import with_integer_weights_prepared


@pytest.mark.parametrize("target", ["native", "avx2"])
@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_onnx_runtime(name, target):
    proto, feeds = CASES[name]()
    wanted = results(proto, feeds)
    session = InferenceSession(proto, effort="fast", cache=False, threads=1, target=target)
    for found, expected in zip(session.run(None, feeds), wanted, strict=True):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


def test_the_module_means_the_same():
    proto, feeds = dynamic(3, 200, 72)
    found = evaluate(read_module(proto), [feeds["x"]])
    for x, y in zip(found, results(proto, feeds), strict=True):
        np.testing.assert_array_equal(np.asarray(x), y)


def test_matrices_are_kept_by_columns_with_their_sums():
    proto, _ = dynamic(3, 200, 72)
    prepared = with_integer_weights_prepared(load_model(proto))
    weights = {x.name: numpy_helper.to_array(x) for x in proto.graph.initializer}
    assert "w" not in prepared.initializers
    np.testing.assert_array_equal(prepared.initializers["w transposed"], weights["w"].T)
    sums = (weights["w"].astype(np.int32) - weights["wz"]).sum(0)
    np.testing.assert_array_equal(prepared.initializers["w sums"], sums)


@pytest.mark.parametrize("by_column", [False, True])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_recurrent_weights_are_kept_by_columns_with_their_sums(dtype, by_column):
    proto, feeds, values = recurrent(dtype, by_column=by_column)
    prepared = with_integer_weights_prepared(load_model(proto))
    for name in ("w", "r"):
        wanted = values[name].swapaxes(1, 2)
        np.testing.assert_array_equal(prepared.initializers[f"{name} transposed"], wanted)
        zeros = values[f"{name}z"].reshape(2, 1, -1).astype(np.int32)
        sums = (values[name].astype(np.int32) - zeros).sum(1)
        np.testing.assert_array_equal(prepared.initializers[f"{name} sums"], sums)
    (found,) = InferenceSession(proto, effort="fast", cache=False, threads=1).run(None, feeds)
    assert np.abs(found).max() > 0.1
    np.testing.assert_array_equal(found, fed_with_weights(proto, {**feeds, **values}))


def test_recurrent_weights_that_are_read_otherwise_stay():
    proto, feeds, values = recurrent(np.int8)
    proto.graph.node.append(helper.make_node("Identity", ["w"], ["v"]))
    proto.graph.output.append(tensor("v", 3, None))
    assert "w" in with_integer_weights_prepared(load_model(proto)).initializers
    found, same = InferenceSession(proto, effort="fast", cache=False, threads=1).run(None, feeds)
    np.testing.assert_array_equal(same, values["w"])
    del proto.graph.node[1], proto.graph.output[1]
    np.testing.assert_array_equal(found, fed_with_weights(proto, {**feeds, **values}))


def fed_with_weights(proto, values):
    """What a layer gives whose weights are no initializers, so that nothing prepares them."""
    del proto.graph.initializer[:], proto.graph.input[:]
    kinds = {**TYPES, np.dtype(np.float32): 1}
    proto.graph.input.extend([tensor(x, kinds[y.dtype], y.shape) for x, y in values.items()])
    (found,) = InferenceSession(proto, effort="fast", cache=False, threads=1).run(None, values)
    return found


def test_sums_are_not_taken_where_rows_have_zero_points_of_their_own():
    proto, feeds = given(3, 96, 80, (np.uint8, np.int8), (5, None))
    proto.graph.input.append(tensor("rows", 2, [3]))
    proto.graph.node[0].input[2] = "rows"
    prepared = with_integer_weights_prepared(load_model(proto))
    assert not any("sums" in x for x in prepared.initializers)
    feeds = {**feeds, "rows": np.array([0, 200, 255], np.uint8)}
    (found,) = InferenceSession(proto, effort="fast", cache=False, threads=1).run(None, feeds)
    x = feeds["x"].astype(np.int64) - feeds["rows"][:, None]
    weights = {x.name: numpy_helper.to_array(x) for x in proto.graph.initializer}
    np.testing.assert_array_equal(found, x @ weights["w"].astype(np.int64))


@pytest.mark.parametrize("reader", ["another node", "the caller", "an output", "the first factor"])
def test_matrices_that_are_read_otherwise_stay(reader):
    proto, _ = given(3, 96, 80, (np.uint8, np.int8), (None, None))
    if reader == "another node":
        proto.graph.node.append(helper.make_node("Identity", ["w"], ["v"]))
        proto.graph.output.append(tensor("v", 3, None))
    elif reader == "the caller":
        proto.graph.input.append(tensor("w", 3, [96, 80]))
    elif reader == "an output":
        proto.graph.output.append(tensor("w", 3, [96, 80]))
    else:
        proto.graph.node[0].input[:] = ["w", "w"]
    given_model = load_model(proto)
    assert with_integer_weights_prepared(given_model) is given_model


def test_names_that_are_taken_are_left_alone():
    weights = {"w": np.ones((4, 5), np.int8), "w transposed": np.full((1, 5), 2, np.int32)}
    nodes = [
        helper.make_node("MatMulInteger", ["x", "w"], ["p"]),
        helper.make_node("Add", ["p", "w transposed"], ["y"]),
    ]
    proto = model(nodes, [tensor("x", 2, [1, 4])], [tensor("y", 6, None)], weights, 15)
    session = InferenceSession(proto, effort="fast", cache=False, threads=1)
    (found,) = session.run(None, {"x": np.full((1, 4), 3, np.uint8)})
    np.testing.assert_array_equal(found, [[14] * 5])
