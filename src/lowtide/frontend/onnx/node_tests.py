"""Tests of nodes of trees as few comparisons, of features and thresholds of any shape."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import numpy as np

from lowtide.builder import Op
from lowtide.frontend.onnx.forest import MODES, Forest
from lowtide.ir.literal import Array

COMPARE: Final[tuple[Callable[[Op, Op], Op], ...]] = (
    lambda x, y: x.le(y),
    lambda x, y: x.lt(y),
    lambda x, y: x.ge(y),
    lambda x, y: x.gt(y),
    lambda x, y: x.eq(y),
    lambda x, y: x.ne(y),
)
"""The comparisons, in the order of `forest.MODES`."""

_LEQ, _LT, _GTE, _GT, _EQ, _NEQ = range(len(MODES))

_INSTEAD: Final = {_LEQ: -np.inf, _LT: -np.inf, _GTE: np.inf, _GT: np.inf}
"""By mode the number that passes each test whose threshold it is not."""


def without_unequal(forest: Forest) -> Forest:
    """Return trees in which no test is that something is unequal: of the others sides are swapped.

    What is no number is unequal to all, whether the node has this pass or not.
    """
    swapped = forest.modes == _NEQ
    return replace(
        forest,
        modes=np.where(swapped, _EQ, forest.modes),
        on_true=np.where(swapped, forest.on_false, forest.on_true),
        on_false=np.where(swapped, forest.on_true, forest.on_false),
        nan_is_true=forest.nan_is_true & ~swapped,
    )


def bounds(forest: Forest, nodes: Array, dtype: Any) -> tuple[Array | None, Array | None]:
    """Return the least and the greatest number that passes each test, for `without_unequal`.

    None stands for bounds that no test has. No number passes where a bound is none. Bounds are of
    a type of floats, between two neighbours of which a threshold is.
    """
    modes, found = forest.modes[nodes], forest.thresholds[nodes].astype(dtype)
    above = np.where(modes == _GT, _beside(found, np.inf), found)
    below = np.where(modes == _LT, _beside(found, -np.inf), found)
    has_least, has_most = (np.isin(modes, x) for x in ((_GTE, _GT, _EQ), (_LEQ, _LT, _EQ)))
    least = np.where(has_least, above, -np.inf).astype(dtype) if has_least.any() else None
    return least, np.where(has_most, below, np.inf).astype(dtype) if has_most.any() else None


def _beside(values: Array, end: float) -> Array:
    """The next numbers towards an end, beyond which there is none."""
    found: Array = np.where(values == end, np.nan, np.nextafter(values, values.dtype.type(end)))
    return found


def passing_number(forest: Forest, nodes: Array) -> float | None:
    """Return the number that passes where one that is none does; None where there is no such one.

    It stands for what is no number in the tests of those `nodes` which let this pass.
    """
    passing = nodes[forest.nan_is_true[nodes]]
    found = {_INSTEAD.get(x) for x in np.unique(forest.modes[passing]).tolist()}
    if len(found) != 1:
        return None
    (number,) = found
    impassable = forest.thresholds[passing]
    is_passed = not (np.isnan(impassable) | (impassable == number)).any()
    return number if is_passed else None
