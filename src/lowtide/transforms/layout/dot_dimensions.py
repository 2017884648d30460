"""Dots that read a transposed array as it lies, where a reshape merged dimensions to contract.

A transpose next to a dot becomes part of it; a transpose behind a reshape is an array of its own.
So the dot contracts the dimensions that were merged. The other operand is reshaped; that only
splits a dimension, so it moves no byte. Dimensions of the result stay merged: a reshape behind the
dot would keep what reads it from being computed there. The transpose of a product stays: the
product is written in that order, and one dimension to contract is read faster than two.

Before: dot(reshape(transpose(x)), y)
After:  dot(transpose(x), reshape(y))
"""

from __future__ import annotations

from typing import Final

from lowtide.builder.values import Op
from lowtide.ir import Instruction, Module, Opcode
from lowtide.ir.attributes import Dot, DotDimensions
from lowtide.ops.dot_roles import dot_roles
from lowtide.passes.interface import Pass, example
from lowtide.passes.matching import has_one_user, is_plain
from lowtide.passes.rewriting import Rewriter, rewrite
from lowtide.records import dataclass
from lowtide.transforms.simplify.shapes import groups_of, without_units
from lowtide.transforms.simplify.support import Made, arrays

Parts = list[list[int]]
"""For each dimension of an operand the sizes of those that it was merged of."""


def split_dot_dimensions(module: Module) -> int:
    """Let dots read transposed arrays without the reshapes between; return how many rewrites."""
    return sum(rewrite(module, (dot_of_merged_dimensions,)).values())


@arrays(Opcode.DOT)
def dot_of_merged_dimensions(dot: Instruction, at: Rewriter) -> Made:
    """Return the dot of the transpose; None where no operand is a transpose reshaped."""
    for i, x in enumerate(dot.operands):
        parts = _merged(x)
        if parts is not None and _are_contracted(dot, i, parts):
            return _split(at, dot, i, parts)
    return None


def _merged(reshape: Instruction) -> Parts | None:
    """Return of what a reshape of a transpose merges its dimensions, None if it does not."""
    if reshape.opcode is not Opcode.RESHAPE or reshape.is_root:
        return None
    source = reshape.operands[0]
    if source.opcode is not Opcode.TRANSPOSE or not is_plain(source.shape):
        return None
    if not has_one_user(source) or any(x.opcode is not Opcode.DOT for x in reshape.users):
        return None
    if _is_written_by_dot(source):
        return None
    old, new = source.shape.dimensions, reshape.shape.dimensions
    parts: Parts = [[size] for size in new]
    merges = False
    for before, after in groups_of(old, new) or ():
        wide = without_units(tuple([old[d] for d in before]))
        kept = [d for d in after if new[d] != 1]
        if len(wide) > 1 and len(kept) == 1:
            parts[kept[0]] = list(wide)
            merges = True
        elif len(wide) != len(kept):
            return None
    return parts if merges else None


def _is_written_by_dot(transpose: Instruction) -> bool:
    """Whether the operand is a product: that can write its result transposed, at no cost."""
    x = transpose.operands[0]
    while x.opcode is Opcode.RESHAPE and has_one_user(x):
        x = x.operands[0]
    return x.opcode is Opcode.DOT and has_one_user(x)


def _are_contracted(dot: Instruction, i: int, parts: Parts) -> bool:
    contracting = dot_roles(dot)[i].contracted
    return all(len(part) == 1 or d in contracting for d, part in enumerate(parts))


@dataclass(frozen=True, slots=True)
class _Operand:
    """An operand with finer dimensions: the value, and which each dimension became."""

    value: Op
    places: list[list[int]]

    def all(self, dimensions: tuple[int, ...]) -> tuple[int, ...]:
        return tuple([place for d in dimensions for place in self.places[d]])


def _finer(at: Rewriter, x: Instruction, parts: Parts) -> _Operand:
    sizes = [size for part in parts for size in part]
    source = x
    while source.opcode is Opcode.RESHAPE and is_plain(source.operands[0].shape):
        source = source.operands[0]
    value = at(source)
    if list(value.dimensions) != sizes:
        value = at.build.reshape(value, sizes)
    places, first = [], 0
    for part in parts:
        places.append(list(range(first, first + len(part))))
        first += len(part)
    return _Operand(value, places)


def _split(at: Rewriter, dot: Instruction, i: int, parts: Parts) -> Op:
    """Return the dot whose operand `i` has each dimension in parts."""
    how = dot.attributes_as(Dot)
    n = how.dimensions
    pairs = (
        *zip(n.lhs_batch, n.rhs_batch, strict=True),
        *zip(n.lhs_contracting, n.rhs_contracting, strict=True),
    )
    other = dot.operands[1 - i]
    other_parts: Parts = [[size] for size in other.shape.dimensions]
    for pair in pairs:
        other_parts[pair[1 - i]] = parts[pair[i]]
    both = [_finer(at, dot.operands[i], parts), _finer(at, other, other_parts)]
    lhs, rhs = both if i == 0 else both[::-1]
    numbers = DotDimensions(
        lhs.all(n.lhs_contracting),
        rhs.all(n.rhs_contracting),
        lhs.all(n.lhs_batch),
        rhs.all(n.rhs_batch),
    )
    return at.build.dot(lhs.value, rhs.value, numbers, how.precision, dot.shape.element_type)


PASSES: Final = (
    Pass(
        "dot-dimension-splitter",
        split_dot_dimensions,
        "Lets dots read transposed arrays directly, not behind a reshape that merges dimensions.",
        *example(
            """
HloModule m

ENTRY main {
  x = f32[2,4,8,16] parameter(0)
+ heads = f32[2,8,4,16] transpose(x), dimensions={0,2,1,3}
  y = f32[64,32] parameter(1)
- heads = f32[2,8,4,16] transpose(x), dimensions={0,2,1,3}
- joined = f32[2,8,64] reshape(heads)
- ROOT d = f32[2,8,32] dot(joined, y), lhs_contracting_dims={2}, rhs_contracting_dims={0}
+ reshape = f32[4,16,32] reshape(y)
+ ROOT dot = f32[2,8,32] dot(heads, reshape), lhs_contracting_dims={2,3}, rhs_contracting_dims={0,1}
}
"""
        ),
    ),
)
