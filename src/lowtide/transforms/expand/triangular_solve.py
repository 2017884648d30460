"""Triangular systems of equations as a loop of substitutions.

The n steps take n**2 * m products together, and read nothing of the other triangle.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lowtide.builder.values import Op
from lowtide.ir import Instruction, Opcode
from lowtide.ir.attributes import TriangularSolve
from lowtide.passes.interface import Pass
from lowtide.passes.rewriting import Rewriter
from lowtide.transforms.expand.loops import (
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


@expander(Opcode.TRIANGULAR_SOLVE)
def triangular_solve(x: Instruction, at: Rewriter) -> Made:
    """triangular-solve(a, b) => for each row: x[i] = (b[i] - a[i] x) / a[i, i]"""
    how = x.attributes_as(TriangularSolve)
    a, b = [widened(at, y) for y in x.operands]
    if a.element_type is not b.element_type or not x.shape.element_count:
        return None
    lower = how.lower
    if how.transpose_a == "ADJOINT":
        a = conjugate(a)
    if (how.transpose_a != "NO_TRANSPOSE") == how.left_side:
        a, lower = transposed(a), not lower
    if not how.left_side:
        b = transposed(b)
    made = _substituted(a, b, lower=lower, unit=how.unit_diagonal)
    made = made if how.left_side else transposed(made)
    return narrowed(made, x.shape.element_type)


def _substituted(a: Op, b: Op, *, lower: bool, unit: bool) -> Op:
    """The solution of a x = b, of which only a triangle is looked at."""
    build = a.builder
    size = a.dimensions[-1]
    vertical, horizontal = index(a, a.rank - 2), index(a, a.rank - 1)
    is_known = horizontal.lt(vertical) if lower else horizontal.gt(vertical)
    zero = build.constant(0, a.element_type)
    rest = build.select(is_known, a, spread_to(zero, a.dimensions))
    carried = [spread_to(zero, b.dimensions), rest, b]
    if not unit:
        carried.append(_diagonal(a, vertical.eq(horizontal)))

    def step(number: Op, x: Op, rest: Op, b: Op, *diagonal: Op) -> Sequence[Op]:
        i = number if lower else (size - 1) - number
        found = row(b, i) - product(row(rest, i), x)
        if diagonal:
            found = found / x.builder.broadcast(
                _one_of(diagonal[0], i), found.dimensions, tuple(range(x.rank - 2))
            )
        x = x.builder.dynamic_update_slice(x, found, starts(x, i, x.rank - 2))
        return [x, rest, b, *diagonal]

    return counted(size, carried, step)[0]


def _diagonal(a: Op, is_diagonal: Op) -> Op:
    """The diagonals, shape [..., n]."""
    build = a.builder
    zero = build.constant(0, a.element_type)
    alone = build.select(is_diagonal, a, spread_to(zero, a.dimensions))
    add = build.scalar_computation(Opcode.ADD, a.element_type)
    return build.reduce(alone, zero, add, [a.rank - 1])


def _one_of(vectors: Op, number: Op) -> Op:
    """Element `number` of vectors, shape [...]."""
    build = vectors.builder
    sizes = vectors.dimensions[:-1]
    part = build.dynamic_slice(vectors, starts(vectors, number, vectors.rank - 1), [*sizes, 1])
    return build.reshape(part, sizes)


RULES: Final = (triangular_solve,)

PASSES: Final = (
    Pass(
        "expand-triangular-solve",
        expansion(RULES),
        "Writes triangular systems of equations as a loop that finds one row after the other.",
        before="""
HloModule m

ENTRY main {
  a = f32[3,3] parameter(0)
  b = f32[3,2] parameter(1)
  ROOT x = f32[3,2] triangular-solve(a, b), left_side=true, lower=true, unit_diagonal=true
}
""",
    ),
)
