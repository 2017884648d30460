"""Slices and updates at places computed at run time."""

from __future__ import annotations

from typing import Final

from lowtide.builder.values import Op
from lowtide.ir import Instruction, Opcode
from lowtide.ir.attributes import DynamicSlice, PaddingDimension
from lowtide.passes.matching import (
    are_plain,
    dimensions,
    has_one_user,
    is_all,
    is_uniform,
    same_instructions,
    scalar_value,
)
from lowtide.passes.rewriting import Rewriter
from lowtide.transforms.simplify.broadcast import ELEMENTWISE
from lowtide.transforms.simplify.shapes import changes_unit_dimensions_only, is_scalar_broadcast
from lowtide.transforms.simplify.slice import ranges_of, reads_less
from lowtide.transforms.simplify.support import Made, again, arrays, scalar

_ELEMENTWISE: Final = frozenset(ELEMENTWISE)


def _starts(x: Instruction) -> tuple[Instruction, ...]:
    """Return the start index of each dimension, `()` for the old form with one vector of them."""
    starts = x.operands[2:] if x.opcode is Opcode.DYNAMIC_UPDATE_SLICE else x.operands[1:]
    return () if any(start.shape.rank for start in starts) else starts


def _constant_starts(x: Instruction, sizes: tuple[int, ...]) -> list[int] | None:
    """Return where a window of `sizes` starts, moved inside the operand, if that is known."""
    starts = _starts(x)
    values = [scalar_value(start) for start in starts]
    if len(values) != len(sizes) or any(value is None for value in values):
        return None
    whole = x.operands[0].shape.dimensions
    return [
        min(max(int(value), 0), n - size)
        for value, n, size in zip(values, whole, sizes, strict=True)
        if value is not None
    ]


def _zero(at: Rewriter, starts: tuple[Instruction, ...]) -> Op:
    return scalar(at, 0, starts[0].shape.element_type)


# -- dynamic-slice -----------------------------------------------------------------------------


@arrays(Opcode.DYNAMIC_SLICE)
def dynamic_slice_of_everything(x: Instruction, at: Rewriter) -> Made:
    """dynamic-slice(x, i) => x, where the slice is as large as x"""
    operand = x.operands[0]
    return operand if operand.shape is x.shape else None


@arrays(Opcode.DYNAMIC_SLICE)
def dynamic_slice_at_constant(x: Instruction, at: Rewriter) -> Made:
    """dynamic-slice(x, c) => slice(x)"""
    sizes = x.attributes_as(DynamicSlice).sizes
    starts = _constant_starts(x, sizes)
    if starts is None:
        return None
    limits = [start + size for start, size in zip(starts, sizes, strict=True)]
    return at.build.slice(at(x.operands[0]), starts, limits)


@arrays(Opcode.DYNAMIC_SLICE)
def dynamic_slice_of_whole_dimension(x: Instruction, at: Rewriter) -> Made:
    """dynamic-slice(x, i, j) => dynamic-slice(x, i, 0), where all of dimension 1 is taken"""
    starts = _whole_dimensions_at_zero(at, x, x.shape.dimensions)
    if starts is None:
        return None
    return at.build.dynamic_slice(at(x.operands[0]), starts, x.shape.dimensions)


def _whole_dimensions_at_zero(
    at: Rewriter, x: Instruction, sizes: tuple[int, ...]
) -> list[Op] | None:
    """Return the starts with 0 where a dimension is taken whole, None if nothing changes."""
    starts = _starts(x)
    whole = [
        n == size and not is_all(start, 0)
        for start, n, size in zip(starts, x.operands[0].shape.dimensions, sizes, strict=False)
    ]
    if not any(whole):
        return None
    zero = _zero(at, starts)
    return [zero if drop else at(start) for start, drop in zip(starts, whole, strict=True)]


@arrays(Opcode.DYNAMIC_SLICE)
def dynamic_slice_of_broadcast(x: Instruction, at: Rewriter) -> Made:
    """dynamic-slice(broadcast(x), i) => broadcast(dynamic-slice(x, i))"""
    inner, starts = x.operands[0], _starts(x)
    if inner.opcode is not Opcode.BROADCAST or not starts or not are_plain(inner.operands[0]):
        return None
    places, sizes = dimensions(inner), x.shape.dimensions
    part = at(inner.operands[0])
    if places:
        own = [at(starts[d]) for d in places]
        part = at.build.dynamic_slice(part, own, [sizes[d] for d in places])
    return at.build.broadcast(part, sizes, places)


@arrays(Opcode.DYNAMIC_SLICE)
def dynamic_slice_of_transpose(x: Instruction, at: Rewriter) -> Made:
    """dynamic-slice(transpose(x), i, j) => transpose(dynamic-slice(x, j, i))"""
    inner, starts = x.operands[0], _starts(x)
    if inner.opcode is not Opcode.TRANSPOSE or not has_one_user(inner) or not starts:
        return None
    order = dimensions(inner)
    source = [order.index(d) for d in range(len(order))]
    own = [at(starts[i]) for i in source]
    early = at.build.dynamic_slice(
        at(inner.operands[0]), own, [x.shape.dimensions[i] for i in source]
    )
    return at.build.transpose(early, order)


@arrays(Opcode.DYNAMIC_SLICE)
def dynamic_slice_of_reshape(x: Instruction, at: Rewriter) -> Made:
    """dynamic-slice(reshape(x), i) => reshape(dynamic-slice(x, i)), which adds or drops sizes 1"""
    inner, starts = x.operands[0], _starts(x)
    if inner.opcode is not Opcode.RESHAPE or not starts or not are_plain(inner.operands[0]):
        return None
    source = inner.operands[0]
    old, new = source.shape.dimensions, inner.shape.dimensions
    if (
        not changes_unit_dimensions_only(old, new)
        or 0 in x.shape.dimensions
        or not source.shape.rank
    ):
        return None
    parts = zip(starts, x.shape.dimensions, new, strict=True)
    wide = iter([(at(start), size) for start, size, n in parts if n != 1])
    zero = _zero(at, starts)
    pairs = [next(wide) if n != 1 else (zero, 1) for n in old]
    early = at.build.dynamic_slice(at(source), [s for s, _ in pairs], [n for _, n in pairs])
    return at.build.reshape(early, x.shape.dimensions)


@arrays(Opcode.DYNAMIC_SLICE)
def dynamic_slice_of_elementwise(x: Instruction, at: Rewriter) -> Made:
    """dynamic-slice(f(x), i) => f(dynamic-slice(x, i)), where all readers of f need only parts"""
    inner, starts = x.operands[0], _starts(x)
    if inner.opcode not in _ELEMENTWISE or not starts or not are_plain(*inner.operands):
        return None
    if not reads_less(inner):
        return None
    places = [at(start) for start in starts]
    parts = [
        at.build.dynamic_slice(at(y), places, x.shape.dimensions) if y.shape.rank else at(y)
        for y in inner.operands
    ]
    return again(at, inner, *parts, shape=x.shape)


@arrays(Opcode.DYNAMIC_SLICE)
def dynamic_slice_of_update(x: Instruction, at: Rewriter) -> Made:
    """dynamic-slice(dynamic-update-slice(x, u, i), i) => u, of the size of u"""
    inner, starts = x.operands[0], _starts(x)
    if inner.opcode is not Opcode.DYNAMIC_UPDATE_SLICE or not starts:
        return None
    update = inner.operands[1]
    if update.shape is not x.shape or not same_instructions(_starts(inner), starts):
        return None
    return update


@arrays(Opcode.DYNAMIC_SLICE)
def dynamic_slice_of_part(x: Instruction, at: Rewriter) -> Made:
    """dynamic-slice(slice(x), i) => dynamic-slice(x, i), where each dimension is cut only once"""
    inner, starts = x.operands[0], _starts(x)
    if inner.opcode not in (Opcode.SLICE, Opcode.DYNAMIC_SLICE) or not starts:
        return None
    if not is_uniform(inner) or not has_one_user(inner):
        return None
    source = inner.operands[0]
    first = _places(at, inner, starts)
    if first is None:
        return None
    places = []
    sizes = zip(source.shape.dimensions, inner.shape.dimensions, x.shape.dimensions, strict=True)
    for d, (whole, between, size) in enumerate(sizes):
        if whole != between and between != size:
            return None
        places.append(starts[d] if whole == between else first[d])
    made = [at(p) if isinstance(p, Instruction) else _start(at, p, starts[0]) for p in places]
    return at.build.dynamic_slice(at(source), made, x.shape.dimensions)


def _start(at: Rewriter, place: int, like: Instruction) -> Op:
    return scalar(at, place, like.shape.element_type)


def _places(
    at: Rewriter, inner: Instruction, starts: tuple[Instruction, ...]
) -> list[Instruction | int] | None:
    """Return where a slice or dynamic slice starts, in the type of `starts`; None where unfit."""
    if inner.opcode is Opcode.SLICE:
        ranges = ranges_of(inner)
        return None if any(stride != 1 for _, _, stride in ranges) else [r[0] for r in ranges]
    own = _starts(inner)
    if not own or own[0].shape is not starts[0].shape:
        return None
    return list(own)


@arrays(Opcode.DYNAMIC_SLICE)
def dynamic_slice_of_iota(x: Instruction, at: Rewriter) -> Made:
    """dynamic-slice(iota, i) of one element => clamp(0, i, n - 1), of the type of i"""
    iota, starts = x.operands[0], _starts(x)
    if iota.opcode is not Opcode.IOTA or iota.shape.rank != 1 or not starts:
        return None
    start = starts[0]
    last = iota.shape.dimensions[0] - 1
    if x.shape.dimensions != (1,) or start.shape.element_type is not x.shape.element_type:
        return None
    element_type = start.shape.element_type
    bounds = [scalar(at, value, element_type) for value in (0, last)]
    place = at.build.clamp(bounds[0], at(start), bounds[1])
    return at.build.broadcast(place, (1,), ())


@arrays(Opcode.SLICE)
def slice_of_dynamic_slice(x: Instruction, at: Rewriter) -> Made:
    """slice(dynamic-slice(x, i)) => dynamic-slice(x, i), where each dimension is cut only once"""
    inner = x.operands[0]
    if inner.opcode is not Opcode.DYNAMIC_SLICE or not has_one_user(inner):
        return None
    starts = _starts(inner)
    if not starts or not is_uniform(inner):
        return None
    source = inner.operands[0]
    places: list[Instruction | int] = []
    for d, (begin, _, stride) in enumerate(ranges_of(x)):
        between, size = inner.shape.dimensions[d], x.shape.dimensions[d]
        if between == size:
            places.append(starts[d])
        elif stride == 1 and between == source.shape.dimensions[d]:
            places.append(begin)
        else:
            return None
    made = [at(p) if isinstance(p, Instruction) else _start(at, p, starts[0]) for p in places]
    return at.build.dynamic_slice(at(source), made, x.shape.dimensions)


# -- dynamic-update-slice ----------------------------------------------------------------------


@arrays(Opcode.DYNAMIC_UPDATE_SLICE)
def update_everything(x: Instruction, at: Rewriter) -> Made:
    """dynamic-update-slice(x, u, i) => u, where u is as large as x"""
    update = x.operands[1]
    return update if update.shape is x.shape else None


@arrays(Opcode.DYNAMIC_UPDATE_SLICE)
def update_nothing(x: Instruction, at: Rewriter) -> Made:
    """dynamic-update-slice(x, u, i) => x, where u has no elements"""
    operand, update = x.operands[:2]
    return None if update.shape.element_count else operand


@arrays(Opcode.DYNAMIC_UPDATE_SLICE)
def update_with_own_elements(x: Instruction, at: Rewriter) -> Made:
    """dynamic-update-slice(x, dynamic-slice(x, i), i) => x"""
    operand, update = x.operands[:2]
    if update.opcode is not Opcode.DYNAMIC_SLICE or update.operands[0] is not operand:
        return None
    starts = _starts(x)
    return operand if starts and same_instructions(_starts(update), starts) else None


@arrays(Opcode.DYNAMIC_UPDATE_SLICE)
def update_of_whole_dimension(x: Instruction, at: Rewriter) -> Made:
    """dynamic-update-slice(x, u, i, j) => dynamic-update-slice(x, u, i, 0), u as long as x in 1"""
    operand, update = x.operands[:2]
    starts = _whole_dimensions_at_zero(at, x, update.shape.dimensions)
    if starts is None:
        return None
    return at.build.dynamic_update_slice(at(operand), at(update), starts)


@arrays(Opcode.DYNAMIC_UPDATE_SLICE)
def update_twice(x: Instruction, at: Rewriter) -> Made:
    """dynamic-update-slice(dynamic-update-slice(x, u, i), v, i) => without u, of one size"""
    inner, update = x.operands[:2]
    if inner.opcode is not Opcode.DYNAMIC_UPDATE_SLICE or not is_uniform(inner):
        return None
    starts = _starts(x)
    if inner.operands[1].shape is not update.shape or not starts:
        return None
    if not same_instructions(_starts(inner), starts):
        return None
    places = [at(start) for start in starts]
    return at.build.dynamic_update_slice(at(inner.operands[0]), at(update), places)


@arrays(Opcode.DYNAMIC_UPDATE_SLICE)
def update_with_same_scalar(x: Instruction, at: Rewriter) -> Made:
    """dynamic-update-slice(broadcast(v), broadcast(v), i) => broadcast(v)"""
    operand, update = x.operands[:2]
    if not is_scalar_broadcast(operand) or not is_scalar_broadcast(update):
        return None
    return operand if same_instructions(operand.operands, update.operands) else None


@arrays(Opcode.DYNAMIC_UPDATE_SLICE)
def update_of_repeated_scalar(x: Instruction, at: Rewriter) -> Made:
    """dynamic-update-slice(broadcast(v), u, c) => pad(u, v)"""
    operand, update = x.operands[:2]
    if not is_scalar_broadcast(operand):
        return None
    sizes = update.shape.dimensions
    starts = _constant_starts(x, sizes)
    if starts is None:
        return None
    padding = [
        PaddingDimension(start, n - start - size)
        for start, n, size in zip(starts, x.shape.dimensions, sizes, strict=True)
    ]
    return at.build.pad(at(update), at(operand.operands[0]), padding)


@arrays(Opcode.DYNAMIC_SLICE, Opcode.DYNAMIC_UPDATE_SLICE)
def start_in_range(x: Instruction, at: Rewriter) -> Made:
    """dynamic-slice(x, clamp(0, i, n)) => dynamic-slice(x, i), which clamps to the same range"""
    starts = _starts(x)
    if not starts:
        return None
    window = x.operands[1] if x.opcode is Opcode.DYNAMIC_UPDATE_SLICE else x
    operand = x.operands[0]
    places, found = [], False
    sizes = zip(operand.shape.dimensions, window.shape.dimensions, strict=True)
    for start, (n, size) in zip(starts, sizes, strict=True):
        inner = start
        if start.opcode is Opcode.CLAMP and _is_own_clamp(start, n - size):
            inner, found = start.operands[1], True
        places.append(at(inner))
    if not found:
        return None
    if x.opcode is Opcode.DYNAMIC_SLICE:
        return at.build.dynamic_slice(at(operand), places, x.shape.dimensions)
    return at.build.dynamic_update_slice(at(operand), at(window), places)


def _is_own_clamp(clamp: Instruction, last: int) -> bool:
    """Whether a clamp keeps all of 0 to `last`, and moves what is outside to no other place."""
    low, high = scalar_value(clamp.operands[0]), scalar_value(clamp.operands[2])
    if low is None or high is None:
        return False
    return int(low) <= 0 and int(high) >= last and int(low) <= int(high)
