"""Branches: one is built where shapes, constants or small arguments decide, else both."""

import numpy as np
import pytest
from tests.onnx.models import FLOAT, INT64, helper, model, tensor

from lowtide.ir import LowtideError, Opcode
from lowtide.onnx import InferenceSession, read_module

QUICK = {"effort": "fast", "cache": False, "threads": 1}
BOOL = 9


def branch(name, nodes, output):
    return helper.make_graph(nodes, name, [], [tensor(output, FLOAT, None)])


def two_branches(condition, then=("Relu", []), other=("Flatten", [])):
    """If, whose branches give one op of x each, of different shapes."""
    parts = [
        branch(f"{op}_branch", [helper.make_node(op, ["x", *more], [op])], op)
        for op, more in (then, other)
    ]
    return helper.make_node("If", [condition], ["y"], then_branch=parts[0], else_branch=parts[1])


def by_rank():
    """A model that flattens x [2, n, 3] where n is not 4; the branches differ in rank."""
    nodes = [
        helper.make_node("Shape", ["x"], ["sizes"], start=1, end=2),
        helper.make_node("Equal", ["sizes", "four"], ["is_four"]),
        helper.make_node("Squeeze", ["is_four"], ["condition"]),
        two_branches("condition"),
    ]
    x, y = tensor("x", FLOAT, [2, "n", 3]), tensor("y", FLOAT, None)
    return model(nodes, [x], [y], {"four": np.array([4])})


X = np.linspace(-1, 1, 24, dtype=np.float32).reshape(2, 4, 3)


@pytest.mark.parametrize(("n", "shape"), [(4, (2, 4, 3)), (5, (2, 15))])
def test_a_condition_on_shapes_leaves_one_branch_in_the_module(n, shape):
    module = read_module(by_rank(), {"n": n})
    assert module.entry.root.shape.tuple_shapes[0].dimensions == shape
    assert all(x.opcode is not Opcode.CONDITIONAL for x in module.entry.instructions.values())


def test_a_session_takes_each_branch():
    session = InferenceSession(by_rank(), **QUICK)
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], np.maximum(X, 0))
    wide = np.ones((2, 5, 3), np.float32)
    assert session.run(None, {"x": wide})[0].shape == (2, 15)


def by_argument(kind=INT64):
    """A model that takes a branch where the argument, a number, is 3."""
    three = np.array(3, {INT64: np.int64, FLOAT: np.float32}[kind])
    nodes = [
        helper.make_node("Equal", ["number", "three"], ["condition"]),
        two_branches("condition"),
    ]
    inputs = [tensor("x", FLOAT, [2, 4, 3]), tensor("number", kind, [])]
    return model(nodes, inputs, [tensor("y", FLOAT, None)], {"three": three})


@pytest.mark.parametrize("kind", [INT64, FLOAT])
def test_branches_that_differ_are_taken_by_the_value_of_an_argument(kind):
    session = InferenceSession(by_argument(kind), **QUICK)
    for value in (3, 1, 2, 3, 5, 7, 9, 11, 3):
        number = np.array(value, np.int64 if kind == INT64 else np.float32)
        (y,) = session.run(None, {"x": X, "number": number})
        assert y.shape == ((2, 4, 3) if value == 3 else (2, 12))


def test_few_programs_are_made_for_an_argument_with_many_values():
    session = InferenceSession(by_argument(), **QUICK)
    for value in range(30):
        session.run(None, {"x": X, "number": np.array(value)})
    assert len(session.memory["programs"]) < 10


def test_a_module_says_that_the_condition_is_not_known():
    with pytest.raises(LowtideError, match=r"condition 'condition' is not known .*different types"):
        read_module(by_argument())


def test_branches_of_one_type_are_a_conditional():
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
        helper.make_node("Greater", ["sum", "zero"], ["condition"]),
        two_branches("condition", ("Relu", []), ("Neg", [])),
    ]
    zero = {"zero": np.zeros((), np.float32)}
    proto = model(nodes, [tensor("x", FLOAT, [2, 4, 3])], [tensor("y", FLOAT, None)], zero)
    module = read_module(proto)
    assert any(x.opcode is Opcode.CONDITIONAL for x in module.entry.instructions.values())
    session = InferenceSession(proto, **QUICK)
    for x in (X + 1, X - 1):
        expected = np.maximum(x, 0) if x.sum() > 0 else -x
        np.testing.assert_array_equal(session.run(None, {"x": x})[0], expected)


def test_an_operator_in_a_branch_that_is_not_taken_does_not_matter():
    proto = by_rank()
    (other,) = [x for x in proto.graph.node[3].attribute if x.name == "else_branch"]
    other.g.node[0].op_type = "Unheard"
    module = read_module(proto, {"n": 4})
    assert module.entry.root.shape.tuple_shapes[0].dimensions == (2, 4, 3)
    with pytest.raises(LowtideError, match="'Unheard'"):
        read_module(proto, {"n": 5})
