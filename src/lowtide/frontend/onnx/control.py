"""Control flow of ONNX: graphs inside of nodes."""

from __future__ import annotations

import numpy as np

from lowtide.frontend.graphs.context import OpKernelContext
from lowtide.frontend.graphs.expression import Expression
from lowtide.frontend.graphs.graph import GraphError, GraphNode, OpGraph, UnknownConditionError
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared import control
from lowtide.frontend.graphs.shared.arrays import reshaped
from lowtide.frontend.onnx.node_list import DOMAIN
from lowtide.ir.errors import UnsupportedOpError


def _graph(context: OpKernelContext, name: str) -> OpGraph:
    found = context.attribute(name, lambda x: x)
    if not isinstance(found, OpGraph):
        raise context.error(f"attribute {name!r} has to be a graph")
    return found


@op("If", domain=DOMAIN, inputs=1)
def if_(context: OpKernelContext) -> None:
    """Give the outputs of one of two graphs: where the condition is known, only that one is built.

    Raises UnknownConditionError where it is not and a branch cannot be built, or their types
    differ.
    """
    branches = [_graph(context, name) for name in ("then_branch", "else_branch")]
    for branch in branches:
        if branch.inputs:
            raise context.error(f"a branch takes no inputs, found {list(branch.inputs)}")
    known = context.known(0)
    if known is not None:
        taken = branches[0 if bool(known.reshape(())) else 1]
        for number, value in enumerate(control.inlined(context, taken)):
            context.set_output(number, value)
        return
    condition = reshaped(context.builder, context.input(0), [])
    try:
        control.choose(context, condition, branches, [])
    except (GraphError, UnsupportedOpError) as error:
        name = context.node.inputs[0]
        message = f"its condition {name!r} is not known when the graph is compiled, and {error}"
        node = context.node
        raise UnknownConditionError(
            message, context.expression(0), node=node.name, op=node.op
        ) from error


@op("Loop", domain=DOMAIN, inputs=(2, 1 << 30))
def loop(context: OpKernelContext) -> None:
    """Give the carried values after at most M steps, as long as the condition holds.

    Raises UnsupportedOpError for a body that gives more values than are carried: those would be
    stacked, and their number is not known.
    """
    body = _graph(context, "body")
    carried = [context.expression(i) for i in range(2, context.input_count)]
    if len(body.inputs) != 2 + len(carried):
        raise context.error(
            f"the body takes {len(body.inputs)} values, but {len(carried)} are carried"
        )
    if len(body.outputs) != 1 + len(carried):
        raise UnsupportedOpError(
            f"node {context.node.name!r} (Loop): stacked outputs are not supported: carry an array "
            "of the final size and store slices with ScatterND"
        )
    b = context.builder
    most = context.optional(0)
    limit = np.int64(np.iinfo(np.int64).max) if most is None else reshaped(b, most, [])
    going = np.True_ if not context.has_input(1) else reshaped(b, context.input(1), [])
    start = [b.constant(np.int64(0)), b.op(limit), b.op(going)]
    state = [*[Expression(x) for x in start], *carried]
    results = control.repeat(context, _condition(body), _body(body), state)
    context.set_outputs(results[3:])


_STEP, _LIMIT, _GOING = "step of the loop", "limit of the loop", "whether the loop goes on"


def _condition(body: OpGraph) -> OpGraph:
    """The graph of step < limit and going."""
    nodes = (
        GraphNode("below the limit", "Less", (_STEP, _LIMIT), ("below",)),
        GraphNode("loop condition", "And", ("below", _GOING), ("continue",)),
    )
    inputs = (_STEP, _LIMIT, _GOING, *body.inputs[2:])
    return OpGraph(f"{body.name}_condition", inputs, nodes, ("continue",))


def _body(body: OpGraph) -> OpGraph:
    """The graph of the body that also counts its steps."""
    step, going = body.inputs[:2]
    one, following, flag = "one step", "next step of the loop", "condition of the loop"
    nodes = (
        GraphNode("copy of the step", "Identity", (_STEP,), (step,)),
        GraphNode("copy of the condition", "Identity", (_GOING,), (going,)),
        GraphNode("one step", "Constant", (), (one,), {"value": np.int64(1)}),
        GraphNode("next step", "Add", (_STEP, one), (following,)),
        GraphNode(
            "condition of the loop",
            "Reshape",
            (body.outputs[0], "no dimensions"),
            (flag,),
        ),
        GraphNode(
            "no dimensions", "Constant", (), ("no dimensions",), {"value": np.zeros(0, np.int64)}
        ),
    )
    inputs = (_STEP, _LIMIT, _GOING, *body.inputs[2:])
    outputs = (following, _LIMIT, flag, *body.outputs[1:])
    return OpGraph(body.name, inputs, (*nodes, *body.nodes), outputs)
