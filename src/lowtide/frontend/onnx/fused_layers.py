"""Layers that ONNX Runtime's optimizer fuses with what follows or comes before them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.context import OpKernelContext, flag, integer, real
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared import contraction, elementwise, windows
from lowtide.frontend.graphs.shared.broadcasting import along, expand
from lowtide.frontend.graphs.shared.indexing import take
from lowtide.frontend.graphs.shared.reductions import reduce
from lowtide.frontend.onnx.networks import convolved
from lowtide.frontend.onnx.node_list import DOMAIN
from lowtide.frontend.onnx.quantized_layers import dequantized
from lowtide.ir import array_shape
from lowtide.ir.element_type import ElementType

_PREFIX: Final = "com.microsoft."

_ACTIVATIONS: Final[dict[str, Callable[[Builder, Op, Sequence[float]], Op]]] = {
    "Relu": lambda b, x, _: elementwise.relu(b, x),
    "Tanh": lambda b, x, _: b.tanh(x),
    "Sigmoid": lambda b, x, _: b.logistic(x),
    "LeakyRelu": lambda b, x, p: elementwise.leaky_relu(b, x, p[0] if p else 0.01),
    "Clip": lambda b, x, p: b.clamp(
        b.constant(p[0], x.element_type), x, b.constant(p[1], x.element_type)
    ),
    "HardSigmoid": lambda b, x, p: elementwise.hard_sigmoid(b, x, *(p or (0.2, 0.5))),
}


def activated(context: OpKernelContext, x: Op) -> Op:
    """Return x as the attributes `activation` and `activation_params` say."""
    name = context.choice("activation", {"": "", **{k: k for k in _ACTIVATIONS}}, "")
    if not name:
        return x
    numbers = [float(v) for v in context.attribute("activation_params", list, [])]
    return _ACTIVATIONS[name](context.builder, x, numbers)


@op(_PREFIX + "FusedConv", domain=DOMAIN, inputs=(2, 4))
def fused_conv(context: OpKernelContext) -> None:
    """Give the convolution plus a number for each channel, plus another image, activated."""
    found = convolved(context, context.input(0), context.input(1))
    bias, added = context.optional(2), context.optional(3)
    if bias is not None:
        found = found + along(context.builder, bias, 1, found.dimensions)
    context.set_output(0, activated(context, found if added is None else found + added))


@op(_PREFIX + "FusedGemm", domain=DOMAIN, inputs=(2, 3))
def fused_gemm(context: OpKernelContext) -> None:
    """Give alpha A B + beta C, activated; A and B are transposed or not."""
    b = context.builder
    x, y = [
        contraction.swapped(b, value) if context.attribute(name, flag, False) else value
        for value, name in ((context.input(0), "transA"), (context.input(1), "transB"))
    ]
    found = b.matmul(x, y) * context.attribute("alpha", real, 1.0)
    bias = context.optional(2)
    if bias is not None:
        found = found + expand(b, bias, found.dimensions) * context.attribute("beta", real, 1.0)
    context.set_output(0, activated(context, found))


@op(_PREFIX + "EmbedLayerNormalization", domain=DOMAIN, inputs=(7, 9))
def embed_layer_normalization(context: OpKernelContext) -> None:
    """Give the normalized sum of embeddings of words, positions and segments, and lengths."""
    given = [context.optional(i) for i in (2, 3, 4, 5, 6)]
    _embedded(context, given, context.optional(7), context.optional(8))


@op(_PREFIX + "QEmbedLayerNormalization", domain=DOMAIN, inputs=(13, 18))
def q_embed_layer_normalization(context: OpKernelContext) -> None:
    """Give the normalized sum of embeddings, of quantized tables, and lengths."""
    b = context.builder
    given = [
        dequantized(b, context.input(i), context.input(i + 6), context.input(i + 11))
        if context.has_input(i)
        else None
        for i in range(2, 7)
    ]
    _embedded(context, given, context.optional(7), None)


def _embedded(
    context: OpKernelContext, given: Sequence[Op | None], mask: Op | None, positions: Op | None
) -> None:
    """Give the normalized sum and the lengths; `given` are three tables, a scale and an offset."""
    b, words = context.builder, context.input(0)
    table, places, segments, scale, offset = given
    assert table is not None
    assert places is not None
    assert scale is not None
    n, length = words.dimensions
    total = take(b, table, words, 0)
    if positions is None:
        positions = b.iota(array_shape(words.element_type, (1, length)), 1)
    total = total + expand(b, take(b, places, positions, 0), total.dimensions)
    if context.has_input(1) and segments is not None:
        total = total + take(b, segments, context.input(1), 0)
    epsilon = context.attribute("epsilon", real, 1e-12)
    result, _, _ = windows.normalized(b, total, [2], epsilon)
    if mask is None:
        lengths = b.broadcast(b.constant(0, ElementType.S32), [n], [])
    else:
        lengths = reduce(b, "sum", b.convert(mask, ElementType.S32), [1])
    context.set_outputs([windows.scaled(b, result, scale, offset), lengths, total])


@op(_PREFIX + "GroupNorm", _PREFIX + "SkipGroupNorm", domain=DOMAIN, inputs=(3, 5))
def group_norm(context: OpKernelContext) -> None:
    """Give images normalized by groups of channels, activated or not, and what was normalized."""
    b, x = context.builder, context.input(0)
    is_last = context.attribute("channels_last", flag, True)
    axis = x.rank - 1 if is_last else 1
    if context.has_input(3):
        skip = context.input(3)
        if skip.rank == 2:
            n, c = skip.dimensions
            skip = b.reshape(skip, [n if i == 0 else c if i == axis else 1 for i in range(x.rank)])
        x = x + expand(b, skip, x.dimensions)
    bias = context.optional(4)
    if bias is not None:
        x = x + along(b, bias, axis, x.dimensions)
    groups = context.attribute("groups", integer)
    sizes = x.dimensions
    parted = [*sizes[:axis], groups, sizes[axis] // groups, *sizes[axis + 1 :]]
    axes = [i for i in range(1, len(parted)) if i != axis]
    epsilon = context.attribute("epsilon", real, 1e-5)
    wide = b.convert(b.reshape(x, parted), ElementType.F32)
    found = b.reshape(windows.normalized(b, wide, axes, epsilon)[0], sizes)
    scale, offset = [
        along(b, b.convert(context.input(i), ElementType.F32), axis, sizes) for i in (1, 2)
    ]
    found = found * scale + offset
    if context.attribute("activation", integer):
        found = found * b.logistic(found)
    context.set_outputs([b.convert(found, x.element_type), x])
