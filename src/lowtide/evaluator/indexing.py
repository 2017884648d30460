"""Gather and scatter: slices and windows at places which are computed at run time.

Gather moves a slice that would leave the operand back inside; scatter leaves out such a window.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from lowtide.evaluator.numeric import element_type_of
from lowtide.evaluator.reducers import as_ufunc, wide_ufunc
from lowtide.evaluator.values import Value, Values, as_array
from lowtide.evaluator.vectorized import evaluate_elementwise
from lowtide.ir.attributes import Gather, Parameter, Scatter
from lowtide.ir.literal import Array
from lowtide.ir.opcode import Opcode

if TYPE_CHECKING:
    from lowtide.evaluator.interpreter import Interpreter
    from lowtide.evaluator.registry import Handler
    from lowtide.ir.computation import Computation
    from lowtide.ir.instruction import Instruction

Int64Array = npt.NDArray[np.int64]

Starts = Mapping[int, Int64Array]
"""By operand dimension, the index at which each slice starts; all of the batch's shape."""


def start_indices(
    indices: Array, index_vector_dim: int, index_map: Sequence[int], batching: Mapping[int, int]
) -> tuple[Starts, tuple[int, ...]]:
    """Return the starts of all slices, and the shape of the batch of slices.

    Entry `i` of each index vector, which lies along `index_vector_dim`, is the start in operand
    dimension `index_map[i]`. `batching` maps operand dimensions to dimensions of `indices`: there
    the start is the position in `indices` itself.
    """
    if index_vector_dim == indices.ndim:
        indices = indices[..., np.newaxis]
    vectors = np.moveaxis(_as_int64(indices), index_vector_dim, -1)
    batch = vectors.shape[:-1]
    starts = {d: vectors[..., i] for i, d in enumerate(index_map)}
    for d, source in batching.items():
        axis = source - (source > index_vector_dim)
        starts[d] = np.broadcast_to(_iota_along(axis, batch[axis], len(batch)), batch)
    return starts, batch


def _as_int64(indices: Array) -> Int64Array:
    if indices.dtype == np.uint64:
        indices = np.minimum(indices, np.uint64(np.iinfo(np.int64).max))
    return indices.astype(np.int64)


def _iota_along(axis: int, size: int, rank: int) -> Int64Array:
    return np.arange(size).reshape((1,) * axis + (size,) + (1,) * (rank - axis - 1))


# -- gather ------------------------------------------------------------------------------------


def gather(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    """Return the slices of operand 0 at the index vectors in operand 1."""
    operand, indices = (as_array(x) for x in operands)
    numbers = instruction.attributes_as(Gather)
    batching = zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True)
    starts, batch = start_indices(
        indices, numbers.index_vector_dim, numbers.start_index_map, dict(batching)
    )
    sizes = numbers.slice_sizes
    hidden = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    window_dims = [d for d in range(operand.ndim) if d not in hidden]
    if not operand.size or 0 in batch:
        picked = np.zeros((*batch, *[sizes[d] for d in window_dims]), operand.dtype)
        order = window_dims
    else:
        picked, order = _take_slices(operand, starts, batch, sizes, hidden)
    axes = [len(batch) + order.index(d) for d in window_dims]
    return picked.transpose(_result_axes(numbers.offset_dims, axes, picked.ndim))


def _take_slices(
    operand: Array, starts: Starts, batch: tuple[int, ...], sizes: Sequence[int], hidden: set[int]
) -> tuple[Array, list[int]]:
    """Return the slices, and the operand dimension of each of their dimensions.

    The batch comes first, then what is sliced at variable places, then what is taken whole: so
    rows that lie together are copied together.
    """
    # A slice as long as its dimension can start at 0 only.
    starts = {d: start for d, start in starts.items() if sizes[d] < operand.shape[d]}
    cut = [
        slice(None) if d in starts else 0 if d in hidden else slice(sizes[d])
        for d in range(operand.ndim)
    ]
    kept = [d for d, what in enumerate(cut) if isinstance(what, slice)]
    moving = [d for d in kept if d in starts]
    whole = [d for d in kept if d not in starts]
    source = operand[tuple(cut)].transpose([kept.index(d) for d in moving + whole])
    windows = [d for d in moving if d not in hidden]
    rank = len(batch) + len(windows)
    places = []
    for d in moving:
        start = np.clip(starts[d], 0, operand.shape[d] - sizes[d])
        place = start.reshape(batch + (1,) * len(windows))
        if d not in hidden:
            place = place + _iota_along(len(batch) + windows.index(d), sizes[d], rank)
        places.append(place)
    order = windows + whole
    if moving:
        return source[tuple(places)], order
    return np.broadcast_to(source, (*batch, *source.shape)), order


def _result_axes(offset_dims: Sequence[int], windows: Sequence[int], rank: int) -> list[int]:
    """Return the source axis of each result dimension; `windows` go to the `offset_dims`."""
    axes = dict(zip(offset_dims, windows, strict=True))
    batch = iter(range(rank - len(windows)))
    return [axes[d] if d in axes else next(batch) for d in range(rank)]


# -- scatter -----------------------------------------------------------------------------------


def scatter(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    """Return the inputs with the updates combined into them, one array or a tuple of arrays.

    Updates of one element are applied in row-major order of their index vectors. A window that
    is not wholly inside of the input is left out.
    """
    arrays = [as_array(x) for x in operands]
    count = len(arrays) // 2
    inputs, indices, updates = arrays[:count], arrays[count], arrays[count + 1 :]
    numbers = instruction.attributes_as(Scatter)
    places, windows = _update_places(inputs[0].shape, indices, updates[0], numbers)
    order = _scatter_first(numbers, updates[0].ndim)
    results = [x.flatten() for x in inputs]
    rows = [_rows(x.transpose(order), len(windows))[windows].ravel() for x in updates]
    _combine(interpreter, instruction.called_computations[0], results, places, rows)
    shaped = [x.reshape(y.shape) for x, y in zip(results, inputs, strict=True)]
    return tuple(shaped) if instruction.shape.is_tuple else shaped[0]


def _rows(updates: Array, count: int) -> Array:
    return updates.reshape(count, updates.size // count if count else 0)


def _scatter_first(numbers: Scatter, rank: int) -> list[int]:
    """Return the dimensions of the updates, those of windows last."""
    windows = numbers.update_window_dims
    return [d for d in range(rank) if d not in windows] + list(windows)


def _update_places(
    dimensions: tuple[int, ...], indices: Array, updates: Array, numbers: Scatter
) -> tuple[Int64Array, npt.NDArray[np.bool_]]:
    """Return the flat input index of each update that counts, and which windows count."""
    batching = zip(numbers.input_batching_dims, numbers.scatter_indices_batching_dims, strict=True)
    starts, batch = start_indices(
        indices, numbers.index_vector_dim, numbers.scatter_dims_to_operand_dims, dict(batching)
    )
    hidden = {*numbers.inserted_window_dims, *numbers.input_batching_dims}
    sizes = [1] * len(dimensions)
    window_dims = [d for d in range(len(dimensions)) if d not in hidden]
    for d, source in zip(window_dims, numbers.update_window_dims, strict=True):
        sizes[d] = updates.shape[source]
    inside = np.ones(batch, np.bool_)
    base = np.zeros(batch, np.int64)
    offsets = np.zeros((), np.int64)
    stride = 1
    for d in reversed(range(len(dimensions))):
        if d in starts:
            inside &= (starts[d] >= 0) & (starts[d] <= dimensions[d] - sizes[d])
            base = base + np.where(inside, starts[d], 0) * stride
        if d not in hidden:
            offsets = np.add.outer(np.arange(sizes[d]) * stride, offsets)
        stride *= dimensions[d]
    return np.add.outer(base[inside], offsets.ravel()).ravel(), inside.ravel()


def _combine(
    interpreter: Interpreter,
    computation: Computation,
    results: list[Array],
    places: Int64Array,
    updates: list[Array],
) -> None:
    """Write `updates` into the flat `results` at `places`, in order, by the computation."""
    if _keeps_update(computation, len(results)):
        for result, update in zip(results, updates, strict=True):
            result[places] = update  # NumPy lets the last of equal indices win
        return
    ufunc = _binary_ufunc(computation, results[0])
    if ufunc is not None and len(results) == 1:
        ufunc.at(results[0], places, updates[0])
        return
    for chosen in _rounds(places):
        targets = places[chosen]
        arguments = [x[targets] for x in results] + [x[chosen] for x in updates]
        combined = evaluate_elementwise(interpreter, computation, arguments)
        parts = combined if isinstance(combined, tuple) else (combined,)
        for result, part in zip(results, parts, strict=True):
            result[targets] = as_array(part)


def _binary_ufunc(computation: Computation, like: Array) -> np.ufunc | None:
    """Return the ufunc that combines two arrays of the type of `like`, if there is one.

    Narrow floating point types have ufuncs of their own, which round after each operation.
    """
    if element_type_of(like).is_floating:
        return wide_ufunc(computation)
    return as_ufunc(computation)


def _keeps_update(computation: Computation, count: int) -> bool:
    """Whether the computation returns its last `count` parameters, in order."""
    root = computation.root
    parts = root.operands if root.opcode is Opcode.TUPLE else (root,)
    numbers = [x.attributes_as(Parameter).number for x in parts if x.opcode is Opcode.PARAMETER]
    return numbers == list(range(count, 2 * count))


def _rounds(places: Int64Array) -> list[Int64Array]:
    """Return the positions of the first update of each place, then of the second, and so on."""
    by_place = np.argsort(places, kind="stable")
    ordered = places[by_place]
    first = np.flatnonzero(np.diff(ordered, prepend=-1))
    repeats = np.diff(first, append=len(ordered))
    rank = np.arange(len(ordered)) - np.repeat(first, repeats)
    by_rank = np.argsort(rank, kind="stable")
    counts = np.bincount(rank) if len(rank) else np.zeros(0, np.int64)
    return np.split(by_place[by_rank], np.cumsum(counts)[:-1]) if len(rank) else []


HANDLERS: Final[dict[Opcode, Handler]] = {Opcode.GATHER: gather, Opcode.SCATTER: scatter}
