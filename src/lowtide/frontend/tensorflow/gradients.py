"""Gradients of functions of elements, biases and products, as training steps have them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.context import OpKernelContext
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared.elementwise import zeros_like
from lowtide.frontend.graphs.shared.reductions import reduce
from lowtide.frontend.tensorflow.graph_def import DOMAIN

_OF_RESULT: Final[dict[str, Callable[[Builder, Op, Op], Op]]] = {
    "TanhGrad": lambda b, y, g: g * b.subtract(1.0, y * y),
    "SigmoidGrad": lambda b, y, g: g * y * b.subtract(1.0, y),
    "SqrtGrad": lambda b, y, g: g * 0.5 / y,
    "RsqrtGrad": lambda b, y, g: g * -0.5 * y * y * y,
    "ReciprocalGrad": lambda b, y, g: -g * y * y,
    "InvGrad": lambda b, y, g: -g * y * y,
}
"""Gradients that take the result of the function first, then that of what comes behind."""

_OF_OPERAND: Final[dict[str, Callable[[Builder, Op, Op], Op]]] = {
    "ReluGrad": lambda b, g, x: b.select(x.gt(0), g, zeros_like(b, g)),
    "Relu6Grad": lambda b, g, x: b.select(x.gt(0) & x.lt(6), g, zeros_like(b, g)),
    "SoftplusGrad": lambda b, g, x: g * b.logistic(x),
    "EluGrad": lambda b, g, y: b.select(y.lt(0), g * (y + 1.0), g),
}
"""Gradients that take what comes behind first."""


@op(*_OF_RESULT, *_OF_OPERAND, domain=DOMAIN, inputs=2)
def gradient(context: OpKernelContext) -> None:
    """Give the gradient of a function of each element."""
    function = {**_OF_RESULT, **_OF_OPERAND}[context.node.op]
    context.set_output(0, function(context.builder, context.input(0), context.input(1)))


@op("BiasAddGrad", domain=DOMAIN, inputs=1)
def bias_add_grad(context: OpKernelContext) -> None:
    """Give sums for each channel, which stand last, or second in NCHW."""
    x = context.input(0)
    form = context.attribute("data_format", lambda v: v.decode() if isinstance(v, bytes) else v, "")
    channel = 1 if str(form).startswith("NC") else x.rank - 1
    axes = [i for i in range(x.rank) if i != channel]
    context.set_output(0, reduce(context.builder, "sum", x, axes))


@op("BroadcastGradientArgs", domain=DOMAIN, inputs=2)
def broadcast_gradient_args(context: OpKernelContext) -> None:
    """Give along which dimensions each of two operands was stretched."""
    sizes = [context.constant(i).reshape(-1) for i in range(2)]
    rank = max(map(len, sizes))
    wide = [np.concatenate([np.ones(rank - len(x), x.dtype), x]) for x in sizes]
    for number in range(2):
        stretched = (wide[number] == 1) & (wide[1 - number] != 1)
        missing = np.arange(rank) < rank - len(sizes[number])
        found = np.flatnonzero(stretched | missing)
        context.set_output(number, found.astype(sizes[number].dtype))
