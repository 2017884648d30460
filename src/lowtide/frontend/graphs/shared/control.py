"""Branches and loops: graphs inside of nodes as called computations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lowtide.builder import Op
from lowtide.frontend.graphs.compiler import constants_in, operand_tuple
from lowtide.frontend.graphs.context import OpKernelContext
from lowtide.frontend.graphs.expression import Expression
from lowtide.frontend.graphs.graph import OpGraph, free_values


def choose(
    context: OpKernelContext,
    selector: Op,
    branches: Sequence[OpGraph],
    arguments: Sequence[Expression],
) -> None:
    """Give the outputs of the branch that a pred or s32 chooses, called with `arguments`.

    What the branches read from around them comes in too.
    """
    b = context.builder
    operands, bodies = [], []
    for branch in branches:
        known, names = captured(context, branch)
        values = [*arguments, *[context.scope[x] for x in names]]
        shapes = [x.shape for x in values]
        inputs = [*branch.inputs, *names]
        bodies.append(context.compiler.body(branch, shapes, known, inputs))
        operands.append(operand_tuple(b, values))
    results = [body.program_shape.result for body in bodies]
    if not all(x.compatible(results[0]) for x in results):
        shown = " and ".join([x.text(layout=False) for x in results])
        raise context.error(f"the branches give different types: {shown}")
    context.set_outputs(list(b.conditional(selector, operands, bodies)))


def inlined(context: OpKernelContext, graph: OpGraph) -> list[Expression]:
    """Return the outputs of a graph without inputs, built where the node stands."""
    known = {x: context.scope[x] for x in free_values(graph) if x in context.scope}
    return context.compiler.inline(graph, [], known)


def repeat(
    context: OpKernelContext, condition: OpGraph, body: OpGraph, state: Sequence[Expression]
) -> list[Op]:
    """Return the state after as many steps of the body as the condition, of a pred, holds.

    What both graphs read from around them is carried along.
    """
    b = context.builder
    known: dict[str, Expression] = {}
    names: dict[str, None] = {}
    for graph in (condition, body):
        constants, free = captured(context, graph)
        known.update(constants)
        names.update(dict.fromkeys(free))
    carried = [*state, *[context.scope[x] for x in names]]
    shapes = [x.shape for x in carried]
    stepping = OpGraph(body.name, (*body.inputs, *names), body.nodes, (*body.outputs, *names))
    testing = OpGraph(
        condition.name, (*condition.inputs, *names), condition.nodes, condition.outputs
    )
    compiler = context.compiler
    step = compiler.body(stepping, shapes, known)
    found = step.program_shape.result.tuple_shapes
    for number, (before, after) in enumerate(zip(shapes, found, strict=True)):
        if not before.compatible(after):
            raise context.error(
                f"value {number} of the loop changes its type from {before.text(layout=False)} to "
                f"{after.text(layout=False)}"
            )
    test = compiler.body(testing, shapes, known, as_tuple=False)
    results = b.while_(test, step, operand_tuple(b, carried))
    return [b.get_tuple_element(results, i) for i in range(len(state))]


def captured(
    context: OpKernelContext, graph: OpGraph
) -> tuple[Mapping[str, Expression], list[str]]:
    """Return the constants that a graph reads from around it, and the names of other values."""
    free = [x for x in free_values(graph) if x in context.scope]
    known = constants_in(context.scope, free)
    return known, [x for x in free if x not in known]
