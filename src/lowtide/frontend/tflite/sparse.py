"""Sparse constants: the elements that are kept, and in levels, from the outermost, where they are.

A level is dense, with all places of a dimension, or has for each entry of the level above the
places that are kept. Dimensions beyond those of the tensor are places within blocks. Source of the
format: S. Chou et al., Format Abstraction for Sparse Tensor Algebra Compilers, 2018.
"""

from __future__ import annotations

from math import prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from lowtide.frontend.tflite.flatbuffer import FlatTable

_DENSE, _KEPT = 0, 1
_VECTORS: Final = {1: "<i4", 2: "<u2", 3: "u1"}
"""The numbers in a vector of places, by the code of its type."""

Places = npt.NDArray[np.int64]


def densified(kept: npt.NDArray[Any], shape: tuple[int, ...], table: FlatTable) -> npt.NDArray[Any]:
    """Return the array of a sparse constant, zero where nothing is kept.

    Raises InputError for levels that do not fit the elements or the shape.
    """
    order, blocked = table.integers(0, "traversal_order"), table.integers(1, "block_map")
    levels = table.table_list(2, "dim_metadata")
    rank = len(shape)
    fits = sorted(order) == list(range(rank + len(blocked))) and len(levels) == len(order)
    if not fits or any(not 0 <= x < rank for x in blocked):
        text = f"{len(levels)} levels in the order {list(order)} for {rank} dimensions"
        raise table.source.error(text, table.where)
    at: dict[int, Places] = {}
    entries: Places = np.zeros(1, np.int64)
    sizes: dict[int, int] = {}
    for dimension, level in zip(order, levels, strict=True):
        parents, places = _level(level, len(entries))
        at = {x: y[parents] for x, y in at.items()}
        at[dimension] = places
        entries = parents
        if len(entries) > max(prod(shape), 1):
            raise table.source.error("has more elements than the tensor", level.where)
        sizes[dimension] = level.integer(1)
    if len(entries) != len(kept):
        text = f"{len(kept)} elements for {len(entries)} places"
        raise table.source.error(text, table.where)
    for number, dimension in enumerate(blocked):
        at[dimension] = at[dimension] * sizes[rank + number] + at[rank + number]
    index = tuple([at[x] for x in range(rank)])
    if any(
        len(x) and not 0 <= int(x.min()) <= int(x.max()) < n
        for x, n in zip(index, shape, strict=True)
    ):
        raise table.source.error(f"a place is outside of {list(shape)}", table.where)
    found = np.zeros(shape, kept.dtype)
    found[index] = kept
    return found


def _level(table: FlatTable, count: int) -> tuple[Places, Places]:
    """Of each entry of a level: the entry above it, of `count`, and its place."""
    form = int(table.scalar(0, "b", 0))
    if form == _DENSE:
        size = table.integer(1)
        if size < 0 or size * count > len(table.source.data) << 8:
            raise table.source.error(f"size {size}", table.where)
        return np.repeat(np.arange(count), size), np.tile(np.arange(size), count)
    if form != _KEPT:
        raise table.source.error(f"format {form}; known are 0 and 1", table.where)
    segments, places = [_vector(table, x, y) for x, y in ((2, "segments"), (4, "indices"))]
    counts = np.diff(segments)
    if len(counts) != count or (counts < 0).any() or counts.sum() != len(places):
        text = f"{len(segments)} segments of {len(places)} places for {count} entries"
        raise table.source.error(text, table.where)
    return np.repeat(np.arange(count), counts), places


def _vector(table: FlatTable, field: int, name: str) -> Places:
    code = int(table.scalar(field, "B", 0))
    found = table.table(field + 1, f"array_{name}")
    if code not in _VECTORS or found is None:
        raise table.source.error(f"has no array of {name}", table.where)
    return found.array(0, _VECTORS[code], "values").astype(np.int64)
