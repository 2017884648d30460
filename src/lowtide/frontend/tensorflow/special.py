"""Ops of TensorFlow that are special functions, and the next number behind another."""

from __future__ import annotations

from typing import Final

from lowtide.builder import Op
from lowtide.frontend.graphs.context import OpKernelContext
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared import special
from lowtide.frontend.graphs.shared.broadcasting import together
from lowtide.frontend.graphs.shared.elementwise import ones_like, zeros_like
from lowtide.frontend.graphs.shared.special import OneReal
from lowtide.frontend.tensorflow.graph_def import DOMAIN
from lowtide.ir.element_type import ElementType

_ONE: Final[dict[str, OneReal]] = {
    "Digamma": special.digamma,
    "Erfinv": special.erf_inverse,
    "Lgamma": special.log_gamma,
    "Ndtri": special.normal_quantile,
}
_TWO: Final = {"Polygamma": special.polygamma, "Zeta": special.hurwitz_zeta}

_BITS: Final = {ElementType.F32: ElementType.S32, ElementType.F64: ElementType.S64}


@op(*_ONE, domain=DOMAIN, inputs=1)
def of_one(context: OpKernelContext) -> None:
    """Give a function of each element."""
    function = special.in_double(_ONE[context.node.op])
    context.set_output(0, function(context.builder, context.input(0)))


@op(*_TWO, domain=DOMAIN, inputs=2)
def of_two(context: OpKernelContext) -> None:
    """Give a function of two elements; both inputs broadcast."""
    b = context.builder
    x, y = together(b, context.inputs())
    wide = [b.convert(z, ElementType.F64) for z in (x, y)]
    context.set_output(0, b.convert(_TWO[context.node.op](b, *wide), x.element_type))


@op("NextAfter", domain=DOMAIN, inputs=2)
def next_after(context: OpKernelContext) -> None:
    """Give the number of the type that comes next to one on the way to another."""
    b = context.builder
    x, y = together(b, context.inputs())
    bits = _BITS.get(x.element_type)
    if bits is None:
        raise context.error(f"expected f32 or f64, found {x.shape}")
    number = b.bitcast_convert(x, bits)
    one = ones_like(b, number)
    is_farther = b.or_(b.and_(x.gt(0), y.gt(x)), b.and_(x.lt(0), y.lt(x)))
    found = b.bitcast_convert(b.select(is_farther, number + one, number - one), x.element_type)
    least = b.bitcast_convert(one, x.element_type)
    found = b.select(x.eq(0), b.select(y.gt(0), least, -least), found)
    context.set_output(0, _kept(context, x, y, found))


def _kept(context: OpKernelContext, x: Op, y: Op, found: Op) -> Op:
    """A result where two numbers differ, else the second; NaN where one of them is."""
    b = context.builder
    no_number = b.or_(x.ne(x), y.ne(y))
    nan = zeros_like(b, x) + float("nan")
    return b.select(no_number, nan, b.select(x.eq(y), y, found))
