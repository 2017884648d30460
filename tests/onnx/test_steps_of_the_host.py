"""Loops that the host runs step by step: of no step, and with branches that a step decides."""

import numpy as np
import pytest
from tests.onnx.models import FLOAT, INT64, helper, model, tensor
from tests.onnx.test_loops import BOOL, QUICK, X, body, same_as_others

from lowtide.onnx import InferenceSession

TRUTH = {"truth": np.array(True)}


def looped(nodes, results, types, inputs, before=()):
    """A Loop that carries a row of x's and stacks the rest of the results, of these types."""
    nodes = [*nodes, helper.make_node("Identity", ["going"], ["going_on"])]
    graph = body(nodes, {"total": (FLOAT, None)}, results)
    for value, type_ in zip(graph.output[1:], types, strict=False):
        value.CopyFrom(tensor(value.name, *type_))
    stacks = [f"all {x}" for x in results[1:]]
    loop = helper.make_node("Loop", ["most", "truth", "start"], ["last", *stacks], body=graph)
    outputs = [tensor("last", FLOAT, None), *[tensor(x, FLOAT, None) for x in stacks]]
    constants = {**TRUTH, "start": X[0]}
    return model([*before, loop], inputs, outputs, constants)


ROWS = [
    helper.make_node("Gather", ["x", "step"], ["row"], axis=0),
    helper.make_node("Add", ["total", "row"], ["after"]),
    helper.make_node("Identity", ["after"], ["copy"]),
]
LIMIT = [
    helper.make_node("Shape", ["x"], ["sizes"], start=0, end=1),
    helper.make_node("Squeeze", ["sizes"], ["most"]),
]


@pytest.mark.parametrize("sizes", [[4], ["a"], None])
def test_stacks_of_no_steps_have_the_sizes_of_a_first_one(sizes):
    inputs = [tensor("x", FLOAT, ["n", 4]), tensor("most", INT64, [])]
    proto = looped(ROWS, ["after", "copy"], [(FLOAT, sizes), (FLOAT, sizes)], inputs)
    none = [X[0], np.zeros((0, 4), np.float32)]
    feeds = {"x": X, "most": np.array(0)}
    # ONNX Runtime takes sizes that are not declared for 0.
    if sizes == [4]:
        same_as_others(proto, feeds, none)
    session = InferenceSession(proto, **QUICK)
    np.testing.assert_array_equal(session.run(None, feeds)[1], none[1])
    found = session.run(None, {"x": X, "most": np.array(2)})
    np.testing.assert_allclose(found[1], X[0] + np.cumsum(X[:2], 0), atol=1e-6)
    np.testing.assert_array_equal(session.run(None, {"x": X, "most": np.array(0)})[1], none[1])


def test_a_condition_that_does_not_hold_at_first_gives_empty_stacks():
    inputs = [tensor("x", FLOAT, ["n", 4]), tensor("truth", BOOL, [])]
    proto = looped(ROWS, ["after", "copy"], [(FLOAT, [4]), (FLOAT, [4])], inputs)
    del proto.graph.initializer[[x.name for x in proto.graph.initializer].index("truth")]
    proto.graph.node[0].input[0] = ""
    none = [X[0], np.zeros((0, 4), np.float32)]
    same_as_others(proto, {"x": X, "truth": np.array(False)}, none)


def test_over_no_rows_declared_types_give_the_sizes():
    inputs = [tensor("x", FLOAT, ["n", 4])]
    proto = looped(ROWS, ["after", "copy"], [(FLOAT, [4]), (FLOAT, [4])], inputs, LIMIT)
    none = [X[0], np.zeros((0, 4), np.float32)]
    same_as_others(proto, {"x": np.zeros((0, 4), np.float32)}, none)


def test_without_declared_types_loops_over_no_rows_are_an_error_that_says_so():
    inputs = [tensor("x", FLOAT, ["n", 4])]
    session = InferenceSession(looped(ROWS, ["after", "copy"], [], inputs, LIMIT), **QUICK)
    with pytest.raises(Exception, match="no types for its last 1 outputs; a step to see them"):
        session.run(None, {"x": np.zeros((0, 4), np.float32)})


def branch(name, op, *inputs, **attributes):
    nodes = [helper.make_node(op, inputs, [name], **attributes)]
    return helper.make_graph(nodes, name, [], [tensor(name, FLOAT, None)])


def test_branches_that_a_step_decides_may_differ_in_their_sizes():
    nodes = [
        helper.make_node("Mod", ["step", "two"], ["odd"]),
        helper.make_node("Cast", ["odd"], ["is_odd"], to=BOOL),
        helper.make_node(
            "If",
            ["is_odd"],
            ["after"],
            then_branch=branch("longer", "Concat", "total", "x", axis=0),
            else_branch=branch("product", "Mul", "total", "x_sum"),
        ),
    ]
    before = [
        helper.make_node("ReduceSum", ["x"], ["x_sum"], keepdims=0),
        helper.make_node("Constant", [], ["two"], value_int=2),
        helper.make_node("Constant", [], ["most"], value_int=5),
    ]
    proto = looped(nodes, ["after"], [], [tensor("x", FLOAT, [4])], before)
    x = np.linspace(0.1, 0.7, 4, dtype=np.float32)
    expected = X[0]
    for step in range(5):
        expected = np.concatenate([expected, x]) if step % 2 else expected * x.sum()
    same_as_others(proto, {"x": x}, [expected])
