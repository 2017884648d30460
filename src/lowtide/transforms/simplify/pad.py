"""Padding: merged, dropped, or said in other words."""

from __future__ import annotations

from typing import Final

from lowtide.ir import Instruction, Opcode
from lowtide.ir.attributes import Pad, PaddingDimension
from lowtide.passes.matching import (
    are_plain,
    dimensions,
    has_one_user,
    is_all,
    is_uniform,
    scalar_value,
)
from lowtide.passes.rewriting import Rewriter
from lowtide.transforms.simplify.shapes import changes_unit_dimensions_only, is_scalar_broadcast
from lowtide.transforms.simplify.slice import sliced
from lowtide.transforms.simplify.support import Made, arrays, exact_on_integers, spread

NO_PADDING: Final = PaddingDimension(0, 0)


def padding_of(pad: Instruction) -> tuple[PaddingDimension, ...]:
    """Return the padding of each dimension."""
    return pad.attributes_as(Pad).dimensions


def _same_value(a: Instruction, b: Instruction) -> bool:
    if a is b:
        return True
    x, y = scalar_value(a), scalar_value(b)
    if x is None or y is None or a.shape is not b.shape:
        return False
    return bool(x.tobytes() == y.tobytes())


@arrays(Opcode.PAD)
def pad_nothing(pad: Instruction, at: Rewriter) -> Made:
    """pad(x, v) => x, where nothing is added or removed"""
    x = pad.operands[0]
    if any(p != NO_PADDING for p in padding_of(pad)):
        return None
    return x if x.shape is pad.shape else None


@arrays(Opcode.PAD)
def pad_empty(pad: Instruction, at: Rewriter) -> Made:
    """pad(x, v) => broadcast(v), where x has no elements"""
    x, value = pad.operands
    return None if x.shape.element_count else spread(at, at(value), pad.shape)


@arrays(Opcode.PAD)
def pad_of_own_value(pad: Instruction, at: Rewriter) -> Made:
    """pad(broadcast(v), v) => broadcast(v)"""
    x, value = pad.operands
    if not is_scalar_broadcast(x) or not _same_value(x.operands[0], value):
        return None
    return spread(at, at(value), pad.shape)


@arrays(Opcode.PAD)
def pad_between_nothing(pad: Instruction, at: Rewriter) -> Made:
    """pad(x, v) => pad(x, v) without interior, along dimensions of size 1"""
    x, value = pad.operands
    plain = [
        PaddingDimension(p.low, p.high) if n <= 1 else p
        for p, n in zip(padding_of(pad), x.shape.dimensions, strict=True)
    ]
    return None if tuple(plain) == padding_of(pad) else at.build.pad(at(x), at(value), plain)


@arrays(Opcode.PAD)
def pad_of_pad(pad: Instruction, at: Rewriter) -> Made:
    """pad(pad(x, v), v) => pad(x, v), where neither removes elements"""
    inner, value = pad.operands
    if inner.opcode is not Opcode.PAD or not is_uniform(inner):
        return None
    if not _same_value(inner.operands[1], value):
        return None
    merged = []
    for outer, first in zip(padding_of(pad), padding_of(inner), strict=True):
        if min(outer.low, outer.high, first.low, first.high) < 0 or outer.interior:
            return None
        merged.append(
            PaddingDimension(first.low + outer.low, first.high + outer.high, first.interior)
        )
    return at.build.pad(at(inner.operands[0]), at(value), merged)


@arrays(Opcode.PAD)
def pad_that_cuts(pad: Instruction, at: Rewriter) -> Made:
    """pad(x, v) => pad(slice(x), v), where negative padding removes elements of x"""
    x, value = pad.operands
    padding = padding_of(pad)
    if all(p.low >= 0 and p.high >= 0 for p in padding) or any(p.interior for p in padding):
        return None
    ranges, left = [], []
    for p, n in zip(padding, x.shape.dimensions, strict=True):
        start, limit = max(-p.low, 0), n - max(-p.high, 0)
        if start > limit:
            return None
        ranges.append((start, limit, 1))
        left.append(PaddingDimension(max(p.low, 0), max(p.high, 0)))
    part = sliced(at, at(x), ranges)
    return part if all(p == NO_PADDING for p in left) else at.build.pad(part, at(value), left)


@arrays(Opcode.PAD)
def pad_of_added_units(pad: Instruction, at: Rewriter) -> Made:
    """pad(reshape(x), v) => reshape(pad(x, v)), where a reshape adds sizes of 1, not padded"""
    inner, value = pad.operands
    if inner.opcode is not Opcode.RESHAPE or not has_one_user(inner):
        return None
    x = inner.operands[0]
    old, new = x.shape.dimensions, inner.shape.dimensions
    if not are_plain(x) or not changes_unit_dimensions_only(old, new) or len(old) > len(new):
        return None
    padding = list(zip(padding_of(pad), new, strict=True))
    if any(p != NO_PADDING and n == 1 for p, n in padding):
        return None
    wide = iter([p for p, n in padding if n != 1])
    early = [next(wide) if n != 1 else NO_PADDING for n in old]
    return at.build.reshape(at.build.pad(at(x), at(value), early), pad.shape.dimensions)


@exact_on_integers(Opcode.ADD)
def add_of_pads(add: Instruction, at: Rewriter) -> Made:
    """pad(x, 0) + pad(y, 0) => concatenate(x, y), where they fill one dimension from both ends"""
    left, right = add.operands
    for x in (left, right):
        if x.opcode is not Opcode.PAD or not has_one_user(x) or not is_all(x.operands[1], 0):
            return None
    both = list(zip(padding_of(left), padding_of(right), strict=True))
    along = [d for d, (p, q) in enumerate(both) if (p, q) != (NO_PADDING, NO_PADDING)]
    if len(along) != 1:
        return None
    p, q = both[along[0]]
    first, second = (left, right) if not p.low else (right, left)
    low, high = (p, q) if not p.low else (q, p)
    x, y = first.operands[0], second.operands[0]
    sizes = (x.shape.dimensions[along[0]], y.shape.dimensions[along[0]])
    wanted = (PaddingDimension(0, sizes[1]), PaddingDimension(sizes[0], 0))
    if (low, high) != wanted:
        return None
    return at.build.concatenate([at(x), at(y)], along[0])


@arrays(Opcode.CONCATENATE)
def concatenate_with_repeated_scalar(concatenate: Instruction, at: Rewriter) -> Made:
    """concatenate(broadcast(v), x, broadcast(v)) => pad(x, v), with scalars at one or both ends"""
    operands = concatenate.operands
    splats = [x for x in operands if is_scalar_broadcast(x)]
    others = [x for x in operands if not is_scalar_broadcast(x)]
    if not splats or len(others) != 1:
        return None
    value = splats[0].operands[0]
    if any(not _same_value(x.operands[0], value) for x in splats):
        return None
    along, middle = dimensions(concatenate)[0], operands.index(others[0])
    low, high = (
        sum([x.shape.dimensions[along] for x in part])
        for part in (operands[:middle], operands[middle + 1 :])
    )
    padding = [NO_PADDING] * concatenate.shape.rank
    padding[along] = PaddingDimension(low, high)
    return at.build.pad(at(others[0]), at(value), padding)
