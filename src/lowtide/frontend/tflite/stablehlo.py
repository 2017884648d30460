"""Operators that TFLite takes over from StableHLO: they are those of HLO, with the same options."""

from __future__ import annotations

from typing import Final

from lowtide.builder import Builder
from lowtide.frontend.graphs.context import OpKernelContext
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared import elementwise
from lowtide.frontend.tflite.node import DOMAIN, LiteNode
from lowtide.ir import array_shape
from lowtide.ir.attributes import (
    ConvolutionDimensions,
    DotDimensions,
    Gather,
    Window,
    WindowDimension,
)

_UNARY: Final = {
    "STABLEHLO_ABS": Builder.abs,
    "STABLEHLO_CBRT": Builder.cbrt,
    "STABLEHLO_COSINE": Builder.cosine,
    "STABLEHLO_EXPONENTIAL": Builder.exponential,
    "STABLEHLO_FLOOR": Builder.floor,
    "STABLEHLO_LOG": Builder.log,
    "STABLEHLO_LOGISTIC": Builder.logistic,
    "STABLEHLO_NEGATE": Builder.negate,
    "STABLEHLO_RSQRT": Builder.rsqrt,
    "STABLEHLO_TANH": Builder.tanh,
}
_BINARY: Final = {
    "STABLEHLO_ADD": Builder.add,
    "STABLEHLO_AND": Builder.and_,
    "STABLEHLO_DIVIDE": Builder.divide,
    "STABLEHLO_MAXIMUM": Builder.maximum,
    "STABLEHLO_MINIMUM": Builder.minimum,
    "STABLEHLO_MULTIPLY": Builder.multiply,
    "STABLEHLO_OR": Builder.or_,
    "STABLEHLO_POWER": Builder.power,
    "STABLEHLO_REMAINDER": Builder.remainder,
    "STABLEHLO_SHIFT_LEFT": Builder.shift_left,
    "STABLEHLO_SUBTRACT": Builder.subtract,
}
_DIRECTIONS: Final = ("EQ", "NE", "GE", "GT", "LE", "LT")
"""What is compared, by its code."""


@op(*_UNARY, domain=DOMAIN, inputs=1)
def unary(context: OpKernelContext) -> None:
    """Give a function of each element."""
    node = LiteNode(context)
    node.require_floats()
    node.give(_UNARY[context.node.op](node.b, context.input(0)))


@op(*_BINARY, domain=DOMAIN, inputs=2)
def binary(context: OpKernelContext) -> None:
    """Give a function of two operands of equal sizes."""
    node = LiteNode(context)
    node.require_floats()
    node.give(_BINARY[context.node.op](node.b, context.input(0), context.input(1)))


@op("STABLEHLO_SELECT", domain=DOMAIN, inputs=3)
def select(context: OpKernelContext) -> None:
    """Give elements of one or the other operand."""
    node = LiteNode(context)
    condition, *given = context.inputs()
    node.give(elementwise.select(node.b, condition, *given))


@op("STABLEHLO_CLAMP", domain=DOMAIN, inputs=3)
def clamp(context: OpKernelContext) -> None:
    """Give the second operand within the others."""
    node = LiteNode(context)
    low, x, high = context.inputs()
    node.give(elementwise.clip(node.b, x, low, high))


@op("STABLEHLO_COMPARE", domain=DOMAIN, inputs=2)
def compare(context: OpKernelContext) -> None:
    """Give whether a comparison holds."""
    node = LiteNode(context)
    code = node.number(0)
    if not 0 <= code < len(_DIRECTIONS):
        raise node.error(f"direction {code}; known are 0 to {len(_DIRECTIONS) - 1}")
    node.give(node.b.compare(context.input(0), context.input(1), _DIRECTIONS[code]))


@op("STABLEHLO_CONVERT", domain=DOMAIN, inputs=1)
def convert(context: OpKernelContext) -> None:
    """Give numbers as another type."""
    node = LiteNode(context)
    node.give(node.cast(context.input(0), node.element_type()))


@op("STABLEHLO_RESHAPE", domain=DOMAIN, inputs=1)
def reshape(context: OpKernelContext) -> None:
    """Give the elements in the sizes that the file says."""
    node = LiteNode(context)
    node.give(node.b.reshape(context.input(0), node.made.shape))


@op("STABLEHLO_TRANSPOSE", domain=DOMAIN, inputs=1)
def transpose(context: OpKernelContext) -> None:
    """Give the dimensions in another order."""
    node = LiteNode(context)
    node.give(node.b.transpose(context.input(0), node.numbers(0)))


@op("STABLEHLO_CONCATENATE", domain=DOMAIN)
def concatenate(context: OpKernelContext) -> None:
    """Give the operands one after another."""
    node = LiteNode(context)
    node.give(node.b.concatenate(context.inputs(), node.long(0)))


@op("STABLEHLO_BROADCAST_IN_DIM", domain=DOMAIN, inputs=(1, 2))
def broadcast_in_dim(context: OpKernelContext) -> None:
    """Give an operand along some dimensions of a result, those of size 1 stretched."""
    node, b, x = LiteNode(context), context.builder, context.input(0)
    at = context.ints(1) if context.has_input(1) else node.numbers(0)
    sizes = node.made.shape
    kept = [i for i, n in enumerate(x.dimensions) if n == sizes[at[i]]]
    narrow = b.reshape(x, [x.dimensions[i] for i in kept])
    node.give(b.broadcast(narrow, sizes, [at[i] for i in kept]))


@op("STABLEHLO_SLICE", domain=DOMAIN, inputs=1)
def slice_(context: OpKernelContext) -> None:
    """Give the part between two places in steps."""
    node = LiteNode(context)
    node.give(node.b.slice(context.input(0), *[node.numbers(i) for i in range(3)]))


@op("STABLEHLO_DYNAMIC_SLICE", domain=DOMAIN)
def dynamic_slice(context: OpKernelContext) -> None:
    """Give the part of some sizes at a place."""
    node = LiteNode(context)
    x, *starts = context.inputs()
    node.give(node.b.dynamic_slice(x, starts, node.numbers(0)))


@op("STABLEHLO_DYNAMIC_UPDATE_SLICE", domain=DOMAIN)
def dynamic_update_slice(context: OpKernelContext) -> None:
    """Give an operand with another one written over a part of it."""
    node = LiteNode(context)
    x, update, *starts = context.inputs()
    node.give(node.b.dynamic_update_slice(x, update, starts))


@op("STABLEHLO_PAD", domain=DOMAIN, inputs=2)
def pad(context: OpKernelContext) -> None:
    """Give an operand with a value around and between its elements."""
    node, b = LiteNode(context), context.builder
    widths = list(zip(*[node.numbers(i) for i in range(3)], strict=True))
    node.give(b.pad(context.input(0), b.reshape(context.input(1), []), widths))


@op("STABLEHLO_IOTA", domain=DOMAIN, inputs=0)
def iota(context: OpKernelContext) -> None:
    """Give the place along a dimension."""
    node = LiteNode(context)
    node.give(node.b.iota(array_shape(node.element_type(), node.made.shape), node.long(0)))


@op("STABLEHLO_DOT_GENERAL", domain=DOMAIN, inputs=2)
def dot_general(context: OpKernelContext) -> None:
    """Give sums of products along the contracted dimensions."""
    node = LiteNode(context)
    node.require_floats()
    batches, others = [[tuple(node.numbers(i)) for i in pair] for pair in ((0, 1), (2, 3))]
    dimensions = DotDimensions(*others, *batches)
    x, y = context.input(0), context.input(1)
    node.give(node.b.dot(x, y, dimensions, element_type=node.element_type()))


@op("STABLEHLO_CONVOLUTION", domain=DOMAIN, inputs=2)
def convolution(context: OpKernelContext) -> None:
    """Give a convolution with any layouts, strides, paddings, dilations and groups."""
    node = LiteNode(context)
    node.require_floats()
    x, kernel = context.input(0), context.input(1)
    spatial = [tuple(node.numbers(i)) for i in (7, 10, 13)]
    dimensions = ConvolutionDimensions(
        node.long(5),
        node.long(6),
        spatial[0],
        node.long(8),
        node.long(9),
        spatial[1],
        node.long(11),
        node.long(12),
        spatial[2],
    )
    window = _window(node, [kernel.dimensions[i] for i in spatial[1]])
    groups = max(node.long(14), 1), max(node.long(15), 1)
    node.give(node.b.convolution(x, kernel, dimensions, window, *groups))


def _window(node: LiteNode, sizes: list[int]) -> Window:
    """The window of a convolution, whose options are strides, padding, dilations, reversal."""
    count = len(sizes)
    ones = [1] * count
    strides, base, dilations = [node.numbers(i) or ones for i in (0, 2, 3)]
    padding = node.numbers(1) or [0] * 2 * count
    reversal = node.numbers(4, "?") or [0] * count
    return Window(
        tuple(
            [
                WindowDimension(
                    sizes[i],
                    strides[i],
                    padding[2 * i],
                    padding[2 * i + 1],
                    dilations[i],
                    base[i],
                    bool(reversal[i]),
                )
                for i in range(count)
            ]
        )
    )


@op("STABLEHLO_GATHER", domain=DOMAIN, inputs=2)
def gather(context: OpKernelContext) -> None:
    """Give slices by vectors of places."""
    node = LiteNode(context)
    offsets, collapsed, starts = [tuple(node.numbers(i)) for i in range(3)]
    attributes = Gather(
        offset_dims=offsets,
        collapsed_slice_dims=collapsed,
        start_index_map=starts,
        index_vector_dim=node.long(3),
        slice_sizes=tuple(node.numbers(4)),
    )
    x, places = context.input(0), context.input(1)
    node.give(node.b.gather(x, places, attributes))
