"""Products whose second factor lies in panels, as sessions keep weights: [panels, k, columns]."""

from __future__ import annotations

from typing import Final

from lowtide.builder import Builder, Op
from lowtide.ir.attributes import DotDimensions

OF_PANELS: Final = {"MatMul": "lowtide.MatMul", "Gemm": "lowtide.Gemm"}
"""Operators of products, and those of the same products with a factor in panels."""


COLUMNS: Final = "columns"
"""The attribute that says how many columns a matrix has: others fill the last panel up."""


def product_of_panels(b: Builder, x: Op, panels: Op, columns: int) -> Op:
    """Return the product of [..., k] with a matrix in panels, [..., columns]."""
    product = b.dot(x, panels, DotDimensions((x.rank - 1,), (1,), (), ()))
    count, _, width = panels.dimensions
    sizes = [*x.dimensions[:-1], count * width]
    whole = b.reshape(product, sizes)
    if columns == count * width:
        return whole
    return b.slice(whole, [0] * len(sizes), [*sizes[:-1], columns])
