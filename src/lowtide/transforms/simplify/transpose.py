"""Transposes: merged, dropped, moved behind elementwise work and before what makes less data."""

from __future__ import annotations

from lowtide.builder.values import Op
from lowtide.ir import Instruction, Opcode, array_shape
from lowtide.ir.attributes import Dimensions, Pad
from lowtide.passes.matching import are_plain, dimensions, has_one_user, is_plain, is_uniform
from lowtide.passes.rewriting import Rewriter
from lowtide.transforms.simplify.broadcast import ELEMENTWISE
from lowtide.transforms.simplify.shapes import (
    changes_unit_dimensions_only,
    inverse,
    is_ascending,
    is_scalar_broadcast,
    moves_units_only,
    transposed_places,
)
from lowtide.transforms.simplify.support import Made, again, arrays


@arrays(Opcode.TRANSPOSE)
def transpose_nothing(transpose: Instruction, at: Rewriter) -> Made:
    """transpose(x) => x, where the order of the dimensions stays"""
    return transpose.operands[0] if is_ascending(dimensions(transpose)) else None


@arrays(Opcode.TRANSPOSE, of=(Opcode.TRANSPOSE,))
def transpose_of_transpose(transpose: Instruction, at: Rewriter) -> Made:
    """transpose(transpose(x)) => transpose(x)"""
    inner = transpose.operands[0]
    if inner.opcode is not Opcode.TRANSPOSE or not are_plain(inner.operands[0]):
        return None
    first = dimensions(inner)
    return at.build.transpose(at(inner.operands[0]), [first[d] for d in dimensions(transpose)])


@arrays(Opcode.TRANSPOSE)
def transpose_of_units(transpose: Instruction, at: Rewriter) -> Made:
    """transpose(x) => reshape(x), where only dimensions of size 1 change places"""
    x = transpose.operands[0]
    if not moves_units_only(dimensions(transpose), x.shape.dimensions):
        return None
    return at.build.reshape(at(x), transpose.shape.dimensions)


@arrays(Opcode.TRANSPOSE, of=(Opcode.BROADCAST,))
def transpose_of_broadcast(transpose: Instruction, at: Rewriter) -> Made:
    """transpose(broadcast(x)) => broadcast(x)"""
    inner = transpose.operands[0]
    if inner.opcode is not Opcode.BROADCAST or not are_plain(inner.operands[0]):
        return None
    places = transposed_places(inner, dimensions(transpose))
    return at.build.broadcast(at(inner.operands[0]), transpose.shape.dimensions, places)


@arrays(Opcode.TRANSPOSE, of=(Opcode.RESHAPE,))
def transpose_of_added_units(transpose: Instruction, at: Rewriter) -> Made:
    """transpose(reshape(x)) => reshape(transpose(x)), where the reshape adds or drops sizes of 1"""
    inner = transpose.operands[0]
    if inner.opcode is not Opcode.RESHAPE or not are_plain(inner.operands[0]):
        return None
    old, new = inner.operands[0].shape.dimensions, inner.shape.dimensions
    if not changes_unit_dimensions_only(old, new):
        return None
    old_wide = [d for d, n in enumerate(old) if n != 1]
    new_wide = [d for d, n in enumerate(new) if n != 1]
    old_of = dict(zip(new_wide, old_wide, strict=True))
    moved = iter([old_of[d] for d in dimensions(transpose) if d in old_of])
    permutation = [next(moved) if d in old_wide else d for d in range(len(old))]
    early = at.build.transpose(at(inner.operands[0]), permutation)
    return at.build.reshape(early, transpose.shape.dimensions)


@arrays(Opcode.TRANSPOSE, of=(Opcode.CONVERT,))
def transpose_of_widened(transpose: Instruction, at: Rewriter) -> Made:
    """transpose(convert(x)) => convert(transpose(x)), where x has the narrower type"""
    inner = transpose.operands[0]
    if inner.opcode is not Opcode.CONVERT or not has_one_user(inner):
        return None
    x = inner.operands[0]
    if x.shape.element_type.bits >= inner.shape.element_type.bits or not is_plain(x.shape):
        return None
    early = at.build.transpose(at(x), dimensions(transpose))
    return at.build.convert(early, transpose.shape.element_type)


@arrays(Opcode.TRANSPOSE, of=(Opcode.PAD,))
def transpose_of_pad(transpose: Instruction, at: Rewriter) -> Made:
    """transpose(pad(x, v)) => pad(transpose(x), v), where the padding adds elements"""
    inner = transpose.operands[0]
    if inner.opcode is not Opcode.PAD or not has_one_user(inner):
        return None
    x, value = inner.operands
    if not is_uniform(inner) or x.shape.element_count > inner.shape.element_count:
        return None
    order = dimensions(transpose)
    padding = inner.attributes_as(Pad).dimensions
    early = at.build.transpose(at(x), order)
    return at.build.pad(early, at(value), [padding[d] for d in order])


@arrays(Opcode.TRANSPOSE, of=(Opcode.REVERSE,))
def transpose_of_reverse(transpose: Instruction, at: Rewriter) -> Made:
    """transpose(reverse(x)) => reverse(transpose(x))"""
    inner = transpose.operands[0]
    if inner.opcode is not Opcode.REVERSE or not has_one_user(inner):
        return None
    position = inverse(dimensions(transpose))
    early = at.build.transpose(at(inner.operands[0]), dimensions(transpose))
    return at.build.reverse(early, sorted([position[d] for d in dimensions(inner)]))


@arrays(Opcode.CONCATENATE)
def concatenate_of_transposes(concatenate: Instruction, at: Rewriter) -> Made:
    """concatenate(transpose(x), transpose(y)) => transpose(concatenate(x, y))"""
    operands = concatenate.operands
    order = _common_order(operands)
    if order is None or len(operands) < 2:
        return None
    along = order[dimensions(concatenate)[0]]
    early = at.build.concatenate([at(y.operands[0]) for y in operands], along)
    return at.build.transpose(early, order)


def _common_order(operands: tuple[Instruction, ...]) -> tuple[int, ...] | None:
    """Return the permutation of operands that are transposes, with one user each, or None."""
    first = operands[0]
    for y in operands:
        if y.opcode is not Opcode.TRANSPOSE or y.attributes != first.attributes:
            return None
        if not has_one_user(y) or not are_plain(y.operands[0]):
            return None
    return dimensions(first)


@arrays(*ELEMENTWISE, of=(Opcode.TRANSPOSE,))
def elementwise_of_transposes(x: Instruction, at: Rewriter) -> Made:
    """f(transpose(x), transpose(y)) => transpose(f(x, y)); broadcasts come along

    Not so for a conversion to a wider type, behind which more bytes would move.
    """
    large = [y for y in x.operands if y.shape.rank]
    moved = tuple([y for y in large if y.opcode is not Opcode.BROADCAST])
    if not moved:
        return None
    order = _common_order(moved)
    if order is None or any(not are_plain(y.operands[0]) for y in large):
        return None
    before = sum([y.shape.element_type.bits for y in dict.fromkeys(moved)])
    if x.shape.element_type.bits > before:
        return None
    sizes = moved[0].operands[0].shape.dimensions
    operands = [_before_transpose(at, y, order, sizes) for y in x.operands]
    shape = array_shape(x.shape.element_type, sizes)
    early = again(at, x, *operands, shape=shape)
    return at.build.transpose(early, order)


def _before_transpose(
    at: Rewriter, y: Instruction, order: tuple[int, ...], sizes: tuple[int, ...]
) -> Op:
    if not y.shape.rank:
        return at(y)
    if y.opcode is Opcode.TRANSPOSE:
        return at(y.operands[0])
    if is_scalar_broadcast(y):
        return at.build.broadcast(at(y.operands[0]), sizes, ())
    places = transposed_places(y, inverse(order))
    return at.build.emit(
        Opcode.BROADCAST,
        [at(y.operands[0])],
        Dimensions(places),
        shape=array_shape(y.shape.element_type, sizes),
    )
