"""Values between the nodes of a model: arrays, sequences of values, and optional ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import is_ as _is
from typing import Any, TypeAlias

import numpy as np

from lowtide.ir.literal import ELEMENT_TYPES, Array

Value: TypeAlias = Any
"""An array (strings are one of objects), a list of values, a dict of a map, or None."""


def as_value(given: Any) -> Value:
    """Return what a caller gave as a value: scalars and nested lists of them become arrays."""
    if given is None or isinstance(given, dict | list):
        return given
    array = np.asarray(given)
    return array.astype(object) if array.dtype.kind in "US" else array


def is_tensor(value: Value) -> bool:
    """Whether modules can compute with a value."""
    return isinstance(value, np.ndarray) and value.dtype in ELEMENT_TYPES


def tensor(value: Value, what: str) -> Array:
    """Return a value that has to be an array; raises TypeError, which names `what`."""
    if not isinstance(value, np.ndarray):
        raise TypeError(f"{what} has to be an array, found {type(value).__name__}")
    return value


def read_only(array: Array) -> Array:
    """Return a view for callers to whom the same array is given in each run."""
    view = array.view()
    view.setflags(write=False)
    return view


def apart(results: Sequence[Value], feeds: Mapping[str, Value]) -> list[Value]:
    """Return results that are not in the memory of what is fed: copies of those that are."""
    fed = [x for x in feeds.values() if isinstance(x, np.ndarray)]
    return [_apart(x, fed) for x in results]


def _apart(value: Value, fed: Sequence[Array]) -> Value:
    if isinstance(value, list):
        return [_apart(x, fed) for x in value]
    if not isinstance(value, np.ndarray):
        return value
    is_in = _is if value.base is None else np.may_share_memory
    return value.copy() if any(is_in(value, x) for x in fed) else value
