"""Arguments and results of library calls: a call of other shapes is not what its name says.

Matrices are [..., m, n] with any batch, all of one element type; `info` is s32, one per matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from lowtide.ir import ElementType, Instruction, Shape
from lowtide.ops.custom_call import call_options

Leaf: TypeAlias = tuple[ElementType, tuple[int, ...]]
"""Element type and dimensions of an array; where it lies does not matter."""

Fits: TypeAlias = Callable[[Instruction, ElementType, Sequence[Leaf], Sequence[Leaf]], bool]
"""Whether the operands and the results of a call are what a routine for an element type has."""

_INTEGER = ElementType.S32


def leaf(shape: Shape) -> Leaf:
    """Return the element type and the dimensions of an array."""
    return shape.element_type, shape.dimensions


def top_k(
    x: Instruction, kind: ElementType, operands: Sequence[Leaf], results: Sequence[Leaf]
) -> bool:
    """[..., n] => ([..., k] of any type, their places)"""
    match operands, results:
        case [(t, (*batch, n))], [(u, (*_, k)), _]:
            places = (_INTEGER, (*batch, k))
            return k <= n and t is u and list(results) == [(t, (*batch, k)), places]
    return False


def potrf(
    x: Instruction, kind: ElementType, operands: Sequence[Leaf], results: Sequence[Leaf]
) -> bool:
    """[..., n, n] => (factor, info)"""
    match operands:
        case [(t, (*batch, m, n))]:
            return t is kind and m == n and [*results] == [operands[0], (_INTEGER, (*batch,))]
    return False


def trsm(
    x: Instruction, kind: ElementType, operands: Sequence[Leaf], results: Sequence[Leaf]
) -> bool:
    """[..., n, n], [..., n, k], or [..., k, n] on the right => the solution"""
    match operands:
        case [(t, (*batch, m, n)), (u, (*others, p, q))]:
            size = p if call_options(x).get("side") == "L" else q
            same = t is u is kind and batch == others and m == n == size
            return same and [*results] == [operands[1]]
    return False


def getrf(
    x: Instruction, kind: ElementType, operands: Sequence[Leaf], results: Sequence[Leaf]
) -> bool:
    """[..., m, n] => (L and U, pivots, info)"""
    match operands:
        case [(t, (*batch, m, n))]:
            pivots, info = (_INTEGER, (*batch, min(m, n))), (_INTEGER, (*batch,))
            return t is kind and [*results] == [operands[0], pivots, info]
    return False


def geqrf(
    x: Instruction, kind: ElementType, operands: Sequence[Leaf], results: Sequence[Leaf]
) -> bool:
    """[..., m, n] => (R and reflectors, their factors)"""
    match operands:
        case [(t, (*batch, m, n))]:
            return t is kind and [*results] == [operands[0], (t, (*batch, min(m, n)))]
    return False


def orgqr(
    x: Instruction, kind: ElementType, operands: Sequence[Leaf], results: Sequence[Leaf]
) -> bool:
    """[..., m, n] with reflectors, their factors [..., k] => Q"""
    match operands:
        case [(t, (*batch, m, n)), (u, (*others, k))]:
            same = t is u is kind and batch == others and k <= n <= m
            return same and [*results] == [operands[0]]
    return False


def eigh(operand: Shape, results: Sequence[Leaf]) -> bool:
    """[..., n, n] => (vectors, values [..., n], real)"""
    if not operand.is_array or operand.rank < 2:
        return False
    kind, (*batch, m, n) = operand.element_type, operand.dimensions
    return m == n and [*results] == [leaf(operand), (kind.part, (*batch, n))]


def ormqr(
    x: Instruction, kind: ElementType, operands: Sequence[Leaf], results: Sequence[Leaf]
) -> bool:
    """[..., r, n] with reflectors, their factors [..., k], target [..., p, q] => the product"""
    match operands:
        case [(t, (*batch, r, n)), (u, (*others, k)), (v, (*targets, p, q))]:
            size = p if call_options(x).get("left") == "true" else q
            same = t is u is v is kind and batch == others == targets
            return same and r == size and k <= min(n, r) and [*results] == [operands[2]]
    return False


def tridiagonal(
    x: Instruction, kind: ElementType, operands: Sequence[Leaf], results: Sequence[Leaf]
) -> bool:
    """Three diagonals [..., n] and [..., n, k], of any type of floats => [..., n, k]"""
    match operands:
        case [below, (t, (*batch, n)) as main, above, (u, (*others, m, _)) as right]:
            floats = t.is_complex or t.is_floating
            same = below == main == above and t is u and batch == others and m == n
            return floats and same and list(results) == [right]
    return False
