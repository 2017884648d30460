"""Ops of TensorFlow that round floats to the numbers of a quantized type, as in training for it."""

from __future__ import annotations

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.context import OpKernelContext, flag, integer, real
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared.broadcasting import expand
from lowtide.frontend.graphs.shared.elementwise import divide_no_nan
from lowtide.frontend.tensorflow.graph_def import DOMAIN

_NAMES = ("FakeQuantWithMinMaxArgs", "FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxVarsPerChannel")


@op(*_NAMES, domain=DOMAIN, inputs=(1, 3))
def fake_quantize(context: OpKernelContext) -> None:
    """Give the input rounded to steps of a range, which is moved so that 0 is one of them."""
    b, x = context.builder, context.input(0)
    if context.input_count == 3:
        low, high = context.input(1), context.input(2)
    else:
        low, high = [
            b.constant(context.attribute(y, real, z), x.element_type)
            for y, z in (("min", -6.0), ("max", 6.0))
        ]
    bits = context.attribute("num_bits", integer, 8)
    first = float(context.attribute("narrow_range", flag, False))
    last = float(2**bits - 1)
    low, high, step = _nudged(b, low, high, first, last)
    wide = [expand(b, y, x.dimensions) for y in (low, high, step)]
    inside = b.minimum(b.maximum(x, wide[0]), wide[1])
    count = b.floor((inside - wide[0]) / wide[2] + 0.5)
    rounded = count * wide[2] + wide[0]
    is_empty = expand(b, step.eq(0), x.dimensions)
    context.set_output(0, b.select(is_empty, b.subtract(rounded, rounded), rounded))


def _nudged(b: Builder, low: Op, high: Op, first: float, last: float) -> tuple[Op, Op, Op]:
    """Return a range, and its step, in which 0 is a whole number of steps from both ends."""
    step = (high - low) / (last - first)
    start = b.subtract(first, divide_no_nan(b, low, step))
    zero = b.minimum(b.maximum(b.floor(start + 0.5), first), last)
    return b.subtract(first, zero) * step, b.subtract(last, zero) * step, step
