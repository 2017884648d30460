"""Ops of TensorFlow that reduce, order or accumulate along dimensions."""

from __future__ import annotations

import math
from typing import Final

from lowtide.builder import Op
from lowtide.frontend.graphs.context import OpKernelContext, flag, integer
from lowtide.frontend.graphs.registry import Compute, name_table, op
from lowtide.frontend.graphs.shared import reductions
from lowtide.frontend.tensorflow.graph_def import DOMAIN
from lowtide.ir.element_type import ElementType

_KINDS: Final = name_table(
    """
    Sum=sum Prod=prod Max=max Min=min All=all Any=any Mean=mean EuclideanNorm=norm
    """
)


def _reduction(kind: str) -> Compute:
    def compute(context: OpKernelContext) -> None:
        b, x = context.builder, context.input(0)
        axes = context.axes(context.ints(1), x.rank)
        keep = context.attribute("keep_dims", flag, False)
        if kind == "mean":
            result = reductions.mean(b, x, axes, keep=keep)
        elif kind == "norm":
            result = b.sqrt(reductions.reduce(b, "sum", x * x, axes, keep=keep))
        else:
            result = reductions.reduce(b, kind, x, axes, keep=keep)
        context.set_output(0, result)

    return compute


for _name, _kind in _KINDS.items():
    op(_name, domain=DOMAIN, inputs=2)(_reduction(_kind))


def _extreme(kind: str) -> Compute:
    def compute(context: OpKernelContext) -> None:
        x = context.input(0)
        axis = context.axis(context.one_int(1) if context.has_input(1) else 0, x.rank)
        result = context.element_type("output_type", ElementType.S64)
        context.set_output(0, reductions.arg_extreme(context.builder, kind, x, axis, result))

    return compute


op("ArgMax", domain=DOMAIN, inputs=(1, 2))(_extreme("max"))
op("ArgMin", domain=DOMAIN, inputs=(1, 2))(_extreme("min"))


@op("TopKV2", domain=DOMAIN, inputs=2)
def top_k(context: OpKernelContext) -> None:
    """Give the greatest k of each row, and their positions."""
    x = context.input(0)
    k = context.one_int(1)
    result = context.element_type("index_type", ElementType.S32)
    context.set_outputs(list(reductions.top_k(context.builder, x, k, x.rank - 1, result)))


@op("Cumsum", domain=DOMAIN, inputs=2)
def cumsum(context: OpKernelContext) -> None:
    """Give running sums along a dimension."""
    x = context.input(0)
    result = reductions.cumulative_sum(
        context.builder,
        x,
        context.axis(context.one_int(1), x.rank),
        exclusive=context.attribute("exclusive", flag, False),
        reverse=context.attribute("reverse", flag, False),
    )
    context.set_output(0, result)


@op("CumulativeLogsumexp", domain=DOMAIN, inputs=2)
def cumulative_log_sum_exp(context: OpKernelContext) -> None:
    """Give logarithms of running sums of exponentials: log(n) steps, each over twice as many."""
    b, x = context.builder, context.input(0)
    axis = context.axis(context.one_int(1), x.rank)
    is_reverse = context.attribute("reverse", flag, False)
    empty = b.constant(-math.inf, x.element_type)

    def moved(value: Op, by: int) -> Op:
        around = [(0, 0)] * x.rank
        around[axis] = (-by, by) if is_reverse else (by, -by)
        return b.pad(value, empty, around)

    found = moved(x, 1) if context.attribute("exclusive", flag, False) else x
    by = 1
    while by < x.dimensions[axis]:
        other = moved(found, by)
        most = b.maximum(found, other)
        apart = b.exponential(-b.abs(found - other))
        found = b.select(b.is_finite(most), most + b.log_plus_one(apart), most)
        by *= 2
    context.set_output(0, found)


@op("ApproxTopK", domain=DOMAIN, inputs=1)
def approximate_top_k(context: OpKernelContext) -> None:
    """Give the greatest or smallest k along a dimension, exactly, and their positions."""
    x, k = context.input(0), context.attribute("k", integer)
    axis = axis_of(context, "reduction_dimension", -1, x.rank)
    largest = context.attribute("is_max_k", flag, True)
    found = reductions.top_k(context.builder, x, k, axis, ElementType.S32, largest=largest)
    context.set_outputs(list(found))


@op("Softmax", domain=DOMAIN, inputs=1)
def softmax(context: OpKernelContext) -> None:
    """Give the softmax of each row."""
    x = context.input(0)
    context.set_output(0, reductions.softmax(context.builder, x, [x.rank - 1]))


@op("LogSoftmax", domain=DOMAIN, inputs=1)
def log_softmax(context: OpKernelContext) -> None:
    """Give the logarithm of the softmax of each row."""
    x = context.input(0)
    context.set_output(0, reductions.log_softmax(context.builder, x, [x.rank - 1]))


@op("L2Loss", domain=DOMAIN, inputs=1)
def l2_loss(context: OpKernelContext) -> None:
    """Give half of the sum of squares."""
    x = context.input(0)
    total = reductions.reduce(context.builder, "sum", x * x, range(x.rank))
    context.set_output(0, total * 0.5)


@op("SoftmaxCrossEntropyWithLogits", domain=DOMAIN, inputs=2)
def cross_entropy(context: OpKernelContext) -> None:
    """Give the loss of each row, and its gradient for the logits."""
    b, logits, labels = context.builder, context.input(0), context.input(1)
    log_p = reductions.log_softmax(b, logits, [1])
    context.set_output(0, -reductions.reduce(b, "sum", labels * log_p, [1]))
    context.set_output(1, b.exponential(log_p) - labels)


def axis_of(context: OpKernelContext, name: str, default: int, rank: int) -> int:
    """Return an attribute that is a dimension, from 0."""
    return context.axis(context.attribute(name, integer, default), rank)
