"""Functional control flow of TensorFlow: branches, loops and calls of functions."""

from __future__ import annotations

from lowtide.frontend.graphs.context import OpKernelContext, text
from lowtide.frontend.graphs.expression import Expression
from lowtide.frontend.graphs.graph import OpGraph
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared import control
from lowtide.frontend.tensorflow.graph_def import DOMAIN
from lowtide.frontend.tensorflow.loop_lists import with_lists
from lowtide.ir.element_type import ElementType
from lowtide.suggestions import nearest


def _function(context: OpKernelContext, name: str, argument_count: int) -> OpGraph:
    known = context.compiler.functions
    called = context.attribute(name, text)
    if called not in known:
        raise context.error(f"no function {called!r} is given{nearest(called, known)}")
    found = known[called]
    if len(found.inputs) != argument_count:
        raise context.error(
            f"function {called!r} takes {len(found.inputs)} arguments, found {argument_count}"
        )
    return found


@op("If", "StatelessIf", domain=DOMAIN, inputs=(1, 1 << 30))
def if_(context: OpKernelContext) -> None:
    """Give what one of two functions returns, for the inputs after the first one."""
    condition = context.input(0)
    if condition.rank:
        raise context.error(f"the condition has to be a scalar, found {condition.shape}")
    if condition.element_type is not ElementType.PRED:
        condition = condition.ne(0)
    arguments = [context.expression(i) for i in range(1, context.input_count)]
    names = ("then_branch", "else_branch")
    branches = [_function(context, name, len(arguments)) for name in names]
    known = context.known(0)
    if known is not None:
        _inlined(context, branches[0 if known else 1], arguments)
        return
    control.choose(context, condition, branches, arguments)


def _inlined(context: OpKernelContext, graph: OpGraph, arguments: list[Expression]) -> None:
    """Give what a function returns, whose nodes become nodes of the caller."""
    for number, value in enumerate(context.compiler.inline(graph, arguments)):
        context.set_output(number, value)


@op("Case", "StatelessCase", domain=DOMAIN, inputs=(1, 1 << 30))
def case(context: OpKernelContext) -> None:
    """Give what one of several functions returns, the last one for a number out of range."""
    arguments = [context.expression(i) for i in range(1, context.input_count)]
    names = context.attribute("branches", list)
    known = context.compiler.functions
    for name in names:
        if name not in known:
            raise context.error(f"no function {name!r} is given{nearest(name, known)}")
    chosen = context.known(0)
    if chosen is not None:
        number = int(chosen) if 0 <= int(chosen) < len(names) else len(names) - 1
        _inlined(context, known[names[number]], arguments)
        return
    control.choose(context, context.input(0), [known[name] for name in names], arguments)


@op("While", "StatelessWhile", domain=DOMAIN)
def while_(context: OpKernelContext) -> None:
    """Give the inputs after as many steps of `body` as `cond` holds."""
    state = [context.expression(i) for i in range(context.input_count)]
    condition, body = [_function(context, name, len(state)) for name in ("cond", "body")]
    state = with_lists(context, condition, body, state)
    context.set_outputs(control.repeat(context, condition, body, state))


@op("PartitionedCall", "StatefulPartitionedCall", domain=DOMAIN)
def partitioned_call(context: OpKernelContext) -> None:
    """Give what a function returns, which becomes part of the caller."""
    arguments = [context.expression(i) for i in range(context.input_count)]
    _inlined(context, _function(context, "f", len(arguments)), arguments)
