"""Alignments of operations: the dimensions that have to be split for a result to be split.

An alignment is one dimension of the iteration space of an operation. Either each part of the result
along it needs one part of some operands and the whole of the others. Or the operation folds the
dimension, and each part of the operands yields a term of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import Final

from lowtide.ir import Instruction, Opcode, Shape
from lowtide.ir.attributes import (
    Convolution,
    Dot,
    DynamicSlice,
    Gather,
    Iota,
    Pad,
    PaddingDimension,
    ReduceWindow,
    Scatter,
    Slice,
    Sort,
    WindowDimension,
)
from lowtide.ops.contraction import free_dimensions
from lowtide.ops.reducers import reducer_opcode
from lowtide.ops.table import TABLE
from lowtide.passes.matching import dimensions, is_plain
from lowtide.records import dataclass

WHOLE: Final = -1
"""In place of a dimension: the operand is needed as it is by every part."""


@dataclass(frozen=True, slots=True)
class Alignment:
    """A dimension along which an operation can be run in parts.

    `operands` has for each operand the dimension that is split, or WHOLE. `result` is the dimension
    of the result, or WHOLE where each part yields all of it: then the results of the parts are
    combined by `terms`; or, where `is_update`, each part changes operand 0, which starts as it is.
    """

    result: int
    operands: tuple[int, ...]
    terms: Opcode | None = None
    is_update: bool = False

    @property
    def folds(self) -> bool:
        """Whether the result is known once the last part has been run only."""
        return self.result == WHOLE


def sizes_of(shape: Shape) -> tuple[int, ...] | None:
    """Return the sizes of an array, or those that all arrays of a flat tuple have, else None."""
    leaves = shape.tuple_shapes if shape.is_tuple else (shape,)
    if not leaves or not all(is_plain(x) for x in leaves):
        return None
    first = leaves[0].dimensions
    return first if all(x.dimensions == first for x in leaves) else None


def alignments(x: Instruction) -> tuple[Alignment, ...]:
    """Return the dimensions along which an operation can be run in parts; none for most opcodes.

    No operation with control edges, and none on arrays that are not row major or of unknown size.
    """
    rule = _RULES.get(x.opcode)
    if rule is None and TABLE[x.opcode].elementwise:
        rule = _elementwise
    if rule is None or x.has_control_edges:
        return ()
    if sizes_of(x.shape) is None or any(sizes_of(y.shape) is None for y in x.operands):
        return ()
    return tuple(rule(x))


# -- dimensions that stay ----------------------------------------------------------------------


def _along(x: Instruction, result: int, **operands: int) -> Alignment:
    """Operand number i is split along `operands["_i"]`, the others are whole."""
    return Alignment(result, tuple([operands.get(f"_{i}", WHOLE) for i in range(len(x.operands))]))


def _elementwise(x: Instruction) -> Iterator[Alignment]:
    sizes = x.shape.dimensions
    fits = ((), sizes) if len(x.operands) > 1 else (sizes,)
    if any(y.shape.dimensions not in fits for y in x.operands):
        return
    for k in range(len(sizes)):
        yield Alignment(k, tuple([k if y.shape.rank else WHOLE for y in x.operands]))


def _broadcast(x: Instruction) -> Iterator[Alignment]:
    source = {k: i for i, k in enumerate(dimensions(x))}
    for k in range(x.shape.rank):
        yield _along(x, k, _0=source.get(k, WHOLE))


def _transpose(x: Instruction) -> Iterator[Alignment]:
    for k, i in enumerate(dimensions(x)):
        yield _along(x, k, _0=i)


def _reshape(x: Instruction) -> Iterator[Alignment]:
    """Dimensions before which equally many elements lie: equal parts of both are the same ones.

    Of those of one element only the last can be meant, which is none to be split.
    """
    at = {x: i for i, x in _prefixes(x.operands[0].shape.dimensions)}
    for k, before in _prefixes(x.shape.dimensions):
        if before in at:
            yield _along(x, k, _0=at[before])


def _prefixes(sizes: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """Each dimension of several elements, and how many elements those before it have."""
    for i, size in enumerate(sizes):
        if size > 1:
            yield i, prod(sizes[:i])


def _iota(x: Instruction) -> Iterator[Alignment]:
    for k in range(x.shape.rank):
        yield Alignment(k, ())


def _all_but(x: Instruction, changed: set[int], count: int = 1) -> Iterator[Alignment]:
    """The dimensions that the first `count` operands have as the result has them."""
    rank = x.shape.rank
    for k in range(rank):
        if k not in changed:
            yield Alignment(k, tuple([k if i < count else WHOLE for i in range(len(x.operands))]))


def _concatenate(x: Instruction) -> Iterator[Alignment]:
    yield from _all_but(x, set(dimensions(x)), len(x.operands))


def _reverse(x: Instruction) -> Iterator[Alignment]:
    yield from _all_but(x, set(dimensions(x)))


def _slice(x: Instruction) -> Iterator[Alignment]:
    parts, sizes = x.attributes_as(Slice), x.operands[0].shape.dimensions
    rows = zip(parts.starts, parts.limits, parts.strides, sizes, strict=True)
    yield from _all_but(x, {i for i, row in enumerate(rows) if row[:3] != (0, row[3], 1)})


def _pad(x: Instruction) -> Iterator[Alignment]:
    none = PaddingDimension(0, 0)
    padding = x.attributes_as(Pad).dimensions
    yield from _all_but(x, {i for i, y in enumerate(padding) if y != none})


def _dynamic_slice(x: Instruction) -> Iterator[Alignment]:
    sizes = zip(x.attributes_as(DynamicSlice).sizes, x.operands[0].shape.dimensions, strict=True)
    yield from _all_but(x, {i for i, (part, whole) in enumerate(sizes) if part != whole})


def _dynamic_update_slice(x: Instruction) -> Iterator[Alignment]:
    sizes = zip(x.operands[1].shape.dimensions, x.shape.dimensions, strict=True)
    yield from _all_but(x, {i for i, (part, whole) in enumerate(sizes) if part != whole}, 2)


def _sort(x: Instruction) -> Iterator[Alignment]:
    for k in range(x.operands[0].shape.rank):
        if k != x.attributes_as(Sort).dimension:
            yield Alignment(k, (k,) * len(x.operands))


def _element(x: Instruction) -> Iterator[Alignment]:
    for k in range(x.shape.rank):
        yield _along(x, k, _0=k)


# -- reductions, contractions, windows ---------------------------------------------------------


def _reduce(x: Instruction) -> Iterator[Alignment]:
    count = len(x.operands) // 2
    folded = dimensions(x)
    kept = [i for i in range(x.operands[0].shape.rank) if i not in folded]
    for k, i in enumerate(kept):
        yield Alignment(k, (i,) * count + (WHOLE,) * count)
    opcode = reducer_opcode(x.called_computations[0])
    if count == 1 and opcode is not None:
        for i in folded:
            yield Alignment(WHOLE, (i, WHOLE), opcode)


def _reduce_window(x: Instruction) -> Iterator[Alignment]:
    count = len(x.operands) // 2
    for k, window in enumerate(x.attributes_as(ReduceWindow).window.dimensions):
        if window == WindowDimension(1):
            yield Alignment(k, (k,) * count + (WHOLE,) * count)


def _select_and_scatter(x: Instruction) -> Iterator[Alignment]:
    for k, window in enumerate(x.attributes_as(ReduceWindow).window.dimensions):
        if window == WindowDimension(1):
            yield _along(x, k, _0=k, _1=k)


def _dot(x: Instruction) -> Iterator[Alignment]:
    numbers = x.attributes_as(Dot).dimensions
    lhs, rhs = (y.shape.rank for y in x.operands)
    k = 0
    for i, j in zip(numbers.lhs_batch, numbers.rhs_batch, strict=True):
        yield Alignment(k, (i, j))
        k += 1
    for i in free_dimensions(lhs, numbers.lhs_batch, numbers.lhs_contracting):
        yield Alignment(k, (i, WHOLE))
        k += 1
    for j in free_dimensions(rhs, numbers.rhs_batch, numbers.rhs_contracting):
        yield Alignment(k, (WHOLE, j))
        k += 1
    for i, j in zip(numbers.lhs_contracting, numbers.rhs_contracting, strict=True):
        yield Alignment(WHOLE, (i, j), Opcode.ADD)


def _convolution(x: Instruction) -> Iterator[Alignment]:
    attributes = x.attributes_as(Convolution)
    numbers = attributes.dimensions
    if attributes.batch_group_count != 1:
        return
    yield Alignment(numbers.output_batch, (numbers.input_batch, WHOLE))
    if attributes.feature_group_count != 1:
        return
    yield Alignment(numbers.output_feature, (WHOLE, numbers.kernel_output_feature))
    features = (numbers.input_feature, numbers.kernel_input_feature)
    yield Alignment(WHOLE, features, Opcode.ADD)


# -- indexing ----------------------------------------------------------------------------------


def _gather(x: Instruction) -> Iterator[Alignment]:
    """Batch dimensions, along which the indices go, and whole dimensions of the operand."""
    how = x.attributes_as(Gather)
    operand, indices = x.operands[0].shape, x.operands[1].shape
    batch = [k for k in range(x.shape.rank) if k not in how.offset_dims]
    along = [i for i in range(indices.rank) if i != how.index_vector_dim]
    paired = dict(zip(how.start_indices_batching_dims, how.operand_batching_dims, strict=True))
    for k, i in zip(batch, along, strict=True):
        yield Alignment(k, (paired.get(i, WHOLE), i))
    dropped = (*how.collapsed_slice_dims, *how.operand_batching_dims)
    kept = [i for i in range(operand.rank) if i not in dropped]
    for k, i in zip(how.offset_dims, kept, strict=True):
        if how.slice_sizes[i] == operand.dimensions[i] and i not in how.start_index_map:
            yield Alignment(k, (i, WHOLE))


def _scatter(x: Instruction) -> Iterator[Alignment]:
    """Batching dimensions, whole windows, and the other dimensions of the indices.

    Along these each part of the updates is written after the ones before it, as in one go.
    """
    if len(x.operands) != 3:
        return
    how = x.attributes_as(Scatter)
    operand, indices, updates = (y.shape for y in x.operands)
    along = [i for i in range(indices.rank) if i != how.index_vector_dim]
    written = [k for k in range(updates.rank) if k not in how.update_window_dims]
    paired = dict(zip(how.scatter_indices_batching_dims, how.input_batching_dims, strict=True))
    for i, k in zip(along, written, strict=True):
        if i in paired:
            yield Alignment(paired[i], (paired[i], i, k))
        else:
            yield Alignment(WHOLE, (WHOLE, i, k), is_update=True)
    dropped = (*how.inserted_window_dims, *how.input_batching_dims)
    kept = [i for i in range(operand.rank) if i not in dropped]
    for i, k in zip(kept, how.update_window_dims, strict=True):
        is_whole = updates.dimensions[k] == operand.dimensions[i]
        if is_whole and i not in how.scatter_dims_to_operand_dims:
            yield Alignment(i, (i, WHOLE, k))


_RULES: Final[Mapping[Opcode, Callable[[Instruction], Iterator[Alignment]]]] = {
    Opcode.BROADCAST: _broadcast,
    Opcode.CONCATENATE: _concatenate,
    Opcode.CONVOLUTION: _convolution,
    Opcode.DOT: _dot,
    Opcode.DYNAMIC_SLICE: _dynamic_slice,
    Opcode.DYNAMIC_UPDATE_SLICE: _dynamic_update_slice,
    Opcode.GATHER: _gather,
    Opcode.GET_TUPLE_ELEMENT: _element,
    Opcode.IOTA: _iota,
    Opcode.OPTIMIZATION_BARRIER: _elementwise,
    Opcode.PAD: _pad,
    Opcode.REDUCE: _reduce,
    Opcode.REDUCE_WINDOW: _reduce_window,
    Opcode.RESHAPE: _reshape,
    Opcode.REVERSE: _reverse,
    Opcode.SCATTER: _scatter,
    Opcode.SELECT_AND_SCATTER: _select_and_scatter,
    Opcode.SLICE: _slice,
    Opcode.SORT: _sort,
    Opcode.TRANSPOSE: _transpose,
}


def counts_along(x: Instruction, dimension: int) -> bool:
    """Whether the values of an iota grow along a dimension, so that parts have offsets."""
    return x.opcode is Opcode.IOTA and x.attributes_as(Iota).dimension == dimension
