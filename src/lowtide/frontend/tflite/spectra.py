"""Fourier transforms of real numbers."""

from __future__ import annotations

from lowtide.frontend.graphs.context import OpKernelContext
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared.arrays import padded
from lowtide.frontend.tflite.node import DOMAIN, LiteNode


@op("RFFT2D", domain=DOMAIN, inputs=2)
def rfft2d(context: OpKernelContext) -> None:
    """Give the transform over the last two dimensions, which are cut or filled to some sizes."""
    node, b, x = LiteNode(context), context.builder, context.input(0)
    sizes = context.ints(1)
    widths = [(0, 0)] * (x.rank - 2)
    widths += [(0, k - n) for k, n in zip(sizes, x.dimensions[-2:], strict=True)]
    x = padded(b, x, b.constant(0, x.element_type), widths)
    node.give(b.fft(x, "RFFT", sizes))
