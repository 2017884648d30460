"""Values of images between their elements, at coordinates that are computed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.shared.broadcasting import scalar
from lowtide.frontend.graphs.shared.indexing import take_vectors
from lowtide.ir.element_type import ElementType
from lowtide.ir.literal import Array

CUBIC: Final = -0.75
"""The parameter of cubic interpolation (Keys 1981, Cubic convolution interpolation)."""

Tap = tuple[Op, Op]
"""The position of a neighbour, as a whole number in floats, and its weight."""


def neighbours(b: Builder, at: Op, mode: str) -> list[Tap]:
    """Return the neighbours of coordinates along one dimension, for a mode.

    The mode is "nearest" (of two equal ones the even one), "linear" or "cubic".
    """
    if mode == "nearest":
        found = b.round_nearest_even(at)
        return [(found, b.broadcast(scalar(b, 1, at), at.dimensions, []))]
    low = b.floor(at)
    share = at - low
    if mode == "linear":
        return [(low, b.subtract(1, share)), (low + 1, share)]
    weights = [
        _outer(b, share + 1),
        _inner(b, share),
        _inner(b, b.subtract(1, share)),
        _outer(b, b.subtract(2, share)),
    ]
    return [(low + (i - 1), weight) for i, weight in enumerate(weights)]


def _inner(_: Builder, x: Op) -> Op:
    return ((x * (CUBIC + 2)) - (CUBIC + 3)) * x * x + 1


def _outer(_: Builder, x: Op) -> Op:
    return ((x * CUBIC - 5 * CUBIC) * x + 8 * CUBIC) * x - 4 * CUBIC


def reflected(b: Builder, at: Op, low: float, high: float) -> Op:
    """Return coordinates mirrored at the borders until they are within [low, high]."""
    reach = high - low
    if reach <= 0:
        return b.broadcast(scalar(b, low, at), at.dimensions, [])
    distance = b.abs(at - low)
    turns = b.floor(distance / reach)
    rest = distance - turns * reach
    is_odd = (turns - b.floor(turns / 2) * 2).gt(0.5)
    return b.select(is_odd, b.subtract(high, rest), rest + low)


def clamped(b: Builder, at: Op, size: int) -> Op:
    """Return coordinates within [0, size - 1]."""
    return b.clamp(scalar(b, 0, at), at, scalar(b, size - 1, at))


def sample(
    b: Builder,
    image: Op,
    taps: Sequence[Sequence[Tap]],
    borders: Sequence[tuple[float, float]] | None,
) -> Op:
    """Return [n, c, points] of an image [n, c, ...], from neighbours [n, points] by dimension.

    Those outside of the image are 0, or are mirrored at the borders where these are given.
    """
    sizes = image.dimensions[2:]
    last = b.transpose(image, [0, *range(2, image.rank), 1])
    total: Op | None = None
    for chosen in itertools.product(*taps):
        places, weight = [], None
        inside: Op | None = None
        for i, (at, share) in enumerate(chosen):
            if borders is None:
                valid = at.ge(0) & at.le(sizes[i] - 1)
                inside = valid if inside is None else inside & valid
            else:
                # A border lies half an element outside, so what is mirrored is truncated.
                at = _truncated(b, reflected(b, at, *borders[i]))
            places.append(b.convert(clamped(b, at, sizes[i]), ElementType.S32))
            weight = share if weight is None else weight * share
        assert weight is not None
        if inside is not None:
            weight = b.select(
                inside, weight, b.broadcast(scalar(b, 0, weight), weight.dimensions, [])
            )
        wide = [b.reshape(x, [*x.dimensions, 1]) for x in places]
        vectors = wide[0] if len(wide) == 1 else b.concatenate(wide, 2)
        values = take_vectors(b, last, vectors, 1)
        factor = b.broadcast(b.convert(weight, values.element_type), values.dimensions, [0, 1])
        total = values * factor if total is None else total + values * factor
    assert total is not None
    return b.transpose(total, [0, 2, 1])


def _truncated(b: Builder, at: Op) -> Op:
    return b.convert(b.convert(at, ElementType.S32), at.element_type)


# -- resizing --------------------------------------------------------------------------------------


def resizing_weights(
    coordinates: Array,
    n: int,
    scale: float,
    mode: str,
    *,
    a: float = CUBIC,
    exclude_outside: bool,
    antialias: bool,
) -> Array:
    """Return the matrix [m, n] by which n elements give values at m coordinates.

    The mode is "linear" or "cubic". Neighbours outside are the element at the border, or do not
    count with `exclude_outside`; with `antialias` the filter is as wide as one step of a `scale`
    below 1. `a` is the parameter of cubic interpolation.
    """
    stretch = min(scale, 1.0) if antialias else 1.0
    reach = (1 if mode == "linear" else 2) / stretch
    found = np.zeros((len(coordinates), n))
    for row, at in zip(found, coordinates, strict=True):
        first = math.floor(at - reach) + 1
        places = np.arange(first, math.ceil(at + reach))
        if not len(places):
            places = np.array([round(float(at))])
        weights = _filter(np.abs((places - at) * stretch), mode, a)
        if exclude_outside:
            weights = np.where((places < 0) | (places >= n), 0, weights)
        if exclude_outside or antialias:
            weights = weights / (weights.sum() or 1)
        np.add.at(row, np.clip(places, 0, n - 1), weights)
    return found


def _filter(x: Array, mode: str, a: float) -> Array:
    if mode == "linear":
        return np.asarray(np.maximum(1 - x, 0))
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0))
