"""Products whose second factor lies in panels, as sessions keep weights: [panels, k, columns]."""

from __future__ import annotations

from typing import Final

import numpy as np

from lowtide.builder import Builder, Op
from lowtide.ir.attributes import DotDimensions
from lowtide.ir.literal import Array, empty_in_lines, in_lines

OF_PANELS: Final = {"MatMul": "lowtide.MatMul", "Gemm": "lowtide.Gemm"}
"""Operators of products, and those of the same products with a factor in panels."""

KERNEL: Final = "lowtide.Kernel"
"""The operator that makes a kernel of a convolution, [o, c, ...], of panels of its outputs."""

COLUMNS: Final = "columns"
"""The attribute that says how many columns a matrix has: others fill the last panel up."""

WIDTH: Final = 16
"""The columns of a panel: a line of memory of f32, which is whole vectors of any processor."""

_LEAST_BYTES: Final = 1 << 14
"""Bytes of a matrix that it is worth it for: less stays in a first cache."""

_FILLED: Final = 32
"""The part of a matrix that the columns may be that fill its last panel up."""


def has_panels(matrix: Array) -> bool:
    """Return whether it is worth it to keep a matrix in panels: those of f32 that are not small.

    Columns that fill the last panel up are a small part.
    """
    columns = matrix.shape[1]
    is_large = matrix.dtype == np.float32 and matrix.nbytes >= _LEAST_BYTES
    return is_large and -columns % WIDTH * _FILLED <= columns


def panels_of(matrix: Array) -> Array:
    """Return the panels of a matrix, [panels, rows, columns]; 0s fill the last one up."""
    steps, columns = matrix.shape
    count = -(-columns // WIDTH)
    found = empty_in_lines((count, steps, WIDTH), matrix.dtype)
    whole = columns // WIDTH
    cut = matrix[:, : whole * WIDTH].reshape(steps, whole, WIDTH)
    found[:whole] = cut.swapaxes(0, 1)
    if whole < count:
        rest = columns - whole * WIDTH
        found[whole, :, :rest] = matrix[:, whole * WIDTH :]
        found[whole, :, rest:] = 0
    return found


def panels_of_kernel(kernel: Array) -> Array:
    """Return the panels of a kernel [o, c, ...] whose outputs fill them: [panels, ..., c, columns].

    Convolutions read them where they lie.
    """
    outputs, features, *spatial = kernel.shape
    cut = kernel.reshape(outputs // WIDTH, WIDTH, features, *spatial)
    return in_lines(cut.transpose([0, *range(3, cut.ndim), 2, 1]))


def kernel_of_panels(b: Builder, panels: Op) -> Op:
    """Return the kernel that lies in panels."""
    count, *spatial, features, width = panels.dimensions
    last = panels.rank - 1
    cut = b.transpose(panels, [0, last, last - 1, *range(1, last - 1)])
    return b.reshape(cut, [count * width, features, *spatial])


def product_of_panels(b: Builder, x: Op, panels: Op, columns: int) -> Op:
    """Return the product of [..., k] with a matrix in panels, [..., columns]."""
    count, steps, width = panels.dimensions
    if columns == count * width:
        matrix = b.reshape(b.transpose(panels, [1, 0, 2]), [steps, columns])
        return b.dot(x, matrix, DotDimensions((x.rank - 1,), (0,), (), ()))
    product = b.dot(x, panels, DotDimensions((x.rank - 1,), (1,), (), ()))
    sizes = [*x.dimensions[:-1], count * width]
    whole = b.reshape(product, sizes)
    return b.slice(whole, [0] * len(sizes), [*sizes[:-1], columns])
