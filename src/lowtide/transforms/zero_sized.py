"""Arrays without elements: nothing has to be computed for them, and nothing comes of them."""

from __future__ import annotations

from math import prod
from typing import Final, TypeAlias

from lowtide.builder.values import Op
from lowtide.ir import Instruction, Module, Opcode
from lowtide.ir.attributes import Constant, Dimensions
from lowtide.ir.literal import zero_literal
from lowtide.ops.effects import has_side_effect
from lowtide.passes.interface import Pass, example
from lowtide.passes.matching import is_plain
from lowtide.passes.rewriting import Rewriter, Rule, rewrite, rule

_Made: TypeAlias = "Instruction | Op | None"

_KEPT: Final = frozenset({Opcode.CONSTANT, Opcode.OPTIMIZATION_BARRIER, Opcode.PARAMETER})

_MOST_ROWS: Final = 1024
"""A constant has a pair of braces for each row, though there is nothing in them."""


def remove_zero_sized(module: Module) -> int:
    """Make constants of arrays without elements, and drop them from what reads them.

    Returns how many changes were made. Parameters and what has side effects stay, and so do arrays
    of bounded dynamic size, which may have elements or not.
    """
    return rewrite(module, _RULES).total()


def _has_no_elements(x: Instruction) -> bool:
    shape = x.shape
    return shape.is_array and not shape.is_dynamic and 0 in shape.dimensions


def _empty(x: Instruction, at: Rewriter) -> _Made:
    """Make a constant of an array without elements, or a broadcast where its text would be long."""
    if not _has_no_elements(x) or has_side_effect(x):
        return None
    sizes = x.shape.dimensions
    if prod(sizes[: sizes.index(0)]) > _MOST_ROWS:
        if x.opcode is Opcode.BROADCAST and x.operands[0].opcode is Opcode.CONSTANT:
            return None
        zero = at.build.constant(0, x.shape.element_type)
        return at.build.emit(Opcode.BROADCAST, [zero], Dimensions(()), shape=x.shape)
    literal = zero_literal(x.shape)
    return at.build.emit(Opcode.CONSTANT, (), Constant(literal), shape=x.shape)


@rule(Opcode.PAD)
def _pad_nothing(x: Instruction, at: Rewriter) -> _Made:
    """pad(x, v) => broadcast(v), where x has no elements."""
    operand, value = x.operands
    return _spread(value, x, at) if _has_no_elements(operand) else None


@rule(Opcode.REDUCE)
def _reduce_nothing(x: Instruction, at: Rewriter) -> _Made:
    """reduce(x, v) => broadcast(v), where x has no elements."""
    if len(x.operands) != 2 or not _has_no_elements(x.operands[0]):
        return None
    return _spread(x.operands[1], x, at)


def _spread(value: Instruction, like: Instruction, at: Rewriter) -> _Made:
    if not is_plain(like.shape) or value.shape.element_type is not like.shape.element_type:
        return None
    if not like.shape.rank:
        return value if value.shape is like.shape else None
    return at.build.broadcast(at(value), like.shape.dimensions, ())


@rule(Opcode.CONVOLUTION, Opcode.DOT)
def _product_of_nothing(x: Instruction, at: Rewriter) -> _Made:
    """dot(x, y) => 0, where there is nothing to add up."""
    if not any(_has_no_elements(y) for y in x.operands) or not is_plain(x.shape):
        return None
    literal = zero_literal(x.shape.with_element_type(x.shape.element_type))
    scalar = at.build.constant(literal.array.dtype.type(0), x.shape.element_type)
    return at.build.broadcast(scalar, x.shape.dimensions, ()) if x.shape.rank else scalar


@rule(Opcode.DYNAMIC_UPDATE_SLICE)
def _update_with_nothing(x: Instruction, at: Rewriter) -> _Made:
    """dynamic-update-slice(x, u, i) => x, where u has no elements."""
    operand, update = x.operands[:2]
    return operand if _has_no_elements(update) and operand.shape is x.shape else None


@rule(Opcode.CONCATENATE)
def _join_nothing(x: Instruction, at: Rewriter) -> _Made:
    """concatenate(x, y, z) => concatenate(x, z), where y has no elements."""
    kept = [y for y in x.operands if not _has_no_elements(y)]
    if not kept or len(kept) == len(x.operands):
        return None
    if len(kept) == 1:
        return kept[0] if kept[0].shape is x.shape else None
    return at.build.emit(x.opcode, [at(y) for y in kept], x.attributes, shape=x.shape)


_RULES: Final = (
    Rule("empty", tuple([opcode for opcode in Opcode if opcode not in _KEPT]), _empty),
    _pad_nothing,
    _reduce_nothing,
    _product_of_nothing,
    _update_with_nothing,
    _join_nothing,
)

PASSES: Final = (
    Pass(
        "zero-sized",
        remove_zero_sized,
        "Makes constants of arrays without elements and drops them from what reads them.",
        *example(
            """
HloModule m

ENTRY main {
  x = f32[0,3] parameter(0)
- y = f32[2,3] parameter(1)
- e = f32[0,3] exponential(x)
- ROOT z = f32[2,3] concatenate(e, y), dimensions={0}
+ ROOT y = f32[2,3] parameter(1)
}
"""
        ),
    ),
)
