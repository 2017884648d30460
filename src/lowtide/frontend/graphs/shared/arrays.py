"""Rearrangements in NumPy's manner: slices, splits, padding, tiles, blocks."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from lowtide.builder import Builder, BuildError, Op
from lowtide.frontend.graphs.shared.broadcasting import expand


def reshaped(b: Builder, x: Op, sizes: Sequence[int]) -> Op:
    """Return x with other sizes, one of which may be -1: what is left for it."""
    found = list(sizes)
    count = math.prod(x.dimensions)
    if found.count(-1) > 1 or min(found, default=0) < -1:
        raise BuildError(f"sizes {found} have more than one that is not known")
    if -1 in found:
        rest = math.prod([n for n in found if n != -1])
        if not rest or count % rest:
            raise BuildError(f"{list(x.dimensions)} cannot be reshaped to {found}")
        found[found.index(-1)] = count // rest
    if math.prod(found) != count:
        raise BuildError(f"{list(x.dimensions)} cannot be reshaped to {found}")
    return x if tuple(found) == x.dimensions else b.reshape(x, found)


def inserted(b: Builder, x: Op, axes: Sequence[int]) -> Op:
    """Return x with dimensions of size 1, which are number `axes` (sorted) of the result."""
    sizes = list(x.dimensions)
    for axis in axes:
        sizes.insert(axis, 1)
    return b.reshape(x, sizes)


def squeezed(b: Builder, x: Op, axes: Sequence[int]) -> Op:
    """Return x without some dimensions, which have to be of size 1."""
    wide = [i for i in axes if x.dimensions[i] != 1]
    if wide:
        raise BuildError(f"dimension {wide[0]} of {list(x.dimensions)} is not 1")
    return b.reshape(x, [n for i, n in enumerate(x.dimensions) if i not in axes])


def sliced(b: Builder, x: Op, parts: Sequence[slice]) -> Op:
    """Return the part that slices name, one for each dimension; steps may be negative."""
    starts, limits, strides, backwards = [], [], [], []
    for i, (part, size) in enumerate(zip(parts, x.dimensions, strict=True)):
        found = range(size)[part]
        ends = sorted([found[0], found[-1]]) if found else [0, -1]
        starts.append(ends[0])
        limits.append(ends[1] + 1)
        strides.append(abs(found.step))
        if found.step < 0 and len(found) > 1:
            backwards.append(i)
    if limits != list(x.dimensions) or any(starts) or max(strides, default=1) > 1:
        x = b.slice(x, starts, limits, strides)
    return b.reverse(x, backwards) if backwards else x


def split(b: Builder, x: Op, sizes: Sequence[int], axis: int) -> list[Op]:
    """Return consecutive parts of the given sizes along a dimension."""
    if sum(sizes) != x.dimensions[axis] or min(sizes, default=0) < 0:
        raise BuildError(f"{list(x.dimensions)} cannot be split into {list(sizes)} along {axis}")
    ends = np.cumsum([0, *sizes]).tolist()
    parts = [slice(None)] * x.rank
    found = []
    for start, end in itertools.pairwise(ends):
        parts[axis] = slice(start, end)
        found.append(sliced(b, x, parts))
    return found


def concatenated(b: Builder, values: Sequence[Op], axis: int) -> Op:
    """Return the values one after another along a dimension."""
    return values[0] if len(values) == 1 else b.concatenate(values, axis)


def tiled(b: Builder, x: Op, counts: Sequence[int]) -> Op:
    """Return x repeated along each dimension."""
    if len(counts) != x.rank or min(counts, default=0) < 0:
        raise BuildError(f"{list(counts)} are no counts for the {x.rank} dimensions of {x.shape}")
    sizes = [m for pair in zip(counts, x.dimensions, strict=True) for m in pair]
    spread = b.broadcast(x, sizes, range(1, 2 * x.rank, 2))
    return b.reshape(spread, [c * n for c, n in zip(counts, x.dimensions, strict=True)])


def mirrored(b: Builder, x: Op, padding: Sequence[tuple[int, int]], *, with_edge: bool) -> Op:
    """Return x reflected at its borders, the element at the border twice `with_edge`."""
    skip = 0 if with_edge else 1
    for axis, (low, high) in enumerate(padding):
        n = x.dimensions[axis]
        if max(low, high) + skip > n:
            raise BuildError(f"dimension {axis} of {list(x.dimensions)} is reflected once at most")
        before = _part(b, x, axis, skip, skip + low)
        after = _part(b, x, axis, n - skip - high, n - skip)
        flipped = [b.reverse(before, [axis]), x, b.reverse(after, [axis])]
        x = concatenated(b, [y for y in flipped if y.dimensions[axis]] or [x], axis)
    return x


def wrapped(b: Builder, x: Op, padding: Sequence[tuple[int, int]]) -> Op:
    """Return x as if it went on with its own elements outside of its borders."""
    for axis, (low, high) in enumerate(padding):
        n = x.dimensions[axis]
        if low < 0 or high < 0 or (n == 0 and (low or high)):
            raise BuildError(
                f"dimension {axis} of {list(x.dimensions)} cannot go on by {low, high}"
            )
        if low or high:
            before, after = -(-low // n), -(-high // n)
            whole = concatenated(b, [x] * (before + 1 + after), axis)
            start = before * n - low
            x = _part(b, whole, axis, start, start + low + n + high)
    return x


def repeated_edges(b: Builder, x: Op, padding: Sequence[tuple[int, int]]) -> Op:
    """Return x with its first and last elements repeated outside of its borders."""
    for axis, (low, high) in enumerate(padding):
        n = x.dimensions[axis]
        ends = [(_part(b, x, axis, 0, 1), low), (_part(b, x, axis, n - 1, n), high)]
        spread = [expand(b, part, _with(x.dimensions, axis, k)) for part, k in ends]
        around = [spread[0], x, spread[1]]
        x = concatenated(b, [y for y in around if y.dimensions[axis]] or [x], axis)
    return x


def padded(b: Builder, x: Op, value: Op, padding: Sequence[tuple[int, int]]) -> Op:
    """Return x with `value` around it; a negative number takes elements away."""
    return b.pad(x, value, list(padding)) if any(map(any, padding)) else x


def _part(b: Builder, x: Op, axis: int, start: int, end: int) -> Op:
    parts = [slice(None)] * x.rank
    parts[axis] = slice(start, end)
    return sliced(b, x, parts)


def _with(sizes: Sequence[int], axis: int, size: int) -> list[int]:
    return [size if i == axis else n for i, n in enumerate(sizes)]


def blocks_to_depth(b: Builder, x: Op, size: int) -> Op:
    """Return [n, h/s, w/s, s*s*c] of blocks of [n, h, w, c]."""
    n, h, w, c = x.dimensions
    if h % size or w % size:
        raise BuildError(f"{h} x {w} is no multiple of blocks of {size}")
    parts = b.reshape(x, [n, h // size, size, w // size, size, c])
    return b.reshape(
        b.transpose(parts, [0, 1, 3, 2, 4, 5]), [n, h // size, w // size, size * size * c]
    )


def depth_to_blocks(b: Builder, x: Op, size: int, *, depth_first: bool = False) -> Op:
    """Return [n, h*s, w*s, c] of [n, h, w, s*s*c], or of c*s*s channels if `depth_first`."""
    n, h, w, depth = x.dimensions
    c = depth // (size * size)
    if c * size * size != depth:
        raise BuildError(f"{depth} channels are no multiple of {size} * {size}")
    inner = [c, size, size] if depth_first else [size, size, c]
    order = [0, 1, 4, 2, 5, 3] if depth_first else [0, 1, 3, 2, 4, 5]
    parts = b.transpose(b.reshape(x, [n, h, w, *inner]), order)
    return b.reshape(parts, [n, h * size, w * size, c])
