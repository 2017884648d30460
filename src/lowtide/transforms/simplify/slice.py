"""Slices: merged, dropped, and moved to the operands of what they read."""

from __future__ import annotations

from typing import Final

from lowtide.builder.values import Op
from lowtide.ir import Instruction, Opcode, array_shape
from lowtide.ir.attributes import Pad, PaddingDimension, Slice
from lowtide.ops.dot_roles import dot_roles
from lowtide.passes.matching import are_plain, dimensions, has_one_user, is_uniform, scalar_value
from lowtide.passes.rewriting import Rewriter
from lowtide.transforms.simplify.broadcast import ELEMENTWISE
from lowtide.transforms.simplify.shapes import changes_unit_dimensions_only
from lowtide.transforms.simplify.support import INTEGERS, Made, again, arrays, splat, spread

_ELEMENTWISE: Final = frozenset(ELEMENTWISE)

Range = tuple[int, int, int]
"""Start, limit and stride along one dimension."""


def ranges_of(slice_: Instruction) -> list[Range]:
    """Return what a slice reads along each dimension."""
    how = slice_.attributes_as(Slice)
    return list(zip(how.starts, how.limits, how.strides, strict=True))


def sliced(at: Rewriter, x: Op, ranges: list[Range]) -> Op:
    """Return a slice of x, which may be all of it."""
    if all(r == (0, n, 1) for r, n in zip(ranges, x.dimensions, strict=True)):
        return x
    starts, limits, strides = zip(*ranges, strict=True)
    return at.build.slice(x, starts, limits, strides)


def _length(part: Range) -> int:
    start, limit, stride = part
    return -(-(limit - start) // stride)


@arrays(Opcode.SLICE)
def slice_everything(slice_: Instruction, at: Rewriter) -> Made:
    """slice(x) => x, where nothing is left out"""
    x = slice_.operands[0]
    return x if x.shape is slice_.shape else None


@arrays(Opcode.SLICE)
def slice_of_slice(slice_: Instruction, at: Rewriter) -> Made:
    """slice(slice(x)) => slice(x)"""
    inner = slice_.operands[0]
    if inner.opcode is not Opcode.SLICE or not are_plain(inner.operands[0]):
        return None
    merged = []
    for outer, (first, _, step) in zip(ranges_of(slice_), ranges_of(inner), strict=True):
        start, _, stride = outer
        count = _length(outer)
        begin = first + start * step if count else 0
        end = begin + (count - 1) * step * stride + 1 if count else 0
        merged.append((begin, end, step * stride if count > 1 else 1))
    return sliced(at, at(inner.operands[0]), merged)


@arrays(Opcode.SLICE)
def slice_of_broadcast(slice_: Instruction, at: Rewriter) -> Made:
    """slice(broadcast(x)) => broadcast(slice(x))"""
    inner = slice_.operands[0]
    if inner.opcode is not Opcode.BROADCAST or not are_plain(inner.operands[0]):
        return None
    ranges, places = ranges_of(slice_), dimensions(inner)
    part = sliced(at, at(inner.operands[0]), [ranges[d] for d in places])
    return at.build.broadcast(part, slice_.shape.dimensions, places)


@arrays(Opcode.SLICE)
def slice_of_iota(slice_: Instruction, at: Rewriter) -> Made:
    """slice(iota) => iota * stride + start"""
    iota = slice_.operands[0]
    if iota.opcode is not Opcode.IOTA or iota.shape.rank != 1:
        return None
    start, _, stride = ranges_of(slice_)[0]
    if (start, stride) != (0, 1) and iota.shape.element_type not in INTEGERS:
        return None
    result = at.build.iota(slice_.shape)
    if stride != 1:
        result = result * splat(at, stride, slice_.shape)
    return result + splat(at, start, slice_.shape) if start else result


@arrays(Opcode.SLICE)
def slice_of_concatenate(slice_: Instruction, at: Rewriter) -> Made:
    """slice(concatenate(x, y)) => slice(x), or of fewer operands"""
    inner = slice_.operands[0]
    if inner.opcode is not Opcode.CONCATENATE or not is_uniform(inner):
        return None
    along = dimensions(inner)[0]
    ranges = ranges_of(slice_)
    start, limit, stride = ranges[along]
    kept, begin, offset = [], 0, 0
    for operand in inner.operands:
        end = begin + operand.shape.dimensions[along]
        if end <= start:
            offset = end
        elif begin < limit:
            kept.append(operand)
        begin = end
    if not kept or len(kept) == len(inner.operands):
        return None
    if len(kept) > 1 and not has_one_user(inner):
        return None
    parts = [at(x) for x in kept]
    joined = parts[0] if len(parts) == 1 else at.build.concatenate(parts, along)
    ranges[along] = (start - offset, limit - offset, stride)
    return sliced(at, joined, ranges)


@arrays(Opcode.SLICE)
def slice_of_pad(slice_: Instruction, at: Rewriter) -> Made:
    """slice(pad(x, v)) => pad(slice(x), v), without what is cut off; perhaps no padding is left"""
    inner = slice_.operands[0]
    if inner.opcode is not Opcode.PAD or not is_uniform(inner):
        return None
    x, value = inner.operands
    ranges, padding = [], []
    all_parts = zip(
        ranges_of(slice_), inner.attributes_as(Pad).dimensions, x.shape.dimensions, strict=True
    )
    for part, pad, size in all_parts:
        found = _cut(part, pad, size)
        if found is None:
            return None
        ranges.append(found[0])
        padding.append(found[1])
    if any(start == limit for start, limit, _ in ranges):
        return spread(at, at(value), slice_.shape)
    if all((p.low, p.high) == (0, 0) for p in padding):
        return sliced(at, at(x), ranges)
    if not has_one_user(inner):
        return None
    return at.build.pad(sliced(at, at(x), ranges), at(value), padding)


def _cut(part: Range, pad: PaddingDimension, size: int) -> tuple[Range, PaddingDimension] | None:
    """Return the range of the operand and the padding left of a range of what was padded."""
    start, limit, stride = part
    if pad == PaddingDimension(0, 0):
        return part, pad
    if stride != 1 or pad.interior or pad.low < 0 or pad.high < 0:
        return None
    begin = min(max(start - pad.low, 0), size)
    end = max(min(limit - pad.low, size), begin)
    low = min(max(pad.low - start, 0), limit - start)
    return (begin, end, 1), PaddingDimension(low, limit - start - low - (end - begin))


@arrays(Opcode.SLICE)
def slice_of_reshape(slice_: Instruction, at: Rewriter) -> Made:
    """slice(reshape(x)) => reshape(slice(x)), where only dimensions of size 1 come or go"""
    inner = slice_.operands[0]
    if inner.opcode is not Opcode.RESHAPE or not are_plain(inner.operands[0]):
        return None
    x = inner.operands[0]
    old, new = x.shape.dimensions, inner.shape.dimensions
    if 0 in slice_.shape.dimensions or not changes_unit_dimensions_only(old, new):
        return None
    wide = iter([r for r, n in zip(ranges_of(slice_), new, strict=True) if n != 1])
    ranges = [next(wide) if n != 1 else (0, 1, 1) for n in old]
    return at.build.reshape(sliced(at, at(x), ranges), slice_.shape.dimensions)


@arrays(Opcode.SLICE)
def slice_of_transpose(slice_: Instruction, at: Rewriter) -> Made:
    """slice(transpose(x)) => transpose(slice(x)), where the transpose has no other reader"""
    inner = slice_.operands[0]
    if inner.opcode is not Opcode.TRANSPOSE or not has_one_user(inner):
        return None
    order = dimensions(inner)
    ranges = ranges_of(slice_)
    early = [ranges[order.index(d)] for d in range(len(order))]
    return at.build.transpose(sliced(at, at(inner.operands[0]), early), order)


@arrays(Opcode.SLICE)
def slice_of_reverse(slice_: Instruction, at: Rewriter) -> Made:
    """slice(reverse(x)) => reverse(slice(x)), where the reverse has no other reader"""
    inner = slice_.operands[0]
    if inner.opcode is not Opcode.REVERSE or not has_one_user(inner):
        return None
    ranges = ranges_of(slice_)
    if 0 in slice_.shape.dimensions:
        return None
    for d in dimensions(inner):
        start, _, stride = ranges[d]
        last = start + (_length(ranges[d]) - 1) * stride
        size = inner.shape.dimensions[d]
        ranges[d] = (size - 1 - last, size - start, stride)
    return at.build.reverse(sliced(at, at(inner.operands[0]), ranges), dimensions(inner))


@arrays(Opcode.SLICE)
def slice_of_update(slice_: Instruction, at: Rewriter) -> Made:
    """slice(dynamic-update-slice(x, u, c)) => slice(x) or slice(u), at constant places"""
    ranges = ranges_of(slice_)
    found = slice_.operands[0]
    for _ in range(_MOST_PASSED):
        begins = _begins(found)
        if begins is None:
            break
        x, update, *_ = found.operands
        pairs = list(zip(begins, update.shape.dimensions, ranges, strict=True))
        if all(begin <= start and limit <= begin + n for begin, n, (start, limit, _) in pairs):
            shifted = [
                (first - begin, last - begin, step) for begin, _, (first, last, step) in pairs
            ]
            return sliced(at, at(update), shifted)
        if not any(limit <= begin or begin + n <= start for begin, n, (start, limit, _) in pairs):
            break
        found = x
    else:
        return None
    return None if found is slice_.operands[0] else sliced(at, at(found), ranges)


_MOST_PASSED: Final = 64
"""Updates of other places that one looks behind; more are left, which keeps chains linear."""


def _begins(update: Instruction) -> list[int] | None:
    """Where a dynamic-update-slice writes along each dimension; None where that is not known."""
    if update.opcode is not Opcode.DYNAMIC_UPDATE_SLICE or not is_uniform(update):
        return None
    x, part, *starts = update.operands
    values = [scalar_value(start) for start in starts]
    known = [int(value) for value in values if value is not None]
    if len(known) != x.shape.rank or not known:
        return None
    sizes = zip(known, x.shape.dimensions, part.shape.dimensions, strict=True)
    return [min(max(value, 0), whole - size) for value, whole, size in sizes]


@arrays(Opcode.SLICE)
def slice_of_elementwise(slice_: Instruction, at: Rewriter) -> Made:
    """slice(f(x)) => f(slice(x)), where all readers of f need only parts of it"""
    inner = slice_.operands[0]
    if inner.opcode not in _ELEMENTWISE or not is_uniform(inner):
        return None
    if not reads_less(inner):
        return None
    ranges = ranges_of(slice_)
    parts = [sliced(at, at(y), ranges) if y.shape.rank else at(y) for y in inner.operands]
    return again(at, inner, *parts, shape=slice_.shape)


_PARTS: Final = frozenset({Opcode.DYNAMIC_SLICE, Opcode.GATHER, Opcode.SLICE})
_MADE_ANYWHERE: Final = frozenset({Opcode.BROADCAST, Opcode.CONSTANT, Opcode.IOTA})


def reads_less(producer: Instruction) -> bool:
    """Whether parts of the operand are less than what an elementwise operation makes of it.

    So it is where all that read the result, a few, are slices, dynamic slices or gathers of less,
    and there is one operand; repeated scalars and the like do not count. With several operands
    each part would be taken as often, and more so with each further operation.
    """
    if producer.is_root or len(producer.users) > 4:
        return False
    elements = 0
    for user in producer.users:
        if user.opcode not in _PARTS or producer in user.operands[1:]:
            return False
        elements += user.shape.element_count
    made = producer.shape.element_count
    own = producer.shape.element_type.bits
    return elements < made and 0 < elements * bits_read(producer) <= made * own


def bits_read(producer: Instruction) -> int:
    """Return the bits of an element of the one operand that is not made anywhere; 0 if not one."""
    widths = [
        y.shape.element_type.bits
        for y in dict.fromkeys(producer.operands)
        if y.shape.rank and y.opcode not in _MADE_ANYWHERE
    ]
    return widths[0] if len(widths) == 1 else 0


@arrays(Opcode.SLICE)
def slice_of_dot(slice_: Instruction, at: Rewriter) -> Made:
    """slice(dot(x, y)) => dot(slice(x), slice(y)), where the slices are smaller than the dot"""
    inner = slice_.operands[0]
    if inner.opcode is not Opcode.DOT or not has_one_user(inner) or not is_uniform(inner):
        return None
    results = ranges_of(slice_)
    ranges = []
    for x, roles in zip(inner.operands, dot_roles(inner), strict=True):
        rows = zip(x.shape.dimensions, roles.places, strict=True)
        ranges.append([results[place] if place >= 0 else (0, n, 1) for n, place in rows])
    if 0 in slice_.shape.dimensions or _sliced_bytes(inner.operands, ranges) > inner.shape.nbytes:
        return None
    parts = [sliced(at, at(x), r) for x, r in zip(inner.operands, ranges, strict=True)]
    return again(at, inner, *parts, shape=slice_.shape)


def _sliced_bytes(operands: tuple[Instruction, ...], ranges: list[list[Range]]) -> int:
    """Return the bytes of those slices that are not whole arrays."""
    total = 0
    for x, own in zip(operands, ranges, strict=True):
        sizes = tuple([_length(r) for r in own])
        if sizes != x.shape.dimensions:
            total += array_shape(x.shape.element_type, sizes).nbytes
    return total
