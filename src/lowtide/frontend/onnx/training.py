"""Steps of optimizers, as ai.onnx.preview.training has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.context import OpKernelContext, real, text
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared.broadcasting import expand
from lowtide.frontend.onnx.node_list import DOMAIN

Update: TypeAlias = Callable[[OpKernelContext, Op, list[Op]], list[Op]]
"""Gives the new weight and states of one weight, from its gradient added to its penalty."""

_PREFIX: Final = "ai.onnx.preview.training."


def _scalars(context: OpKernelContext, like: Op) -> tuple[Op, Op]:
    """The learning rate, and the number of the step as a number of the weight's type."""
    b = context.builder
    rate, count = [b.reshape(context.input(i), []) for i in range(2)]
    return expand(b, b.convert(rate, like.element_type), like.dimensions), b.convert(
        count, like.element_type
    )


def _adagrad(context: OpKernelContext, gradient: Op, values: list[Op]) -> list[Op]:
    b, (x, _, h) = context.builder, values
    rate, count = _scalars(context, x)
    decay, epsilon = [
        context.attribute(k, real, d) for k, d in (("decay_factor", 0.0), ("epsilon", 1e-6))
    ]
    total = h + gradient * gradient
    slowed = rate / expand(b, count * decay + 1, x.dimensions)
    return [x - slowed * gradient / (b.sqrt(total) + epsilon), total]


def _momentum(context: OpKernelContext, gradient: Op, values: list[Op]) -> list[Op]:
    b, (x, _, v) = context.builder, values
    rate, count = _scalars(context, x)
    alpha, beta = [context.attribute(k, real) for k in ("alpha", "beta")]
    share = expand(b, b.select(count.gt(0), *_pair(b, beta, 1.0, x)), x.dimensions)
    moved = v * alpha + share * gradient
    is_nesterov = context.attribute("mode", text) == "nesterov"
    step = gradient + moved * alpha if is_nesterov else moved
    return [x - rate * step, moved]


def _pair(b: Builder, first: float, second: float, like: Op) -> list[Op]:
    return [b.constant(np.asarray(y), like.element_type) for y in (first, second)]


def _adam(context: OpKernelContext, gradient: Op, values: list[Op]) -> list[Op]:
    b, (x, _, v, h) = context.builder, values
    rate, count = _scalars(context, x)
    usual = (("alpha", 0.9), ("beta", 0.999), ("epsilon", 1e-6), ("norm_coefficient_post", 0.0))
    alpha, beta, epsilon, after = [context.attribute(k, real, d) for k, d in usual]
    first = v * alpha + gradient * (1 - alpha)
    second = h * beta + gradient * gradient * (1 - beta)
    bases = _pair(b, alpha, beta, x)
    correction = b.sqrt(b.subtract(1, b.power(bases[1], count))) / b.subtract(
        1, b.power(bases[0], count)
    )
    factor = b.select(count.gt(0), correction, b.constant(1, x.element_type))
    step = rate * expand(b, factor, x.dimensions) * (first / (b.sqrt(second) + epsilon))
    return [(x - step) * (1 - after), first, second]


_UPDATES: Final[dict[str, tuple[int, Update]]] = {
    "Adagrad": (3, _adagrad),
    "Momentum": (3, _momentum),
    "Adam": (4, _adam),
}
"""How many values each weight has beside it, itself and its gradient included, and its step."""


def _step(name: str) -> Callable[[OpKernelContext], None]:
    kinds, update = _UPDATES[name]

    def compute(context: OpKernelContext) -> None:
        values = [context.input(i) for i in range(2, context.input_count)]
        if len(values) % kinds:
            raise context.error(f"{len(values)} values are no multiple of {kinds}")
        count = len(values) // kinds
        penalty = context.attribute("norm_coefficient", real, 0.0)
        found = []
        for i in range(count):
            own = values[i::count]
            found.append(update(context, own[1] + own[0] * penalty, own))
        context.set_outputs([row[k] for k in range(kinds - 1) for row in found])

    return compute


for _name in _UPDATES:
    op(_PREFIX + _name, domain=DOMAIN, inputs=(2, 1 << 30))(_step(_name))
