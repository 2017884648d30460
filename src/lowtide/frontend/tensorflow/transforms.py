"""Ops of TensorFlow on complex numbers, Fourier transforms and matrices that are factored."""

from __future__ import annotations

from typing import Final

import numpy as np

from lowtide.builder import Op
from lowtide.frontend.graphs.context import OpKernelContext, flag
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared import arrays, contraction
from lowtide.frontend.graphs.shared.broadcasting import together
from lowtide.frontend.tensorflow.graph_def import DOMAIN
from lowtide.ir.literal import DTYPES

_FFTS: Final = {
    **{f"{kind}{n or ''}": (kind, n or 1) for kind in ("FFT", "IFFT") for n in (0,)},
    **{f"{kind}{n}D": (kind, n) for kind in ("FFT", "IFFT", "RFFT", "IRFFT") for n in (2, 3)},
    "RFFT": ("RFFT", 1),
    "IRFFT": ("IRFFT", 1),
}


@op(*_FFTS, domain=DOMAIN, inputs=(1, 2))
def fourier(context: OpKernelContext) -> None:
    """Give the transform over the last dimensions, which are cut or filled to some sizes."""
    b, x = context.builder, context.input(0)
    kind, count = _FFTS[context.node.op]
    sizes = context.ints(1) if context.has_input(1) else list(x.dimensions[-count:])
    wanted = [*sizes[:-1], sizes[-1] // 2 + 1] if kind == "IRFFT" else sizes
    zero = b.constant(np.zeros((), DTYPES[x.element_type]))
    widths = [(0, 0)] * (x.rank - count)
    widths += [(0, k - n) for k, n in zip(wanted, x.dimensions[-count:], strict=True)]
    context.set_output(0, b.fft(arrays.padded(b, x, zero, widths), kind, sizes))


@op("Complex", domain=DOMAIN, inputs=2)
def complex_(context: OpKernelContext) -> None:
    """Give complex numbers of their two parts."""
    b = context.builder
    real, imaginary = together(b, context.inputs())
    context.set_output(0, b.complex(real, imaginary))


@op("Real", "Imag", "ComplexAbs", "Conj", "Angle", domain=DOMAIN, inputs=1)
def part(context: OpKernelContext) -> None:
    """Give a part of complex numbers."""
    b, x = context.builder, context.input(0)
    functions = {
        "Real": lambda: b.real(x),
        "Imag": lambda: b.imag(x),
        "ComplexAbs": lambda: b.abs(x),
        "Conj": lambda: contraction.conjugate(b, x),
        "Angle": lambda: b.atan2(b.imag(x), b.real(x)),
    }
    context.set_output(0, functions[context.node.op]())


@op("Cholesky", domain=DOMAIN, inputs=1)
def cholesky(context: OpKernelContext) -> None:
    """Give the lower triangular factors of positive definite matrices."""
    b, x = context.builder, context.input(0)
    found = b.cholesky(x, lower=True)
    context.set_output(0, _lower(context, found))


def _lower(context: OpKernelContext, x: Op) -> Op:
    b = context.builder
    keep = np.tri(x.dimensions[-2], x.dimensions[-1], dtype=bool)
    mask = b.broadcast(b.constant(keep), x.dimensions, [x.rank - 2, x.rank - 1])
    zero = b.constant(np.zeros((), DTYPES[x.element_type]))
    return b.select(mask, x, b.broadcast(zero, x.dimensions, []))


@op("MatrixTriangularSolve", domain=DOMAIN, inputs=2)
def triangular_solve(context: OpKernelContext) -> None:
    """Give x of a x = b for triangular a, or its adjoint."""
    is_adjoint = context.attribute("adjoint", flag, False)
    found = context.builder.triangular_solve(
        context.input(0),
        context.input(1),
        lower=context.attribute("lower", flag, True),
        transpose_a="ADJOINT" if is_adjoint else "NO_TRANSPOSE",
    )
    context.set_output(0, found)


@op("Cross", domain=DOMAIN, inputs=2)
def cross(context: OpKernelContext) -> None:
    """Give the products of vectors of three numbers that stand upright on both."""
    b, (x, y) = context.builder, context.inputs()
    last = x.rank - 1
    left, right = [arrays.split(b, z, [1, 1, 1], last) for z in (x, y)]
    found = [left[i] * right[j] - left[j] * right[i] for i, j in ((1, 2), (2, 0), (0, 1))]
    context.set_output(0, b.concatenate(found, last))
