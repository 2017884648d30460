"""Cholesky decomposition as a loop over columns.

The n steps take n**3 products together. A matrix that has no factor becomes NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from lowtide.builder.values import Op
from lowtide.ir import Instruction, Opcode
from lowtide.ir.attributes import Cholesky
from lowtide.passes.interface import Pass
from lowtide.passes.rewriting import Rewriter
from lowtide.transforms.expand.loops import (
    column,
    conjugate,
    counted,
    index,
    product,
    row,
    starts,
    transposed,
)
from lowtide.transforms.expand.support import expander, expansion, narrowed, spread_to, widened
from lowtide.transforms.simplify.support import Made


@expander(Opcode.CHOLESKY)
def write_cholesky(x: Instruction, at: Rewriter) -> Made:
    """cholesky(a) => for each column: l[:, k] = (a[:, k] - l l[k]') / sqrt(a[k, k] - l[k] l[k]')"""
    a = widened(at, x.operands[0])
    if not x.shape.element_count:
        return None
    lower = x.attributes_as(Cholesky).lower
    if not lower:
        a = transposed(conjugate(a))
    zero = at.build.constant(0, a.element_type)
    factor, is_good = counted(
        a.dimensions[-1], [spread_to(zero, a.dimensions), _all_true(a), a], _next_column
    )[:2]
    if not lower:
        factor = transposed(conjugate(factor))
    good = at.build.broadcast(is_good, factor.dimensions, tuple(range(factor.rank - 2)))
    nan = spread_to(at.build.constant(np.nan, a.element_type), factor.dimensions)
    return narrowed(at.build.select(good, factor, nan), x.shape.element_type)


def _all_true(a: Op) -> Op:
    return spread_to(a.builder.constant(value=True), a.dimensions[:-2])


def _next_column(number: Op, factor: Op, is_good: Op, a: Op) -> Sequence[Op]:
    """Find column `number`; those behind are 0 still, so that products need no mask."""
    build = factor.builder
    found = column(a, number) - product(factor, transposed(conjugate(row(factor, number))))
    pivot = row(found, number)
    if a.element_type.is_complex:
        pivot = build.real(pivot)
    is_positive = build.reshape(pivot.gt(0) & build.is_finite(pivot), a.dimensions[:-2])
    root = build.sqrt(pivot)
    if a.element_type.is_complex:
        root = build.complex(root, spread_to(build.constant(0, root.element_type), root.dimensions))
    batch = tuple(range(a.rank - 2))
    roots = build.broadcast(build.reshape(root, a.dimensions[:-2]), found.dimensions, batch)
    place = index(found, a.rank - 2)
    zero = spread_to(build.constant(0, a.element_type), found.dimensions)
    below = build.select(place.gt(number), found / roots, zero)
    whole = build.select(place.eq(number), roots, below)
    factor = build.dynamic_update_slice(factor, whole, starts(factor, number, a.rank - 1))
    return [factor, is_good & is_positive, a]


RULES: Final = (write_cholesky,)

PASSES: Final = (
    Pass(
        "expand-cholesky",
        expansion(RULES),
        "Writes Cholesky decompositions as a loop that finds one column after the other.",
        before="""
HloModule m

ENTRY main {
  a = f32[3,3] parameter(0)
  ROOT l = f32[3,3] cholesky(a), lower=true
}
""",
    ),
)
