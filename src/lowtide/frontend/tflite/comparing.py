"""Comparisons, the greater and the smaller of two, and choices."""

from __future__ import annotations

from typing import Final

import numpy as np

from lowtide.builder import Op
from lowtide.frontend.graphs.context import OpKernelContext
from lowtide.frontend.graphs.registry import name_table, op
from lowtide.frontend.graphs.shared import elementwise
from lowtide.frontend.tflite import quantized
from lowtide.frontend.tflite.node import DOMAIN, LiteNode
from lowtide.frontend.tflite.rounding import factor_of, scaled

_COMPARED: Final = name_table(
    """
    EQUAL=equal GREATER=greater GREATER_EQUAL=greater_equal LESS=less LESS_EQUAL=less_equal
    NOT_EQUAL=not_equal
    """
)
_BITS: Final = 8
"""By how many bits 8-bit numbers are shifted left before they are compared."""


@op(*_COMPARED, domain=DOMAIN, inputs=2)
def compare(context: OpKernelContext) -> None:
    """Give whether a comparison holds; 8-bit numbers are brought to one scale first."""
    node = LiteNode(context)
    operands: list[Op] = context.inputs()
    if node.is_quantized and node.tensor(0).type != "INT16":
        operands = [_brought(node, i) for i in range(2)]
    node.give(elementwise.binary(_COMPARED[context.node.op], node.b, *operands))


def _brought(node: LiteNode, number: int) -> Op:
    scale = float(quantized.scale_of(node, node.tensor(number)))
    wide = quantized.without_zero(node, number) * (1 << _BITS)
    return scaled(node.b, wide, [factor_of(scale)])


@op("MAXIMUM", "MINIMUM", domain=DOMAIN, inputs=2)
def extreme(context: OpKernelContext) -> None:
    """Give the greater or the smaller of two; quantized ones have to be of one scale."""
    node = LiteNode(context)
    if node.is_quantized:
        quantized.require_same(node, 2)
    name = "max" if context.node.op == "MAXIMUM" else "min"
    node.give(elementwise.binary(name, node.b, context.input(0), context.input(1)))


@op("SELECT", "SELECT_V2", domain=DOMAIN, inputs=3)
def select(context: OpKernelContext) -> None:
    """Give elements of one or the other operand; all are broadcast.

    A vector of conditions chooses slices along the first dimension.
    """
    node, b = LiteNode(context), context.builder
    condition, *given = context.inputs()
    is_for_slices = condition.rank == 1 and given[0].rank > 1 and context.node.op == "SELECT"
    if is_for_slices:
        condition = b.broadcast(condition, given[0].dimensions, [0])
    node.give(elementwise.select(b, condition, *given))


@op("WHERE", domain=DOMAIN, inputs=1)
def where(context: OpKernelContext) -> None:
    """Give the places of what is not zero, of a constant: else their number is not known."""
    context.set_output(0, np.argwhere(context.constant(0)).astype(np.int64))


@op("UNIQUE", domain=DOMAIN, inputs=1)
def unique(context: OpKernelContext) -> None:
    """Give the different values of a constant as they come, and for each element which it is."""
    node, x = LiteNode(context), context.constant(0)
    values, first, places = np.unique(x, return_index=True, return_inverse=True)
    order = np.argsort(first)
    ranks = np.argsort(order)
    context.set_output(0, values[order])
    kind = np.int32 if node.result(1).type == "INT32" else np.int64
    context.set_output(1, ranks[places.reshape(x.shape)].astype(kind))
