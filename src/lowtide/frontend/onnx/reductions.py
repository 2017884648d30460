"""Ops of ONNX that reduce, order or accumulate along dimensions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.context import OpKernelContext, flag, integer, integers
from lowtide.frontend.graphs.registry import Compute, op
from lowtide.frontend.graphs.shared import reductions
from lowtide.frontend.onnx.node_list import DOMAIN
from lowtide.ir.element_type import ElementType

Reduction = Callable[[Builder, Op, list[int], bool], Op]


def _plain(kind: str) -> Reduction:
    return lambda b, x, axes, keep: reductions.reduce(b, kind, x, axes, keep=keep)


def _sum(b: Builder, x: Op, axes: list[int], keep: bool) -> Op:
    return reductions.reduce(b, "sum", x, axes, keep=keep)


_REDUCTIONS: Final[dict[str, Reduction]] = {
    "ReduceSum": _sum,
    "ReduceProd": _plain("prod"),
    "ReduceMax": _plain("max"),
    "ReduceMin": _plain("min"),
    "ReduceMean": lambda b, x, axes, keep: reductions.mean(b, x, axes, keep=keep),
    "ReduceL1": lambda b, x, axes, keep: _sum(b, b.abs(x), axes, keep),
    "ReduceL2": lambda b, x, axes, keep: b.sqrt(_sum(b, x * x, axes, keep)),
    "ReduceLogSum": lambda b, x, axes, keep: b.log(_sum(b, x, axes, keep)),
    "ReduceLogSumExp": lambda b, x, axes, keep: reductions.log_sum_exp(b, x, axes, keep=keep),
    "ReduceSumSquare": lambda b, x, axes, keep: _sum(b, x * x, axes, keep),
}


def _reduction(function: Reduction) -> Compute:
    def compute(context: OpKernelContext) -> None:
        x = context.input(0)
        given = axes_of(context, 1)
        keep = context.attribute("keepdims", flag, True)
        if not given and context.attribute("noop_with_empty_axes", flag, False):
            context.set_output(0, x)
            return
        axes = context.axes(given, x.rank) if given else list(range(x.rank))
        context.set_output(0, function(context.builder, x, axes, keep))

    return compute


for _name, _function in _REDUCTIONS.items():
    op(_name, domain=DOMAIN, inputs=(1, 2))(_reduction(_function))


def axes_of(context: OpKernelContext, number: int) -> list[int]:
    """Return axes given as an input, or as an attribute as older opsets have it; [] for none."""
    if context.has_input(number):
        return context.ints(number)
    return context.attribute("axes", integers, [])


def _extreme(kind: str) -> Compute:
    def compute(context: OpKernelContext) -> None:
        x = context.input(0)
        result = reductions.arg_extreme(
            context.builder,
            kind,
            x,
            axis_of(context, 0, x.rank),
            ElementType.S64,
            keep=context.attribute("keepdims", flag, True),
            last=context.attribute("select_last_index", flag, False),
        )
        context.set_output(0, result)

    return compute


op("ArgMax", domain=DOMAIN, inputs=1)(_extreme("max"))
op("ArgMin", domain=DOMAIN, inputs=1)(_extreme("min"))


def axis_of(context: OpKernelContext, default: int, rank: int) -> int:
    """Return the attribute `axis` as a dimension from 0."""
    return context.axis(context.attribute("axis", integer, default), rank)


@op("TopK", domain=DOMAIN, inputs=2)
def top_k(context: OpKernelContext) -> None:
    """Give the k greatest or smallest along a dimension, and their positions."""
    x, k = context.input(0), context.one_int(1)
    axis = axis_of(context, -1, x.rank)
    if not 0 <= k <= x.dimensions[axis]:
        raise context.error(f"k is {k}, but dimension {axis} has {x.dimensions[axis]} elements")
    largest = context.attribute("largest", flag, True)
    pair = reductions.top_k(context.builder, x, k, axis, ElementType.S64, largest=largest)
    context.set_outputs(list(pair))


@op("CumSum", "CumProd", domain=DOMAIN, inputs=2)
def cumulative(context: OpKernelContext) -> None:
    """Give running sums or products along a dimension."""
    x = context.input(0)
    result = reductions.cumulative(
        context.builder,
        "sum" if context.node.op == "CumSum" else "prod",
        x,
        context.axis(context.one_int(1), x.rank),
        exclusive=context.attribute("exclusive", flag, False),
        reverse=context.attribute("reverse", flag, False),
    )
    context.set_output(0, result)


def _rows(context: OpKernelContext, function: Callable[[Builder, Op, list[int]], Op]) -> None:
    """Give a function of vectors: along `axis`, before opset 13 over all dimensions from it on."""
    b, x = context.builder, context.input(0)
    if context.version >= 13:
        context.set_output(0, function(b, x, [axis_of(context, -1, x.rank)]))
        return
    axis = axis_of(context, 1, max(x.rank, 2))
    context.set_output(0, function(b, x, list(range(axis, x.rank))))


@op("Hardmax", domain=DOMAIN, inputs=1)
def hardmax(context: OpKernelContext) -> None:
    """Give 1 at the first of the greatest elements along a dimension, else 0."""
    b, x = context.builder, context.input(0)
    if context.version >= 13:
        context.set_output(0, reductions.hardmax(b, x, axis_of(context, -1, x.rank)))
        return
    axis = axis_of(context, 1, max(x.rank, 2))
    sizes = [math.prod(x.dimensions[:axis]), math.prod(x.dimensions[axis:])]
    flat = reductions.hardmax(b, b.reshape(x, sizes), 1)
    context.set_output(0, b.reshape(flat, x.dimensions))


@op("Softmax", domain=DOMAIN, inputs=1)
def softmax(context: OpKernelContext) -> None:
    """Give the softmax along a dimension."""
    _rows(context, reductions.softmax)


@op("LogSoftmax", domain=DOMAIN, inputs=1)
def log_softmax(context: OpKernelContext) -> None:
    """Give the logarithm of the softmax along a dimension."""
    _rows(context, reductions.log_softmax)
