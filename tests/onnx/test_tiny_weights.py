"""Weights that have gone to nothing: which become zeros, which stay, and that results are equal."""

import numpy as np
import pytest
from tests.onnx import beside
from tests.onnx.models import FLOAT, helper, model, numpy_helper, tensor

from lowtide.frontend.onnx.model import load_model
from lowtide.frontend.onnx.module import read_module
from lowtide.ir import Opcode
from lowtide.onnx import InferenceSession

TINY = (1e-40, -3e-45, 1e-33, -(2.0**-101))
KEPT = (2.0**-100, 1e-20, -0.25, np.float32("nan"))


def weights(*sizes):
    array = np.random.default_rng(3).normal(size=sizes).astype(np.float32)
    array.reshape(-1)[: len(TINY)] = TINY
    return array


def convolution(kernel, more=(), outputs=("y",), inputs=()):
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"]), *more]
    given = [tensor("x", FLOAT, [1, kernel.shape[1], 9, 9]), *inputs]
    proto = model(nodes, given, [tensor(x, FLOAT, None) for x in outputs], {"w": kernel})
    proto.ir_version = 8
    return proto


def feeds(kernel):
    rng = np.random.default_rng(5)
    return {"x": rng.normal(size=(1, kernel.shape[1], 9, 9)).astype(np.float32)}


def read(proto):
    return load_model(proto).initializers["w"]


def test_tiny_factors_of_sums_of_products_are_zeros():
    kernel = weights(16, 8, 3, 3)
    kernel.reshape(-1)[len(TINY) : len(TINY) + len(KEPT)] = KEPT
    wanted = kernel.copy()
    wanted.reshape(-1)[: len(TINY)] = 0
    np.testing.assert_array_equal(read(convolution(kernel)), wanted)


def test_results_are_those_of_the_weights_as_they_were():
    kernel = weights(16, 8, 3, 3)
    kernel[7] = 1e-41
    proto = convolution(kernel)
    found = InferenceSession(proto.SerializeToString(), cache=False).run(None, feeds(kernel))
    beside.check(found, beside.reference(proto, feeds(kernel)))
    assert not found[0][0, 7].any()


def test_a_module_has_the_weights_of_a_session():
    kernel = weights(16, 8, 3, 3)
    module = read_module(convolution(kernel))
    constants = [x for x in module.entry.instructions.values() if x.opcode is Opcode.CONSTANT]
    arrays = [x.attributes.literal.array for x in constants]
    (found,) = [x for x in arrays if x.size == kernel.size]
    assert np.count_nonzero(found) == kernel.size - len(TINY)


def fed(kernel):
    return convolution(kernel, inputs=[tensor("w", FLOAT, kernel.shape)])


def an_output(kernel):
    return convolution(kernel, outputs=("y", "w"))


def read_by_others(kernel):
    return convolution(kernel, more=[helper.make_node("Abs", ["w"], ["z"])], outputs=("y", "z"))


def read_by_a_branch(kernel):
    branch = helper.make_graph(
        [helper.make_node("Identity", ["w"], ["v"])], "branch", [], [tensor("v", FLOAT, None)]
    )
    truth = numpy_helper.from_array(np.array(True), "truth")
    node = helper.make_node("If", ["truth"], ["z"], then_branch=branch, else_branch=branch)
    proto = convolution(kernel, more=[node], outputs=("y", "z"))
    proto.graph.initializer.append(truth)
    return proto


@pytest.mark.parametrize("make", [fed, an_output, read_by_others, read_by_a_branch])
def test_what_is_more_than_a_factor_stays(make):
    kernel = weights(16, 8, 3, 3)
    np.testing.assert_array_equal(read(make(kernel)), kernel)


def test_arrays_that_are_small_all_over_stay():
    kernel = weights(16, 8, 3, 3) * np.float32(2.0**-60)
    np.testing.assert_array_equal(read(convolution(kernel)), kernel)


def test_halves_stay():
    kernel = np.full((4, 2, 3, 3), 6e-8, np.float16)
    kernel[0] = 1
    np.testing.assert_array_equal(read(convolution(kernel)), kernel)


def test_tiny_numbers_are_found_wherever_they_lie():
    factor = np.ones((300, 500), np.float32)
    factor[299, 499] = 1e-39
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    given = tensor("x", FLOAT, [2, 300]), tensor("y", FLOAT, [2, 500])
    found = read(model([node], [given[0]], [given[1]], {"w": factor}))
    assert np.count_nonzero(found) == factor.size - 1
