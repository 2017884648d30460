"""Frozen GraphDefs, made by hand, through files and the command line."""

import subprocess
import sys

import numpy as np
import pytest

import lowtide
from lowtide.evaluator import evaluate
from lowtide.frontend.tensorflow.messages import new_message
from lowtide.ir.errors import InputError, LowtideError, UnsupportedOpError
from lowtide.verifier import verify

R = np.random.default_rng(3)
W = R.normal(size=(4, 5)).astype(np.float32)
X = R.normal(size=(2, 4)).astype(np.float32)
FLOAT, INT32 = 1, 3


def add_node(graph, name, op, *inputs):
    node = graph.node.add(name=name, op=op)
    node.input.extend(inputs)
    return node


def attribute(node, name):
    return node.attr.add(key=name).value


def add_const(graph, name, array):
    tensor = attribute(add_node(graph, name, "Const"), "value").tensor
    tensor.dtype = FLOAT if array.dtype == np.float32 else INT32
    for size in array.shape:
        tensor.tensor_shape.dim.add(size=size)
    tensor.tensor_content = array.tobytes()
    return tensor


def placeholder(graph, name, sizes):
    node = add_node(graph, name, "Placeholder")
    attribute(node, "dtype").type = FLOAT
    for size in sizes:
        attribute_shape = node.attr[-1] if node.attr[-1].key == "shape" else None
        entry = attribute_shape or node.attr.add(key="shape")
        entry.value.shape.dim.add(size=size)


def perceptron():
    """Return the graph of softmax(relu(x w) + 0.5), the bias one value that is repeated."""
    graph = new_message("GraphDef")
    placeholder(graph, "x", (2, 4))
    add_const(graph, "w", W)
    bias = add_const(graph, "bias", np.zeros(5, np.float32))
    bias.tensor_content = b""
    bias.float_val.append(0.5)
    add_node(graph, "product", "MatMul", "x", "w")
    add_node(graph, "hidden", "Relu", "product")
    add_node(graph, "biased", "BiasAdd", "hidden", "bias")
    add_node(graph, "result", "Softmax", "biased")
    return graph


def expected():
    biased = np.maximum(X @ W, 0) + 0.5
    wide = np.exp(biased)
    return wide / wide.sum(1, keepdims=True)


def write(tmp_path, graph):
    path = tmp_path / "graph.pb"
    path.write_bytes(graph.SerializeToString())
    return path


def test_perceptron(tmp_path) -> None:
    module = lowtide.read(write(tmp_path, perceptron()))
    verify(module)
    (found,) = evaluate(module, [X])
    np.testing.assert_allclose(found, expected(), 1e-5)


def test_function_is_called(tmp_path) -> None:
    graph = perceptron()
    function = graph.library.function.add()
    function.signature.name = "double"
    function.signature.input_arg.add(name="a", type=FLOAT)
    function.signature.output_arg.add(name="b", type=FLOAT)
    inner = function.node_def.add(name="sum", op="AddV2")
    inner.input.extend(["a", "a"])
    function.ret.add(key="b", value="sum:z:0")
    call = add_node(graph, "call", "PartitionedCall", "result")
    attribute(call, "f").func.name = "double"
    (found,) = evaluate(lowtide.read(write(tmp_path, graph)), [X])
    np.testing.assert_allclose(found, 2 * expected(), 1e-5)


def test_command_line_runs_it(tmp_path) -> None:
    np.savez(tmp_path / "in.npz", in_0=X)
    arguments = ["--inputs", str(tmp_path / "in.npz"), "--outputs", str(tmp_path / "out.npz")]
    command = [sys.executable, "-m", "lowtide", "run", str(write(tmp_path, perceptron()))]
    run = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)
    assert not run.returncode, run.stderr
    np.testing.assert_allclose(np.load(tmp_path / "out.npz")["out_0"], expected(), 1e-5)


def test_unknown_op_names_the_node(tmp_path) -> None:
    graph = perceptron()
    add_node(graph, "odd", "Softmaxx", "result")
    with pytest.raises(UnsupportedOpError, match=r"graph\.pb: node 'odd': .*'Softmaxx'.*Softmax"):
        lowtide.read(write(tmp_path, graph))


def test_variable_is_refused(tmp_path) -> None:
    graph = perceptron()
    add_node(graph, "state", "VarHandleOp")
    with pytest.raises(UnsupportedOpError, match=r"'state' \(VarHandleOp\).*freeze the graph"):
        lowtide.read(write(tmp_path, graph))


def test_bad_tensor_names_the_node(tmp_path) -> None:
    graph = perceptron()
    graph.node[1].attr[0].value.tensor.tensor_content = b"123"
    with pytest.raises(InputError, match=r"node 'w'.*3 bytes, 80 needed"):
        lowtide.read(write(tmp_path, graph))


def test_giant_tensor_is_refused(tmp_path) -> None:
    graph = perceptron()
    tensor = graph.node[2].attr[0].value.tensor
    tensor.tensor_shape.dim[0].size = 1 << 40
    with pytest.raises(InputError, match="over 2 GiB"):
        lowtide.read(write(tmp_path, graph))


def test_any_cut_is_one_error_or_a_graph(tmp_path) -> None:
    data = perceptron().SerializeToString()
    path = tmp_path / "cut.pb"
    for length in range(0, len(data), 7):
        path.write_bytes(data[:length])
        try:
            lowtide.read(path)
        except LowtideError as error:
            assert str(error).startswith(str(path))
