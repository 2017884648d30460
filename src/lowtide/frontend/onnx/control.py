"""Control flow of ONNX: graphs inside of nodes."""

from __future__ import annotations

import numpy as np

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.context import OpKernelContext, integer, integers
from lowtide.frontend.graphs.expression import Expression
from lowtide.frontend.graphs.graph import GraphError, GraphNode, OpGraph, UnknownConditionError
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared import control
from lowtide.frontend.graphs.shared.arrays import reshaped
from lowtide.frontend.graphs.shared.stacking import SteppedGraph, run_steps
from lowtide.frontend.onnx.node_list import DOMAIN
from lowtide.frontend.onnx.steps import step_count
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
    """Give the carried values after at most M steps, as long as the condition holds, and stacks.

    Raises UnsupportedOpError for a body that gives more values than are carried where the number of
    steps is not known: those would be stacked.
    """
    body = _graph(context, "body")
    carried = [context.expression(i) for i in range(2, context.input_count)]
    if len(body.inputs) != 2 + len(carried) or len(body.outputs) < 1 + len(carried):
        raise context.error(
            f"the body takes {len(body.inputs)} values and gives {len(body.outputs)}, but "
            f"{len(carried)} are carried"
        )
    count = step_count(context, body, carried)
    if count is not None:
        step = OpGraph(body.name, body.inputs, body.nodes, body.outputs[1:])
        after, stacks = run_steps(context, SteppedGraph(step, _number_and_truth), count, carried)
        context.set_outputs([*after, *stacks])
        return
    if len(body.outputs) > 1 + len(carried):
        raise UnsupportedOpError(
            f"node {context.node.name!r} (Loop): how many outputs it stacks is not known when the "
            "graph is compiled: carry an array of the final size and store slices with ScatterND"
        )
    b = context.builder
    most = context.optional(0)
    limit = np.int64(np.iinfo(np.int64).max) if most is None else reshaped(b, most, [])
    going = np.True_ if not context.has_input(1) else reshaped(b, context.input(1), [])
    start = [b.constant(np.int64(0)), b.op(limit), b.op(going)]
    state = [*[Expression(x) for x in start], *carried]
    results = control.repeat(context, _condition(body), _body(body), state)
    context.set_outputs(results[3:])


def _number_and_truth(_: Builder, number: Op) -> list[Expression]:
    """What the body of Loop takes first: its step, and that the condition holds."""
    return [Expression(number), Expression(np.array(True))]


@op("Scan", domain=DOMAIN, inputs=(1, 1 << 30))
def scan(context: OpKernelContext) -> None:
    """Give the states after a step for each entry of the sequences, and what the steps gave.

    Raises UnsupportedOpError for opset 8, whose sequences have lengths of their own.
    """
    if context.version < 9:
        raise UnsupportedOpError(f"node {context.node.name!r} (Scan): no kernel for opset 8")
    body = _graph(context, "body")
    rows = context.attribute("num_scan_inputs", integer)
    many = context.input_count - rows
    if many < 0 or rows < 1 or len(body.inputs) != many + rows or len(body.outputs) < many:
        raise context.error(
            f"the body takes {len(body.inputs)} values and gives {len(body.outputs)}, but of "
            f"{context.input_count} inputs {rows} are scanned"
        )
    carried = [context.expression(i) for i in range(many)]
    sequences = [_sequence(context, many, i) for i in range(rows)]
    counts = sorted({x.dimensions[0] for x in sequences})
    if len(counts) > 1:
        raise context.error(f"the inputs have different numbers of entries: {counts}")
    step = SteppedGraph(body, lambda _, __: [])
    after, stacks = run_steps(context, step, counts[0], carried, sequences)
    context.set_outputs([*after, *[_given(context, x, i) for i, x in enumerate(stacks)]])


def _sequence(context: OpKernelContext, many: int, number: int) -> Op:
    """A scanned input with its entries along the first dimension, in the order of steps."""
    b, x = context.builder, context.input(many + number)
    axis = context.axis(_of(context, "scan_input_axes", number), x.rank)
    order = [axis, *[i for i in range(x.rank) if i != axis]]
    found = x if axis == 0 else b.transpose(x, order)
    return b.reverse(found, [0]) if _of(context, "scan_input_directions", number) else found


def _given(context: OpKernelContext, x: Op, number: int) -> Op:
    """A stack with its entries along the dimension, and in the order, that are asked for."""
    b = context.builder
    if _of(context, "scan_output_directions", number):
        x = b.reverse(x, [0])
    axis = context.axis(_of(context, "scan_output_axes", number), x.rank)
    order = [*range(1, axis + 1), 0, *range(axis + 1, x.rank)]
    return x if axis == 0 else b.transpose(x, order)


def _of(context: OpKernelContext, name: str, number: int) -> int:
    """An entry of a list of integers, 0 where the list is left out."""
    found = context.attribute(name, integers, [])
    if found and number >= len(found):
        raise context.error(f"attribute {name!r} has {len(found)} entries, too few")
    return found[number] if found else 0


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
        GraphNode("condition of the loop", "Reshape", (body.outputs[0], "no dimensions"), (flag,)),
        GraphNode(
            "no dimensions", "Constant", (), ("no dimensions",), {"value": np.zeros(0, np.int64)}
        ),
    )
    inputs = (_STEP, _LIMIT, _GOING, *body.inputs[2:])
    outputs = (following, _LIMIT, flag, *body.outputs[1:])
    return OpGraph(body.name, inputs, (*nodes, *body.nodes), outputs)
