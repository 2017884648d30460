"""Digits say for each element of a reshaped, transposed array where it was, and are unique."""

from itertools import product
from math import prod

import numpy as np
import pytest

from lowtide.fusion.index_digits import IndexMap, count, digits_of, overlap, regrouped, whole_axes

AXES = (4, 6, 5)
STEPS = [
    [("reshape", (24, 5))],
    [("reshape", (2, 2, 1, 6, 5)), ("transpose", (3, 1, 0, 2, 4)), ("reshape", (6, 4, 5))],
    [("reshape", (8, 3, 5)), ("transpose", (2, 1, 0)), ("reshape", (15, 2, 4))],
    [("transpose", (1, 0, 2)), ("reshape", (2, 12, 5)), ("reshape", (6, 4, 5))],
]


def places(index_map: IndexMap) -> np.ndarray:
    """Return the flat index along the axes of each element of a value with this map."""
    sizes = [count(digits) for digits in index_map]
    found = np.zeros(sizes, int)
    weights = [prod(AXES[i + 1 :]) for i in range(len(AXES))]
    for at in product(*map(range, sizes)):
        for digits, index in zip(index_map, at, strict=True):
            rest = index
            for digit in reversed(digits):
                found[at] += rest % digit.size * digit.stride * weights[digit.axis]
                rest //= digit.size
    return found


@pytest.mark.parametrize("steps", STEPS)
def test_they_follow_reshapes_and_transposes(steps: list[tuple[str, tuple[int, ...]]]) -> None:
    array = np.arange(prod(AXES)).reshape(AXES)
    index_map: IndexMap | None = whole_axes(AXES)
    for step, argument in steps:
        assert index_map is not None
        if step == "reshape":
            array = array.reshape(argument)
            index_map = regrouped(digits_of(index_map), argument)
        else:
            array = array.transpose(argument)
            index_map = tuple([index_map[d] for d in argument])
    assert index_map is not None
    assert (places(index_map) == array).all()


def test_what_was_split_and_merged_again_is_as_it_was() -> None:
    split = regrouped(digits_of(whole_axes(AXES)), (2, 2, 3, 2, 5))
    assert split is not None
    assert regrouped(digits_of(split), AXES) == whole_axes(AXES)


def test_digits_that_do_not_divide_are_refused() -> None:
    assert regrouped(digits_of(whole_axes(AXES)), (3, 8, 5)) is None
    assert regrouped(digits_of(whole_axes(AXES)), (4, 6)) is None
    assert regrouped(digits_of(whole_axes(AXES)), (4, 6, 5, 2)) is None


def test_parts_of_an_axis_overlap_where_they_share_a_digit() -> None:
    split = regrouped(digits_of(whole_axes((8,))), (2, 2, 2))
    assert split is not None
    high, middle, low = split
    assert not overlap(high, low)
    assert not overlap(high, middle)
    assert overlap(digits_of((high, middle)), digits_of((middle, low)))
    assert overlap(digits_of(whole_axes((8,))), low)
