"""Gathers and scatters that are something simpler."""

from __future__ import annotations

import math
from typing import Any, Final

from lowtide.builder.values import Op, SubComputation
from lowtide.ir import Instruction, Opcode
from lowtide.ir.attributes import Constant, Gather
from lowtide.ops.reducers import reducer_opcode
from lowtide.passes.matching import are_plain, dimensions, is_all
from lowtide.passes.rewriting import Rewriter, rule
from lowtide.transforms.simplify.broadcast import ELEMENTWISE
from lowtide.transforms.simplify.conversion import holds_all
from lowtide.transforms.simplify.shapes import is_scalar_broadcast
from lowtide.transforms.simplify.slice import bits_read, ranges_of, reads_less, sliced
from lowtide.transforms.simplify.support import INTEGERS, Made, again, arrays, scalar, spread

_ELEMENTWISE: Final = frozenset(ELEMENTWISE)


def _numbers(gather: Instruction) -> Gather:
    return gather.attributes_as(Gather)


@arrays(Opcode.GATHER)
def gather_repeated_scalar(gather: Instruction, at: Rewriter) -> Made:
    """gather(broadcast(v), i) => broadcast(v), where v is a scalar"""
    inner = gather.operands[0]
    if not is_scalar_broadcast(inner) or not inner.shape.element_count:
        return None
    return spread(at, at(inner.operands[0]), gather.shape)


@arrays(Opcode.GATHER)
def gather_everything(gather: Instruction, at: Rewriter) -> Made:
    """gather(x, i) => broadcast(reshape(x)), where each slice is all of x"""
    x, numbers = gather.operands[0], _numbers(gather)
    if numbers.slice_sizes != x.shape.dimensions or numbers.operand_batching_dims:
        return None
    if not x.shape.element_count:
        return None
    kept = _window_sizes(numbers)
    part = at(x)
    if len(kept) != x.shape.rank:
        part = at.build.reshape(part, kept)
    return at.build.broadcast(part, gather.shape.dimensions, numbers.offset_dims)


def _window_sizes(numbers: Gather) -> list[int]:
    """Return the sizes of a slice, without the dimensions that are dropped."""
    return [n for d, n in enumerate(numbers.slice_sizes) if d not in numbers.collapsed_slice_dims]


@arrays(Opcode.GATHER)
def gather_one_slice(gather: Instruction, at: Rewriter) -> Made:
    """gather(x, i) => reshape(dynamic-slice(x, i)), where i is one index"""
    x, indices = gather.operands
    numbers = _numbers(gather)
    mapped = numbers.start_index_map
    if numbers.operand_batching_dims or not mapped or not x.shape.element_count:
        return None
    if math.prod(indices.shape.dimensions) != len(mapped):
        return None
    if indices.shape.element_type not in INTEGERS or not indices.shape.element_type.is_signed:
        return None
    vector = at(indices)
    if len(mapped) > 1 and indices.shape.rank != 1:
        vector = at.build.reshape(vector, (len(mapped),))
    zero = scalar(at, 0, indices.shape.element_type)
    starts = [
        _element(at, vector, mapped.index(d), len(mapped)) if d in mapped else zero
        for d in range(x.shape.rank)
    ]
    part = at.build.dynamic_slice(at(x), starts, numbers.slice_sizes)
    return at.build.reshape(part, gather.shape.dimensions)


def _element(at: Rewriter, vector: Op, i: int, count: int) -> Op:
    """Return element i of a vector as a scalar."""
    part = vector if count == 1 else at.build.slice(vector, [i], [i + 1])
    return at.build.reshape(part, ()) if part.rank else part


@arrays(Opcode.GATHER)
def gather_of_elementwise(gather: Instruction, at: Rewriter) -> Made:
    """gather(f(x), i) => f(gather(x, i)), where all readers of f need parts, or this one little"""
    inner, indices = gather.operands
    if inner.opcode not in _ELEMENTWISE or not are_plain(*inner.operands):
        return None
    if not all(_is_gathered_of_less(y, gather) for y in inner.operands):
        return None
    if not (reads_less(inner) or _reads_little(inner, gather)):
        return None
    parts = [at.build.gather(at(y), at(indices), _numbers(gather)) for y in inner.operands]
    return again(at, inner, *parts, shape=gather.shape)


_LITTLE: Final = 16
"""A gather of one in so many elements takes no time to speak of, whatever it is made of."""

_MOST_MAKERS: Final = 64
"""Instructions that are looked at of those that indices are made of."""


def _reads_little(producer: Instruction, gather: Instruction) -> bool:
    """Whether a gather takes few elements, at places that are known before these are made.

    The operand of the producer can be gathered from then before it is overwritten, and what the
    producer makes need not be stored for the gather.
    """
    if gather.shape.element_count * _LITTLE > producer.shape.element_count:
        return False
    return bits_read(producer) > 0 and not _may_be_made_of(gather.operands[1], producer)


def _may_be_made_of(x: Instruction, other: Instruction) -> bool:
    """Whether an instruction is made of another, which is said, too, of what has many makers."""
    waiting, seen = [x], {x}
    while waiting and len(seen) <= _MOST_MAKERS:
        new = [y for y in dict.fromkeys(waiting.pop().operands) if y not in seen]
        seen.update(new)
        waiting += new
    return bool(waiting) or other in seen


def _is_gathered_of_less(x: Instruction, gather: Instruction) -> bool:
    """Whether x is an array, and if it is a broadcast, its operand can be gathered instead."""
    if x.opcode is not Opcode.BROADCAST or is_scalar_broadcast(x):
        return bool(x.shape.rank)
    return are_plain(*x.operands) and _below_broadcast(x, gather) is not None


@arrays(Opcode.GATHER)
def gather_of_broadcast(gather: Instruction, at: Rewriter) -> Made:
    """gather(broadcast(x), i) => broadcast(gather(x, i)), or broadcast(x) where i is not along x"""
    inner, indices = gather.operands
    if inner.opcode is not Opcode.BROADCAST or not are_plain(*inner.operands):
        return None
    found = _below_broadcast(inner, gather)
    if found is None:
        return None
    numbers, places = found
    part = at(inner.operands[0])
    if numbers is not None:
        part = at.build.gather(part, at(indices), numbers)
    if len(places) == gather.shape.rank:
        return part
    return at.build.broadcast(part, gather.shape.dimensions, places)


def _below_broadcast(
    broadcast: Instruction, gather: Instruction
) -> tuple[Gather | None, tuple[int, ...]] | None:
    """Return how to gather what is broadcast, None for all of it, and where its dimensions lie.

    These are places in the result of the gather. Without such a way None is returned.
    """
    numbers, kept = _numbers(gather), dimensions(broadcast)
    if not kept or list(kept) != sorted(kept) or not broadcast.shape.element_count:
        return None
    along = [d in kept for d in numbers.start_index_map]
    if not any(along):
        places = _places_of_all(numbers, gather, broadcast.shape.dimensions)
        found = [places.get(d, -1) for d in kept]
        return (None, tuple(found)) if found == sorted(found) and found[0] >= 0 else None
    return _part_of_gather(numbers, gather, kept) if all(along) else None


def _windows(numbers: Gather) -> list[int]:
    """Return the dimensions of the operand that slices have in the result, in their order."""
    left_out = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    return [d for d in range(len(numbers.slice_sizes)) if d not in left_out]


def _batch(numbers: Gather, gather: Instruction) -> list[int]:
    """Return the dimensions of the result that are those of the indices, in their order."""
    return [d for d in range(gather.shape.rank) if d not in numbers.offset_dims]


def _places_of_all(numbers: Gather, gather: Instruction, sizes: tuple[int, ...]) -> dict[int, int]:
    """Return, for dimensions of which the result has all, from first to last, where they are."""
    windows = zip(_windows(numbers), numbers.offset_dims, strict=True)
    places = {d: place for d, place in windows if numbers.slice_sizes[d] == sizes[d]}
    batch = _batch(numbers, gather)
    pairs = zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True)
    return places | {d: batch[i - (i > numbers.index_vector_dim)] for d, i in pairs}


def _part_of_gather(
    numbers: Gather, gather: Instruction, kept: tuple[int, ...]
) -> tuple[Gather, tuple[int, ...]]:
    """Return the gather of an operand with the dimensions that are kept, and where its are."""
    number = {d: i for i, d in enumerate(kept)}
    windows = zip(_windows(numbers), numbers.offset_dims, strict=True)
    offsets = [place for d, place in windows if d in number]
    places = sorted([*_batch(numbers, gather), *offsets])
    pairs = zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True)
    batching = [(number[d], i) for d, i in pairs if d in number]
    part = Gather(
        offset_dims=tuple([places.index(x) for x in offsets]),
        collapsed_slice_dims=tuple(
            [number[d] for d in numbers.collapsed_slice_dims if d in number]
        ),
        start_index_map=tuple([number[d] for d in numbers.start_index_map]),
        index_vector_dim=numbers.index_vector_dim,
        slice_sizes=tuple([numbers.slice_sizes[d] for d in kept]),
        operand_batching_dims=tuple([d for d, _ in batching]),
        start_indices_batching_dims=tuple([i for _, i in batching]),
        indices_are_sorted=numbers.indices_are_sorted,
    )
    return part, tuple(places)


@arrays(Opcode.GATHER)
def gather_at_widened(gather: Instruction, at: Rewriter) -> Made:
    """gather(x, convert(i)) => gather(x, i), where the conversion keeps all indices"""
    x, indices = gather.operands
    narrow = _unwidened(indices)
    return None if narrow is None else at.build.gather(at(x), at(narrow), _numbers(gather))


@arrays(Opcode.SLICE, of=(Opcode.GATHER,))
def slice_of_gather(slice_: Instruction, at: Rewriter) -> Made:
    """slice(gather(x, c)) => reshape(slice(x)), of one slice that a constant places"""
    gather = slice_.operands[0]
    (x, indices), numbers = gather.operands, _numbers(gather)
    if indices.opcode is not Opcode.CONSTANT or numbers.operand_batching_dims or not are_plain(x):
        return None
    literal, ranges = indices.attributes_as(Constant).literal, ranges_of(slice_)
    picked = [r for d, r in enumerate(ranges) if d not in numbers.offset_dims]
    if literal.elided or any(n == 0 for n in slice_.shape.dimensions):
        return None
    if any(limit - start > stride for start, limit, stride in picked):
        return None
    place: list[Any] = [start for start, _, _ in picked]
    if numbers.index_vector_dim < indices.shape.rank:
        place.insert(numbers.index_vector_dim, slice(None))
    vector = literal.array[tuple(place)].reshape(-1).tolist()
    starts = dict(zip(numbers.start_index_map, vector, strict=True))
    kept = iter([ranges[d] for d in numbers.offset_dims])
    parts = []
    for d, (size, whole) in enumerate(zip(numbers.slice_sizes, x.shape.dimensions, strict=True)):
        begin = min(max(starts.get(d, 0), 0), whole - size)
        first, last, step = (0, 1, 1) if d in numbers.collapsed_slice_dims else next(kept)
        parts.append((begin + first, begin + last, step))
    return at.build.reshape(sliced(at, at(x), parts), slice_.shape.dimensions)


def _unwidened(indices: Instruction) -> Instruction | None:
    """Return the integers whose conversion to a wider type the indices are, of 32 bits or more."""
    if indices.opcode is not Opcode.CONVERT:
        return None
    x = indices.operands[0]
    wide, narrow = indices.shape.element_type, x.shape.element_type
    if narrow not in INTEGERS or wide not in INTEGERS or narrow.bits < 32:
        return None
    return x if holds_all(wide, narrow) and are_plain(x) else None


# -- scatter -----------------------------------------------------------------------------------


def _is_single(scatter: Instruction) -> bool:
    return len(scatter.operands) == 3 and are_plain(*scatter.operands, scatter)


@rule(Opcode.SCATTER)
def scatter_nothing(scatter: Instruction, at: Rewriter) -> Made:
    """scatter(x, i, u) => x, where u has no elements"""
    if not _is_single(scatter):
        return None
    x, _, updates = scatter.operands
    return None if updates.shape.element_count or x.shape is not scatter.shape else x


@rule(Opcode.SCATTER)
def scatter_at_widened(scatter: Instruction, at: Rewriter) -> Made:
    """scatter(x, convert(i), u) => scatter(x, i, u), where the conversion keeps all indices"""
    if not _is_single(scatter):
        return None
    x, indices, updates = scatter.operands
    narrow = _unwidened(indices)
    if narrow is None:
        return None
    operands = [at(x), at(narrow), at(updates)]
    called = [SubComputation(scatter.called_computations[0])]
    return at.build.emit(Opcode.SCATTER, operands, scatter.attributes, called, shape=scatter.shape)


@rule(Opcode.SCATTER)
def scatter_zeros(scatter: Instruction, at: Rewriter) -> Made:
    """scatter-add(x, i, 0) => x, of integers"""
    if not _is_single(scatter) or scatter.shape.element_type not in INTEGERS:
        return None
    x, _, updates = scatter.operands
    if reducer_opcode(scatter.called_computations[0]) is not Opcode.ADD:
        return None
    return x if is_all(updates, 0) and x.shape is scatter.shape else None
