"""Branches, loops and calls of subgraphs."""

from __future__ import annotations

from lowtide.builder import Op
from lowtide.frontend.graphs.context import OpKernelContext
from lowtide.frontend.graphs.expression import Expression
from lowtide.frontend.graphs.graph import OpGraph
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared import control
from lowtide.frontend.tflite.node import DOMAIN
from lowtide.ir.element_type import ElementType


def _graph(context: OpKernelContext, role: str) -> OpGraph:
    found = context.node.attributes[role]
    assert isinstance(found, OpGraph)
    return found


def _arguments(context: OpKernelContext, first: int = 0) -> list[Expression]:
    return [context.expression(i) for i in range(first, context.input_count)]


def _inlined(context: OpKernelContext, graph: OpGraph, arguments: list[Expression]) -> None:
    """Give what a subgraph gives, which becomes part of the caller."""
    constants = {x: y for x, y in context.scope.items() if y.array is not None}
    for number, value in enumerate(context.compiler.inline(graph, arguments, constants)):
        context.set_output(number, value)


@op("IF", domain=DOMAIN)
def if_(context: OpKernelContext) -> None:
    """Give what one of two subgraphs gives; the one that is known not to be taken is left out."""
    branches = [_graph(context, "then"), _graph(context, "else")]
    arguments = _arguments(context, 1)
    known = context.known(0)
    if known is not None:
        _inlined(context, branches[0 if known.reshape(-1)[0] else 1], arguments)
        return
    b = context.builder
    condition: Op = b.reshape(context.input(0), [])
    if condition.element_type is not ElementType.PRED:
        condition = condition.ne(0)
    control.choose(context, condition, branches, arguments)


@op("WHILE", "STABLEHLO_WHILE", domain=DOMAIN)
def while_(context: OpKernelContext) -> None:
    """Give the inputs after as many steps of a subgraph as another one says to go on."""
    condition, body = _graph(context, "test"), _graph(context, "body")
    context.set_outputs(control.repeat(context, condition, body, _arguments(context)))


@op("CALL", "STABLEHLO_COMPOSITE", domain=DOMAIN)
def call(context: OpKernelContext) -> None:
    """Give what a subgraph gives."""
    _inlined(context, _graph(context, "body"), _arguments(context))
