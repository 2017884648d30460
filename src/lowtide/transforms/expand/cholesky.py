"""Cholesky decomposition as a loop over columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from lowtide.builder.values import Op
from lowtide.ir import Instruction, Module, Opcode
from lowtide.ir.attributes import Cholesky
from lowtide.passes.interface import Pass, example
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
from lowtide.transforms.expand.support import expand, expander, narrowed, spread_to, widened
from lowtide.transforms.simplify.support import Made


def expand_cholesky(module: Module) -> int:
    """Write cholesky as a loop that finds one column after the other; return how many changes.

    The n steps take n**3 products together. A matrix that has no factor becomes NaN.
    """
    return expand(module, RULES)


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
        a.dimensions[-1],
        [spread_to(zero, a.dimensions), _all_true(a), a],
        _next_column,
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
        expand_cholesky,
        "Writes Cholesky decompositions as a loop that finds one column after the other.",
        *example(
            """
HloModule m

-ENTRY main {
- a = f32[3,3] parameter(0)
- ROOT l = f32[3,3] cholesky(a), lower=true
+body {
+ p0.1 = (s32[], f32[3,3], pred[], f32[3,3]) parameter(0)
+ get-tuple-element.1 = s32[] get-tuple-element(p0.1), index=0
+ constant.4 = s32[] constant(1)
+ add = s32[] add(get-tuple-element.1, constant.4)
+ get-tuple-element.2 = f32[3,3] get-tuple-element(p0.1), index=1
+ iota = s32[3,1] iota(), iota_dimension=0
+ broadcast.5 = s32[3,1] broadcast(get-tuple-element.1), dimensions={}
+ compare.3 = pred[3,1] compare(iota, broadcast.5), direction=EQ
+ get-tuple-element.4 = f32[3,3] get-tuple-element(p0.1), index=3
+ constant.5 = s32[] constant(0)
+ dynamic-slice = f32[3,1] dynamic-slice(get-tuple-element.4, constant.5, get-tuple-element.1),
+   dynamic_slice_sizes={3,1}
+ constant.6 = s32[] constant(0)
+ dynamic-slice.1 = f32[1,3] dynamic-slice(get-tuple-element.2, get-tuple-element.1, constant.6),
+   dynamic_slice_sizes={1,3}
+ transpose = f32[3,1] transpose(dynamic-slice.1), dimensions={1,0}
+ dot = f32[3,1] dot(get-tuple-element.2, transpose), lhs_contracting_dims={1},
+   rhs_contracting_dims={0}, operand_precision={highest,highest}
+ subtract = f32[3,1] subtract(dynamic-slice, dot)
+ constant.7 = s32[] constant(0)
+ dynamic-slice.2 = f32[1,1] dynamic-slice(subtract, get-tuple-element.1, constant.7),
+   dynamic_slice_sizes={1,1}
+ sqrt = f32[1,1] sqrt(dynamic-slice.2)
+ reshape.1 = f32[] reshape(sqrt)
+ broadcast.2 = f32[3,1] broadcast(reshape.1), dimensions={}
+ broadcast.4 = s32[3,1] broadcast(get-tuple-element.1), dimensions={}
+ compare.2 = pred[3,1] compare(iota, broadcast.4), direction=GT
+ divide = f32[3,1] divide(subtract, broadcast.2)
+ constant.9 = f32[] constant(0)
+ broadcast.3 = f32[3,1] broadcast(constant.9), dimensions={}
+ select = f32[3,1] select(compare.2, divide, broadcast.3)
+ select.1 = f32[3,1] select(compare.3, broadcast.2, select)
+ constant.10 = s32[] constant(0)
+ dynamic-update-slice = f32[3,3] dynamic-update-slice(get-tuple-element.2, select.1, constant.10,
+   get-tuple-element.1)
+ get-tuple-element.3 = pred[] get-tuple-element(p0.1), index=2
+ constant.8 = f32[] constant(0)
+ broadcast.1 = f32[1,1] broadcast(constant.8), dimensions={}
+ compare.1 = pred[1,1] compare(dynamic-slice.2, broadcast.1), direction=GT
+ is-finite = pred[1,1] is-finite(dynamic-slice.2)
+ and = pred[1,1] and(compare.1, is-finite)
+ reshape = pred[] reshape(and)
+ and.1 = pred[] and(get-tuple-element.3, reshape)
+ ROOT tuple.1 = (s32[], f32[3,3], pred[], f32[3,3]) tuple(add, dynamic-update-slice, and.1,
+   get-tuple-element.4)
}

+condition {
+ p0 = (s32[], f32[3,3], pred[], f32[3,3]) parameter(0)
+ get-tuple-element = s32[] get-tuple-element(p0), index=0
+ constant.3 = s32[] constant(3)
+ ROOT compare = pred[] compare(get-tuple-element, constant.3), direction=LT
+}
+
+ENTRY main {
+ constant.2 = s32[] constant(0)
+ constant = f32[] constant(0)
+ broadcast = f32[3,3] broadcast(constant), dimensions={}
+ constant.1 = pred[] constant(true)
+ a = f32[3,3] parameter(0)
+ tuple = (s32[], f32[3,3], pred[], f32[3,3]) tuple(constant.2, broadcast, constant.1, a)
+ while = (s32[], f32[3,3], pred[], f32[3,3]) while(tuple), condition=condition, body=body
+ get-tuple-element.7 = pred[] get-tuple-element(while), index=2
+ broadcast.6 = pred[3,3] broadcast(get-tuple-element.7), dimensions={}
+ get-tuple-element.6 = f32[3,3] get-tuple-element(while), index=1
+ constant.11 = f32[] constant(nan)
+ broadcast.7 = f32[3,3] broadcast(constant.11), dimensions={}
+ ROOT select.2 = f32[3,3] select(broadcast.6, get-tuple-element.6, broadcast.7)
+}
+"""
        ),
    ),
)
