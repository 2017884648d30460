"""Tests of nodes of trees, on features and thresholds of any shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from lowtide.builder import Builder, Op
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

_INSTEAD: Final = {"LEQ": -np.inf, "LT": -np.inf, "GTE": np.inf, "GT": np.inf}
"""By mode the number that passes each test whose threshold it is not."""


def largest_feature(forest: Forest) -> int:
    """Return the greatest number of a feature, leaves' left out."""
    return int(forest.features.max(initial=0))


def passing_number(forest: Forest, nodes: Array) -> float | None:
    """Return the number that passes where one that is none does; None where there is no such one.

    It stands for what is no number in the tests of those `nodes` which let this pass.
    """
    passing = nodes[forest.nan_is_true[nodes]]
    found = {_INSTEAD.get(MODES[x]) for x in np.unique(forest.modes[passing]).tolist()}
    if len(found) != 1:
        return None
    (number,) = found
    return None if number is None or (forest.thresholds[passing] == number).any() else number
