"""Dimensions of a value along the axes of a kernel, through reshapes and transposes.

A dimension of an array is a number of several digits, each of which is taken from the index along
one axis. To merge two dimensions puts their digits side by side; to split one parts them. Two
values lie alike exactly if their digits are equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from math import prod
from typing import NamedTuple, TypeAlias


class Digit(NamedTuple):
    """The part `index // stride % size` of the index along an axis."""

    axis: int
    stride: int
    size: int


Digits: TypeAlias = tuple[Digit, ...]
"""Of one dimension, the most significant digit first; none where its size is 1."""

IndexMap: TypeAlias = tuple[Digits, ...]
"""Of all dimensions of a value."""


def whole_axes(sizes: Sequence[int], first: int = 0) -> IndexMap:
    """Return the map of an array whose dimensions are the axes from `first` on."""
    return tuple(
        [(Digit(first + i, 1, size),) if size != 1 else () for i, size in enumerate(sizes)]
    )


def digits_of(index_map: IndexMap) -> Digits:
    """Return the digits of all dimensions, from the first dimension to the last."""
    return tuple(chain.from_iterable(index_map))


def regrouped(digits: Digits, sizes: Sequence[int]) -> IndexMap | None:
    """Return the map of a reshape to other sizes, None where a digit does not divide so."""
    waiting = list(reversed(digits))
    dimensions: list[Digits] = []
    for size in sizes:
        taken: list[Digit] = []
        left = size
        while left > 1:
            if not waiting:
                return None
            digit = waiting.pop()
            if left % digit.size == 0:
                taken.append(digit)
                left //= digit.size
                continue
            if digit.size % left:
                return None
            low = digit.size // left
            taken.append(Digit(digit.axis, digit.stride * low, left))
            waiting.append(Digit(digit.axis, digit.stride, low))
            left = 1
        dimensions.append(_merged(taken))
    return None if waiting else tuple(dimensions)


def _merged(digits: Iterable[Digit]) -> Digits:
    """Return digits with neighbours that continue each other as one, so that equal ones compare."""
    merged: list[Digit] = []
    for digit in digits:
        before = merged[-1] if merged else None
        if (
            before is not None
            and before.axis == digit.axis
            and before.stride == digit.stride * digit.size
        ):
            merged[-1] = Digit(digit.axis, digit.stride, before.size * digit.size)
        else:
            merged.append(digit)
    return tuple(merged)


def count(digits: Digits) -> int:
    """Return how many values the digits take together."""
    return prod([digit.size for digit in digits])


def overlap(a: Digits, b: Digits) -> bool:
    """Whether some digit of each is taken from the same part of one axis."""
    return any(
        x.axis == y.axis and x.stride < y.stride * y.size and y.stride < x.stride * x.size
        for x in a
        for y in b
    )
