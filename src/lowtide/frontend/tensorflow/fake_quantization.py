"""Ops of TensorFlow that round floats to the numbers of a quantized type, as in training for it."""

from __future__ import annotations

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.context import OpKernelContext, flag, integer, real, text
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared.broadcasting import along, expand
from lowtide.frontend.graphs.shared.elementwise import divide_no_nan, ones_like
from lowtide.frontend.graphs.shared.reductions import reduce
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


@op(*[f"QuantizeAndDequantizeV{x}" for x in (2, 3, 4)], domain=DOMAIN, inputs=(3, 4))
def quantize_and_dequantize(context: OpKernelContext) -> None:
    """Give the input rounded to steps of the greatest of two scales that keep a range."""
    b, x = context.builder, context.input(0)
    is_signed = context.attribute("signed_input", flag, True)
    narrow = context.attribute("narrow_range", flag, False)
    axis = context.attribute("axis", integer, -1)
    bits = context.one_int(3) if context.has_input(3) else context.attribute("num_bits", integer, 8)
    around = [i for i in range(x.rank) if i != axis]
    is_given = context.attribute("range_given", flag, context.node.op.endswith("V3"))
    if is_given:
        ends = [context.input(1), context.input(2)]
    else:
        ends = [reduce(b, kind, x, around) for kind in ("min", "max")]
    ends = [b.reshape(y, []) if not y.rank or axis < 0 else y for y in ends]
    low = float(-(1 << bits - 1) + narrow) if is_signed else 0.0
    high = float((1 << bits - 1) - 1) if is_signed else float((1 << bits) - 1)
    least, most = ends
    scale = _greatest_scale(b, least, most, low, high)
    wide = [
        along(b, y, axis, x.dimensions) if y.rank else b.broadcast(y, x.dimensions, [])
        for y in (scale, b.divide(low, scale), b.divide(high, scale))
    ]
    inside = b.minimum(b.maximum(x, wide[1]), wide[2]) if is_given else x
    mode = context.attribute("round_mode", text, "HALF_TO_EVEN")
    if mode == "HALF_TO_EVEN":
        steps = b.round_nearest_even(inside * wide[0])
    else:
        steps = b.floor(inside * wide[0] + 0.5)
    context.set_output(0, steps / wide[0])


def _greatest_scale(b: Builder, least: Op, most: Op, low: float, high: float) -> Op:
    """How many steps a unit has, so that a range stays within whole numbers; 1 for an empty one."""
    ones = ones_like(b, least)
    large = ones * 3.4e38
    below = b.divide(low, b.select(least.eq(0), ones, least))
    above = b.divide(high, b.select(most.eq(0), ones, most))
    below = b.select((least * low).gt(0), below, large)
    above = b.select((most * high).gt(0), above, large)
    found = b.minimum(below, above)
    return b.select(found.ge(large), ones, found)
