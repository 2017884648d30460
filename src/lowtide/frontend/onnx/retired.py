"""Operators that ONNX had in its first versions only, which ONNX Runtime still takes."""

from __future__ import annotations

from lowtide.frontend.graphs.context import OpKernelContext, integer, integers, real
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared.arrays import sliced
from lowtide.frontend.graphs.shared.broadcasting import along
from lowtide.frontend.graphs.shared.reductions import mean
from lowtide.frontend.onnx.arrays import slice_
from lowtide.frontend.onnx.node_list import DOMAIN

op("DynamicSlice", domain=DOMAIN, inputs=(3, 4))(slice_)


@op("Affine", domain=DOMAIN, inputs=1)
def affine(context: OpKernelContext) -> None:
    """Give alpha x + beta."""
    alpha, beta = [context.attribute(x, real, y) for x, y in (("alpha", 1.0), ("beta", 0.0))]
    context.set_output(0, context.input(0) * alpha + beta)


@op("Scale", domain=DOMAIN, inputs=1)
def scale(context: OpKernelContext) -> None:
    """Give the input times a number."""
    context.set_output(0, context.input(0) * context.attribute("scale", real, 1.0))


@op("ScaledTanh", domain=DOMAIN, inputs=1)
def scaled_tanh(context: OpKernelContext) -> None:
    """Give alpha tanh(beta x)."""
    alpha, beta = [context.attribute(x, real) for x in ("alpha", "beta")]
    context.set_output(0, context.builder.tanh(context.input(0) * beta) * alpha)


@op("ParametricSoftplus", domain=DOMAIN, inputs=1)
def parametric_softplus(context: OpKernelContext) -> None:
    """Give alpha log(exp(beta x) + 1)."""
    b = context.builder
    alpha, beta = [context.attribute(x, real) for x in ("alpha", "beta")]
    x = context.input(0) * beta
    tail = b.log_plus_one(b.exponential(b.negate(b.abs(x))))
    context.set_output(0, (b.maximum(x, x * 0.0) + tail) * alpha)


@op("ImageScaler", domain=DOMAIN, inputs=1)
def image_scaler(context: OpKernelContext) -> None:
    """Give images times a number, plus a number for each channel."""
    b, x = context.builder, context.input(0) * context.attribute("scale", real, 1.0)
    bias = b.constant([float(v) for v in context.attribute("bias", list)], x.element_type)
    context.set_output(0, x + along(b, bias, 1, x.dimensions))


@op("Crop", domain=DOMAIN, inputs=1)
def crop(context: OpKernelContext) -> None:
    """Give images without their borders, or the part of the size `scale` behind these."""
    x = context.input(0)
    left, top, right, bottom = context.attribute("border", integers)
    height, width = x.dimensions[2:]
    ends = [height - bottom, width - right]
    sizes = context.attribute("scale", integers, [])
    if sizes:
        ends = [top + sizes[0], left + sizes[1]]
    parts = [slice(None), slice(None), slice(top, ends[0]), slice(left, ends[1])]
    context.set_output(0, sliced(context.builder, x, parts))


@op("SimplifiedLayerNormalization", domain=DOMAIN, inputs=2)
def simplified_layer_normalization(context: OpKernelContext) -> None:
    """Give x divided by the root of the mean of its squares, scaled, and 1 / that root.

    ONNX Runtime's optimizer writes it, as an operator of ONNX itself.
    """
    b, x, weight = context.builder, context.input(0), context.input(1)
    first = context.axis(context.attribute("axis", integer, -1), x.rank)
    axes = [*range(first, x.rank)]
    square = mean(b, x * x, axes, keep=True)
    inverse = b.rsqrt(square + context.attribute("epsilon", real, 1e-5))
    wide = b.broadcast(weight, x.dimensions, axes[len(axes) - weight.rank :])
    context.set_outputs([x * inverse * wide, inverse])
