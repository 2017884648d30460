"""Updates that pull variables towards 0 by both norms: proximal steps, and follow-the-leader."""

from __future__ import annotations

from typing import Final

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.context import OpKernelContext, flag
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.tensorflow.graph_def import DOMAIN
from lowtide.frontend.tensorflow.updates import spread


@op("ResourceApplyProximalGradientDescent", domain=DOMAIN, inputs=5)
def proximal_gradient_descent(context: OpKernelContext) -> None:
    """Give a variable after a step down its gradient, shrunk (Duchi and Singer 2009)."""
    held, gradient = context.input(0), context.input(4)
    rate, l1, l2 = [spread(context.builder, context.input(i), held) for i in (1, 2, 3)]
    context.set_output(0, _shrunk(context.builder, held - gradient * rate, rate, l1, l2))


@op("ResourceApplyProximalAdagrad", domain=DOMAIN, inputs=6)
def proximal_adagrad(context: OpKernelContext) -> None:
    """Give a variable and its sum of squares after a step of Adagrad, shrunk."""
    b, held, gradient = context.builder, context.input(0), context.input(5)
    rate, l1, l2 = [spread(b, context.input(i), held) for i in (2, 3, 4)]
    total = context.input(1) + gradient * gradient
    rate = rate * b.rsqrt(total)
    context.set_output(0, _shrunk(b, held - gradient * rate, rate, l1, l2))
    context.set_output(1, total)


def _shrunk(b: Builder, x: Op, rate: Op, l1: Op, l2: Op) -> Op:
    near = b.maximum(b.abs(x) - rate * l1, 0.0)
    return b.sign(x) * near / (l2 * rate + 1.0)


@op("ResourceApplyFtrl", "ResourceApplyFtrlV2", domain=DOMAIN, inputs=(8, 9))
def ftrl(context: OpKernelContext) -> None:
    """Give a variable, its sum of squares and its linear part (McMahan et al. 2013).

    The second form takes a gradient with a penalty of its own for the linear part.
    """
    b = context.builder
    held, total, linear, gradient = [context.input(i) for i in range(4)]
    rate, l1, l2 = [spread(b, context.input(i), held) for i in (4, 5, 6)]
    after = total + gradient * gradient
    if context.node.op == "ResourceApplyFtrlV2":
        gradient = gradient + held * spread(b, context.input(7), held) * 2.0
    before, root = [_root(context, x) for x in (total, after)]
    if context.attribute("multiply_linear_by_lr", flag, False):
        linear = linear + gradient * rate - (root - before) * held
        least, slope = l1 * rate, root + l2 * rate * 2.0
    else:
        linear = linear + gradient - (root - before) / rate * held
        least, slope = l1, root / rate + l2 * 2.0
    found = (least * b.sign(linear) - linear) / slope
    none = b.broadcast(b.constant(0.0, held.element_type), held.dimensions, [])
    found = b.select(b.abs(linear).gt(least), found, none)
    for number, value in enumerate((found, after, linear)):
        context.set_output(number, value)


def _root(context: OpKernelContext, total: Op) -> Op:
    """A sum of squares to a power, which is less the last input: its root for -1/2."""
    b, number = context.builder, context.input_count - 1
    known = context.known(number)
    if known is not None and known == _ROOT:
        return b.sqrt(total)
    return b.power(total, -spread(b, context.input(number), total))


_ROOT: Final = -0.5
