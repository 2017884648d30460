"""Models for the tests, made in process."""

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="ONNX models take the package onnx")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def tensor(name, kind, sizes):
    return helper.make_tensor_value_info(name, kind, sizes)


def model(nodes, inputs, outputs, initializers=None, opset=18, functions=()):
    constants = [numpy_helper.from_array(y, x) for x, y in (initializers or {}).items()]
    graph = helper.make_graph(nodes, "graph", inputs, outputs, constants)
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, functions=list(functions))


WEIGHTS = np.linspace(-1, 1, 96 * 32, dtype=np.float32).reshape(96, 32)


def perceptron():
    """One layer, whose first dimension is called batch, with weights too long for a constant."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], name="/layer/MatMul"),
        helper.make_node("Relu", ["a"], ["y"], name="/layer/Relu"),
    ]
    sizes = ["batch", 96], ["batch", 32]
    return model(
        nodes, [tensor("x", FLOAT, sizes[0])], [tensor("y", FLOAT, sizes[1])], {"w": WEIGHTS}
    )


def through_host():
    """A sum over as many rows as a count says, between two stretches: NonZero is a host node."""
    nodes = [
        helper.make_node("Add", ["x", "x"], ["twice"]),
        helper.make_node("NonZero", ["twice"], ["places"]),
        helper.make_node("Transpose", ["places"], ["rows"]),
        helper.make_node("GatherND", ["twice", "rows"], ["found"]),
        helper.make_node("ReduceSum", ["found"], ["y"], keepdims=0),
    ]
    return model(nodes, [tensor("x", FLOAT, [4])], [tensor("y", FLOAT, [])])
