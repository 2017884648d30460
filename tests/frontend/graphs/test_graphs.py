"""Whole graphs: order, constants, control flow, functions, and what is wrong with a graph."""

import subprocess
import sys

import numpy as np
import pytest

from lowtide.evaluator import evaluate
from lowtide.frontend.graphs.context import OpKernelContext
from lowtide.frontend.graphs.graph import GraphError
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.onnx import OnnxGraph, OnnxNode, compile_nodes
from lowtide.frontend.tensorflow import FunctionDef, NodeDef, compile_graph_def
from lowtide.ir import ElementType, UnsupportedOpError, array_shape
from lowtide.verifier import verify

F32, S32, S64 = ElementType.F32, ElementType.S32, ElementType.S64
X = np.arange(12, dtype=np.float32).reshape(3, 4)
SHAPE = array_shape(F32, (3, 4))


def const(name, value):
    return NodeDef(name, "Const", attributes={"value": np.asarray(value)})


def placeholder(name, *sizes, dtype="float32"):
    return NodeDef(name, "Placeholder", attributes={"dtype": dtype, "shape": sizes})


def run(nodes, fetches, arrays, functions=(), arguments=None):
    program = compile_graph_def(nodes, fetches, arguments, functions)
    verify(program.module)
    return evaluate(program.module, arrays)


# -- order and constants -------------------------------------------------------------------------


def test_nodes_run_in_topological_order_and_only_those_that_are_fetched():
    nodes = [
        NodeDef("sum", "AddV2", ["left", "parts:1"]),
        NodeDef("left", "Relu", ["parts", "^x"]),
        NodeDef("parts", "Split", ["axis", "x"], {"num_split": 2}),
        const("axis", 1),
        NodeDef("unused", "NoSuchOp", ["x"]),
        placeholder("x", 3, 4),
    ]
    program = compile_graph_def(nodes, ["sum", "parts:1"])
    assert program.arguments == ("x:0",)
    assert program.results == ("sum:0", "parts:1")
    total, right = evaluate(program.module, [X])
    np.testing.assert_array_equal(total, X[:, :2] + X[:, 2:])
    np.testing.assert_array_equal(right, X[:, 2:])


def test_sizes_computed_by_the_graph_itself_are_constants_and_leave_nothing_behind():
    nodes = [
        OnnxNode("Shape", ["x"], ["shape"]),
        OnnxNode("Gather", ["shape", "one"], ["columns"]),
        OnnxNode("Unsqueeze", ["columns", "zero"], ["wide"]),
        OnnxNode("Mul", ["wide", "two"], ["double"]),
        OnnxNode("Concat", ["double", "rest"], ["sizes"], {"axis": 0}),
        OnnxNode("Reshape", ["x", "sizes"], ["y"]),
    ]
    known = {
        "one": np.array(1),
        "zero": np.array([0]),
        "two": np.array([2]),
        "rest": np.array([-1]),
        "x": X,
    }
    program = compile_nodes(nodes, {"x": array_shape(F32, (4, 4))}, ["y"], known)
    assert program.module.entry.root.shape.tuple_shapes[0].dimensions == (8, 2)
    assert {x.opcode.value for x in program.module.entry.instructions.values()} == {
        "parameter",
        "reshape",
        "tuple",
    }


def test_an_argument_that_has_to_be_constant_may_be_given_by_value():
    nodes = [
        placeholder("x", 3, 4),
        NodeDef("y", "Sum", ["x", "axes"]),
        NodeDef("axes", "Placeholder"),
    ]
    (total,) = run(nodes, ["y"], [X], arguments={"axes": np.int32([1])})
    np.testing.assert_array_equal(total, X.sum(1))
    with pytest.raises(GraphError, match=r"node 'y' \(Sum\): input 1, 'axes:0', has to be a const"):
        compile_graph_def(nodes, ["y"], {"axes": array_shape(S32, (1,))})


def test_a_long_chain_needs_no_recursion():
    nodes = [NodeDef("n0", "Identity", ["x"]), placeholder("x", 2)]
    nodes += [NodeDef(f"n{i}", "Neg", [f"n{i - 1}"]) for i in range(1, 3001)]
    program = compile_graph_def(nodes[::-1], ["n3000"])
    assert program.module.instruction_count == 3002


# -- control flow --------------------------------------------------------------------------------

THEN = FunctionDef("then", ["a", "b"], [NodeDef("s", "AddV2", ["a", "b"])], ["s:z:0"])
ELSE = FunctionDef("else", ["a", "b"], [NodeDef("s", "Sub", ["a", "b"])], ["s"])


@pytest.mark.parametrize("condition", [True, False])
def test_if_of_tensorflow(condition):
    nodes = [
        placeholder("p", dtype="bool"),
        placeholder("x", 3, 4),
        NodeDef("y", "If", ["p", "x", "x"], {"then_branch": "then", "else_branch": "else"}),
    ]
    (result,) = run(nodes, ["y"], [np.bool_(condition), X], [THEN, ELSE])
    np.testing.assert_array_equal(result, 2 * X if condition else 0 * X)


@pytest.mark.parametrize(("number", "factor"), [(0, 2), (1, 0), (7, 0)])
def test_case_of_tensorflow(number, factor):
    nodes = [
        placeholder("n", dtype="int32"),
        placeholder("x", 3, 4),
        NodeDef("y", "StatelessCase", ["n", "x", "x"], {"branches": ["then", "else"]}),
    ]
    (result,) = run(nodes, ["y"], [np.int32(number), X], [THEN, ELSE])
    np.testing.assert_array_equal(result, factor * X)


def test_while_of_tensorflow_and_functions_that_call_functions():
    below = FunctionDef(
        "below", ["i", "x"], [const("ten", np.int32(10)), NodeDef("p", "Less", ["i", "ten"])], ["p"]
    )
    double = FunctionDef("double", ["x"], [NodeDef("y", "AddV2", ["x", "x"])], ["y"])
    step = FunctionDef(
        "step",
        ["i", "x"],
        [
            const("three", np.int32(3)),
            NodeDef("j", "AddV2", ["i", "three"]),
            NodeDef("y", "PartitionedCall", ["x"], {"f": "double"}),
        ],
        ["j:z:0", "y:output:0"],
    )
    nodes = [
        placeholder("i", dtype="int32"),
        placeholder("x", 3, 4),
        NodeDef("loop", "While", ["i", "x"], {"cond": "below", "body": "step"}),
        NodeDef("after", "StatefulPartitionedCall", ["loop:1"], {"f": "double"}),
    ]
    i, x, y = run(nodes, ["loop", "loop:1", "after"], [np.int32(0), X], [below, step, double])
    assert i == 12
    np.testing.assert_array_equal(x, 16 * X)
    np.testing.assert_array_equal(y, 32 * X)


@pytest.mark.parametrize("condition", [True, False])
def test_branches_of_onnx_read_values_and_constants_from_around_them(condition):
    inner = OnnxGraph([], [OnnxNode("Mul", ["x", "two"], ["inner"])], ["inner"])
    then = OnnxGraph(
        [], [OnnxNode("If", ["p"], ["t"], {"then_branch": inner, "else_branch": inner})], ["t"]
    )
    other = OnnxGraph([], [OnnxNode("Add", ["h", "one"], ["e"])], ["e"], {"one": np.float32([1])})
    nodes = [
        OnnxNode("Neg", ["x"], ["h"]),
        OnnxNode("If", ["p"], ["y"], {"then_branch": then, "else_branch": other}),
    ]
    inputs = {"p": array_shape(ElementType.PRED, (1,)), "x": SHAPE}
    program = compile_nodes(nodes, inputs, ["y"], {"two": np.float32(2)})
    verify(program.module)
    (result,) = evaluate(program.module, [np.array([condition]), X])
    np.testing.assert_array_equal(result, 2 * X if condition else 1 - X)


@pytest.mark.parametrize(("most", "steps"), [(3, 3), (99, 5), (None, 5)])
def test_loop_of_onnx_ends_by_count_or_condition(most, steps):
    body = OnnxGraph(
        ["i", "before", "total"],
        [OnnxNode("Add", ["total", "x"], ["sum"]), OnnxNode("Less", ["i", "last"], ["go"])],
        ["go", "sum"],
        {"last": np.array(4)},
    )
    count = "" if most is None else "m"
    nodes = [OnnxNode("Loop", [count, "", "x"], ["y"], {"body": body})]
    inputs = {"x": SHAPE} if most is None else {"x": SHAPE, "m": array_shape(S64, (1,))}
    program = compile_nodes(nodes, inputs, ["y"])
    verify(program.module)
    arrays = [X] if most is None else [X, np.array([most])]
    (result,) = evaluate(program.module, arrays)
    np.testing.assert_array_equal(result, (1 + steps) * X)


# -- errors --------------------------------------------------------------------------------------

TF_ERRORS = {
    "cycle": (
        [NodeDef("a", "Neg", ["b"]), NodeDef("b", "Neg", ["c"]), NodeDef("c", "Neg", ["b"])],
        ["a"],
        r"node 'b' \(Neg\): the graph has a cycle: b <- c <- b",
    ),
    "missing input": (
        [placeholder("input", 2), NodeDef("a", "Neg", ["imput"])],
        ["a"],
        r"node 'a' \(Neg\): its input 'imput:0' is made by no node; did you mean 'input:0'\?",
    ),
    "missing control input": (
        [placeholder("x", 2), NodeDef("a", "Neg", ["x", "^y"])],
        ["a"],
        "node 'a'.*it waits for 'y', which is no node",
    ),
    "missing fetch": ([placeholder("logit", 2)], ["logits"], "output 'logits:0'; did you mean"),
    "bad reference": ([placeholder("x", 2)], ["x:y:z:0"], "'x:y:z:0' is no input"),
    "same name": (
        [placeholder("x", 2), NodeDef("x", "Neg", ["x"])],
        ["x"],
        r"node 'x' \(Neg\): there is another node of this name",
    ),
    "too few outputs": (
        [placeholder("x", 2), NodeDef("a", "Neg", ["x"])],
        ["a:3"],
        "node 'a'.*it has 1 outputs; there is none for 'a:3'",
    ),
    "wrong count": (
        [placeholder("x", 2), NodeDef("a", "AddV2", ["x"])],
        ["a"],
        r"node 'a' \(AddV2\): expected 2 inputs, found 1",
    ),
    "missing attribute": (
        [placeholder("x", 2), NodeDef("a", "Cast", ["x"])],
        ["a"],
        r"node 'a' \(Cast\): attribute 'DstT' is missing",
    ),
    "wrong attribute": (
        [placeholder("x", 2), NodeDef("a", "Cast", ["x"], {"DstT": "floot"})],
        ["a"],
        "attribute 'DstT' cannot be 'floot': 'floot' is no element type",
    ),
    "wrong shapes": (
        [placeholder("x", 2), placeholder("y", 3), NodeDef("a", "AddV2", ["x", "y"])],
        ["a"],
        r"node 'a' \(AddV2\): sizes \[2\], \[3\] do not broadcast together",
    ),
    "wrong types": (
        [placeholder("x", 2), placeholder("y", 2, dtype="int32"), NodeDef("a", "Sub", ["x", "y"])],
        ["a"],
        r"node 'a' \(Sub\): subtract: ",
    ),
    "unknown shape": (
        [placeholder("x", None, 2), NodeDef("a", "Neg", ["x"])],
        ["a"],
        "node 'x'.*no argument is given for it, and its shape is not known",
    ),
    "unknown function": (
        [placeholder("x", 2), NodeDef("a", "PartitionedCall", ["x"], {"f": "thn"})],
        ["a"],
        r"node 'a' \(PartitionedCall\): no function 'thn' is given; did you mean 'then'\?",
    ),
    "wrong arguments": (
        [placeholder("x", 2), NodeDef("a", "PartitionedCall", ["x"], {"f": "then"})],
        ["a"],
        "function 'then' takes 2 arguments, found 1",
    ),
    "axis": (
        [placeholder("x", 2), const("c", 2), NodeDef("a", "Sum", ["x", "c"])],
        ["a"],
        "node 'a'.*axis 2 is out of range for rank 1",
    ),
}


@pytest.mark.parametrize("name", TF_ERRORS)
def test_one_error_names_node_and_reason(name):
    nodes, fetches, message = TF_ERRORS[name]
    with pytest.raises(GraphError, match=message):
        compile_graph_def(nodes, fetches, functions=[THEN, ELSE])


def test_unknown_ops_are_unsupported_and_the_nearest_is_named():
    nodes = [placeholder("x", 2), NodeDef("a", "MatMull", ["x", "x"])]
    with pytest.raises(UnsupportedOpError, match=r"node 'a': .*'MatMull'.*mean 'MatMul'\?"):
        compile_graph_def(nodes, ["a"])


def test_branches_of_different_types_and_endless_recursion_are_refused():
    wide = FunctionDef(
        "else", ["a", "b"], [const("c", np.zeros(5)), NodeDef("s", "Neg", ["c"])], ["s"]
    )
    nodes = [
        placeholder("p", dtype="bool"),
        NodeDef("y", "If", ["p", "p", "p"], {"then_branch": "again", "else_branch": "else"}),
        NodeDef("z", "PartitionedCall", ["p", "p"], {"f": "again"}),
    ]
    again = FunctionDef("again", ["a", "b"], [NodeDef("s", "Identity", ["a"])], ["s"])
    with pytest.raises(GraphError, match=r"node 'y'.*different types: \(pred\[\]\) and \(f64\[5\]"):
        compile_graph_def(nodes, ["y"], functions=[again, wide])
    call = NodeDef("s", "PartitionedCall", ["a", "b"], {"f": "again"})
    endless = FunctionDef("again", ["a", "b"], [call], ["s"])
    with pytest.raises(GraphError, match="more than 64 levels deep"):
        compile_graph_def(nodes, ["z"], functions=[endless])


def test_functions_that_call_each_other_too_often_are_refused(monkeypatch):
    """Each of 40 calls the next one twice."""
    monkeypatch.setattr("lowtide.frontend.graphs.compiler._MOST_NODES", 1000)
    called = [NodeDef("s", "Neg", ["a"])]
    functions = []
    for number in range(40):
        functions.append(FunctionDef(f"f{number}", ["a"], called, ["s"]))
        attributes = {"f": f"f{number}"}
        called = [
            NodeDef("t", "PartitionedCall", ["a"], attributes),
            NodeDef("s", "PartitionedCall", ["t"], attributes),
        ]
    nodes = [placeholder("x", 2), NodeDef("y", "PartitionedCall", ["x"], {"f": "f39"})]
    with pytest.raises(GraphError, match="the graph has over 1,000 nodes"):
        compile_graph_def(nodes, ["y"], functions=functions)


def test_stacked_outputs_of_endless_loops_are_unsupported():
    body = OnnxGraph(["i", "c", "a"], [OnnxNode("Neg", ["a"], ["b"])], ["c", "b", "b"])
    nodes = [OnnxNode("Loop", ["", "", "x"], ["y", "all"], {"body": body})]
    with pytest.raises(UnsupportedOpError, match="how many outputs it stacks is not known"):
        compile_nodes(nodes, {"x": SHAPE}, ["y"])


def test_kernels_can_be_added_for_a_domain_of_ones_own():
    @op("Twice", domain="tf", inputs=1)
    def twice(context: OpKernelContext) -> None:
        x = context.input(0)
        context.set_output(0, x + x)

    try:
        (result,) = run([placeholder("x", 3, 4), NodeDef("y", "Twice", ["x"])], ["y"], [X])
        np.testing.assert_array_equal(result, 2 * X)
        with pytest.raises(ValueError, match="tf has a kernel for Twice already"):
            op("Twice", domain="tf")(twice)
    finally:
        from lowtide.frontend.graphs import registry

        del registry._KERNELS["tf", "Twice"]


def test_names_of_types_that_numpy_has_not_need_nothing_loaded():
    """Nobody has imported ml_dtypes in a new process."""
    code = (
        "from lowtide.frontend.graphs.dtypes import element_type_of\n"
        "print(*[element_type_of(x).value for x in ('int2', 'float4_e2m1fn', 'bfloat16')])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["s2", "f4e2m1fn", "bf16"]
