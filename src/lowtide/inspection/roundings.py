"""Differences that rounding explains: no more than results move when arguments do by a last bit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from lowtide.checking.tolerances import Difference, worst_difference
from lowtide.ir import Shape
from lowtide.ir.literal import Array

NOISE_FACTOR: Final = 16.0
"""An error may be so many times the change of a result when operands move by their last bit."""


def first_difference(
    shape: Shape, found: Sequence[Array], expected: Sequence[Array], factor: float
) -> tuple[int, Difference] | None:
    """Return the first array of a result that is further off than `factor` allows, and by what."""
    for number, leaf in enumerate(_leaves(shape)):
        got = found[number]
        if got.dtype == np.bool_ and got.size and int(np.max(got.view(np.uint8))) > 1:
            byte = str(int(np.max(got.view(np.uint8))))
            return number, Difference((), byte, "0 or 1", 1.0, 0.0, 1)
        wrong = worst_difference(got, expected[number], leaf.element_type, factor=factor)
        if wrong is not None:
            return number, wrong
    return None


def moved_by_roundings(operands: Sequence[Array]) -> Iterator[list[Array]]:
    """Yield operands whose numbers are a little larger, a little smaller, and either at random."""
    yield [_moved_array(x, np.ones(x.size, np.int8)) for x in operands]
    yield [_moved_array(x, -np.ones(x.size, np.int8)) for x in operands]
    for seed in range(2):
        random = np.random.default_rng(seed)
        yield [_moved_array(x, random.choice(np.array([-1, 1], np.int8), x.size)) for x in operands]


def _moved_array(array: Array, steps: Array) -> Array:
    """Return an array whose numbers are further from 0 by so many units of their last place."""
    dtype = array.dtype
    if dtype.kind == "c":
        parts = np.ascontiguousarray(array).reshape(-1).view(array.real.dtype)
        moved = _moved_array(parts, np.repeat(steps, 2))
        return moved.view(dtype).reshape(array.shape)
    if dtype.kind in "biu" or "int" in dtype.name:
        return array
    flat = np.ascontiguousarray(array).reshape(-1)
    bits = flat.view(f"i{dtype.itemsize}")
    further = (bits + steps.astype(bits.dtype)).view(dtype)
    wide = flat.astype(np.float64)
    kept = ~np.isfinite(further.astype(np.float64)) | ~np.isfinite(wide) | (wide == 0)
    return np.where(kept, flat, further).reshape(array.shape)


def beyond_noise(
    shape: Shape,
    found: Sequence[Array],
    expected: Sequence[Array],
    noises: Sequence[Sequence[Array]],
    factor: float,
) -> str:
    """Return which result differs by more than its noise, and where most, or ""."""
    for number, leaf in enumerate(_leaves(shape)):
        pair = [found[number].copy(), expected[number]]
        for noise in noises:
            pair[0] = _within(pair[0], expected[number], noise[number])
        one = first_difference(leaf, pair[:1], pair[1:], factor)
        if one is not None:
            wide = first_difference(leaf, found[number : number + 1], pair[1:], factor)
            assert wide is not None
            return f"result {number}, {leaf.text(layout=False)}: {wide[1]}"
    return ""


def _plain(array: Array) -> Array:
    """Integers that NumPy can compare: those of fewer bits than a byte as bytes."""
    return array if array.dtype.kind in "biu" else array.astype(np.int8)


def _within(found: Array, expected: Array, noise: Array) -> Array:
    """What is found, replaced by what is expected where the difference is no more than noise."""
    if found.dtype.kind in "biu" or "int" in found.dtype.name:
        x, y, z = (_plain(v) for v in (found, expected, noise))
        between = (np.minimum(y, z) <= x) & (x <= np.maximum(y, z))
        return np.where(between, expected, found)
    wide = np.complex128 if found.dtype.kind == "c" else np.float64
    with np.errstate(all="ignore"):
        a, b, c = (x.astype(wide) for x in (found, expected, noise))
        change = np.abs(c - b)
        most = np.max(change[np.isfinite(change)], initial=0.0)
        close = np.abs(a - b) <= NOISE_FACTOR * most
        odd = np.isfinite(b) != np.isfinite(c)
    return np.where(close | odd, expected, found)


def _leaves(shape: Shape) -> list[Shape]:
    return [leaf for _, leaf in shape.leaves() if leaf.is_array]
