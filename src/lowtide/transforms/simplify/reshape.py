"""Reshapes: merged, dropped, moved to the operands of broadcasts and behind elementwise work."""

from __future__ import annotations

from lowtide.builder.values import Op
from lowtide.ir import Instruction, Opcode, array_shape
from lowtide.passes.matching import are_plain, dimensions, has_one_user, is_plain
from lowtide.passes.rewriting import Rewriter
from lowtide.transforms.simplify.broadcast import ELEMENTWISE
from lowtide.transforms.simplify.shapes import (
    changes_unit_dimensions_only,
    is_scalar_broadcast,
    moves_units_only,
    reshaped_broadcast,
)
from lowtide.transforms.simplify.support import Made, again, arrays


@arrays(Opcode.RESHAPE)
def reshape_nothing(reshape: Instruction, at: Rewriter) -> Made:
    """reshape(x) => x, where the sizes stay"""
    x = reshape.operands[0]
    return x if x.shape is reshape.shape else None


@arrays(Opcode.RESHAPE, of=(Opcode.RESHAPE,))
def reshape_of_reshape(reshape: Instruction, at: Rewriter) -> Made:
    """reshape(reshape(x)) => reshape(x)"""
    inner = reshape.operands[0]
    if inner.opcode is not Opcode.RESHAPE or not are_plain(inner.operands[0]):
        return None
    return at.build.reshape(at(inner.operands[0]), reshape.shape.dimensions)


@arrays(Opcode.RESHAPE)
def reshape_of_scalar(reshape: Instruction, at: Rewriter) -> Made:
    """reshape(x) => broadcast(x), where x is a scalar"""
    x = reshape.operands[0]
    return None if x.shape.rank else at.build.broadcast(at(x), reshape.shape.dimensions, ())


@arrays(Opcode.RESHAPE, of=(Opcode.BROADCAST,))
def reshape_of_broadcast(reshape: Instruction, at: Rewriter) -> Made:
    """reshape(broadcast(x)) => broadcast(reshape(x)), where repeated dimensions stay apart"""
    inner = reshape.operands[0]
    if inner.opcode is not Opcode.BROADCAST or not are_plain(inner.operands[0]):
        return None
    return _as_broadcast(at, inner, reshape.shape.dimensions)


def _as_broadcast(at: Rewriter, broadcast: Instruction, sizes: tuple[int, ...]) -> Op | None:
    """Return a broadcast, reshaped to `sizes`, as a broadcast of its operand reshaped."""
    found = reshaped_broadcast(broadcast, sizes)
    if found is None:
        return None
    source, places = found
    x = at(broadcast.operands[0])
    if x.dimensions != source:
        x = at.build.reshape(x, source)
    return x if source == sizes else at.build.broadcast(x, sizes, places)


@arrays(Opcode.RESHAPE)
def reshape_of_moved_units(reshape: Instruction, at: Rewriter) -> Made:
    """reshape(transpose(x)) => reshape(x), where only dimensions of size 1 change places"""
    inner = reshape.operands[0]
    if inner.opcode is not Opcode.TRANSPOSE:
        return None
    x = inner.operands[0]
    if not is_plain(x.shape) or not moves_units_only(dimensions(inner), x.shape.dimensions):
        return None
    return at.build.reshape(at(x), reshape.shape.dimensions)


@arrays(Opcode.RESHAPE)
def reshape_of_dropped_units(reshape: Instruction, at: Rewriter) -> Made:
    """reshape(reverse(x)) => reverse(reshape(x)), where only dimensions of size 1 come or go"""
    inner = reshape.operands[0]
    if inner.opcode is not Opcode.REVERSE or not has_one_user(inner):
        return None
    old, new = inner.shape.dimensions, reshape.shape.dimensions
    if not changes_unit_dimensions_only(old, new):
        return None
    old_wide = [d for d, n in enumerate(old) if n != 1]
    new_wide = [d for d, n in enumerate(new) if n != 1]
    reversed_ = [j for i, j in zip(old_wide, new_wide, strict=True) if i in dimensions(inner)]
    return at.build.reverse(at.build.reshape(at(inner.operands[0]), new), reversed_)


@arrays(*ELEMENTWISE, of=(Opcode.RESHAPE,))
def elementwise_of_reshapes(x: Instruction, at: Rewriter) -> Made:
    """f(reshape(x), reshape(y)) => reshape(f(x, y)); broadcasts of scalars and rows come along"""
    large = [y for y in x.operands if y.shape.rank]
    reshapes = [y for y in large if y.opcode is Opcode.RESHAPE]
    if not reshapes:
        return None
    sizes = reshapes[0].operands[0].shape.dimensions
    if not all(_may_come_along(y, sizes) for y in large):
        return None
    operands = [_before_reshape(at, y, sizes) for y in x.operands]
    shape = array_shape(x.shape.element_type, sizes)
    early = again(at, x, *operands, shape=shape)
    return at.build.reshape(early, x.shape.dimensions)


def _may_come_along(y: Instruction, sizes: tuple[int, ...]) -> bool:
    """Whether an operand has the same elements in the sizes before a reshape."""
    if y.opcode is Opcode.BROADCAST:
        return is_scalar_broadcast(y) or _keeps_operand(y, sizes)
    if y.opcode is not Opcode.RESHAPE or not has_one_user(y):
        return False
    return are_plain(y.operands[0]) and y.operands[0].shape.dimensions == sizes


def _keeps_operand(broadcast: Instruction, sizes: tuple[int, ...]) -> bool:
    """Whether a broadcast to other sizes is one of the same operand."""
    found = reshaped_broadcast(broadcast, sizes)
    return found is not None and found[0] == broadcast.operands[0].shape.dimensions


def _before_reshape(at: Rewriter, y: Instruction, sizes: tuple[int, ...]) -> Op:
    if not y.shape.rank:
        return at(y)
    if y.opcode is Opcode.RESHAPE:
        return at(y.operands[0])
    if is_scalar_broadcast(y):
        return at.build.broadcast(at(y.operands[0]), sizes, ()) if sizes else at(y.operands[0])
    made = _as_broadcast(at, y, sizes)
    assert made is not None, "checked by _keeps_operand"
    return made
