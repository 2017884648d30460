"""Feeds of a run, checked against the inputs of the model as ONNX Runtime checks them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from lowtide.frontend.onnx.interface import ValueType
from lowtide.ir.errors import InputError
from lowtide.ir.literal import DTYPES
from lowtide.onnx.values import Value, as_value
from lowtide.suggestions import nearest


def checked_feeds(
    feeds: Mapping[str, Any], inputs: Mapping[str, ValueType], overridable: Mapping[str, ValueType]
) -> dict[str, Value]:
    """Return the values that are fed, by name; `overridable` names may be fed too.

    Numbers and lists of them become arrays of the input's type. Raises InputError for names that
    there are not, inputs that are missing, and values of another type, rank or size.
    """
    for name in feeds:
        if name not in inputs and name not in overridable:
            known = [*inputs, *overridable]
            raise InputError(f"Invalid Feed Input Name: {name!r}{nearest(name, known)}")
    missing = [x for x in inputs if x not in feeds]
    if missing:
        raise InputError(f"Required inputs ({missing}) are missing from input feed ({list(feeds)})")
    values: dict[str, Value] = {}
    for name, given in feeds.items():
        expected = inputs[name] if name in inputs else overridable[name]
        values[name] = _value(given, expected)
        _check(values[name], expected)
    return values


def _value(given: Any, expected: ValueType) -> Value:
    """What a caller gave as a value; numbers and lists get the type that is expected."""
    if type(given) is np.ndarray and given.dtype.kind not in "US":
        return given
    is_array = isinstance(given, np.ndarray | np.generic)
    if is_array or expected.kind != "tensor":
        return as_value(given)
    dtype = None if expected.element_type is None else DTYPES[expected.element_type]
    try:
        return np.asarray(given, object if dtype is None else dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"input {expected.name!r} cannot be {given!r:.80}: {error}") from error


def _check(value: Value, expected: ValueType) -> None:
    """Raise InputError for a value of another type; sizes with names may be any."""
    if expected.kind != "tensor":
        return
    wanted = None if expected.element_type is None else DTYPES[expected.element_type]
    if not isinstance(value, np.ndarray):
        raise InputError(
            f"input {expected.name!r} has to be an array, found {type(value).__name__}"
        )
    if wanted is not None and value.dtype != wanted:
        order = "" if value.dtype.isnative else " in the other order of bytes"
        raise InputError(
            f"Unexpected input data type for {expected.name!r}. Actual: {value.dtype.name}{order}, "
            f"expected: {wanted.name}"
        )
    if expected.sizes is None or value.shape == expected.sizes:
        return
    if value.ndim != len(expected.sizes):
        raise InputError(
            f"Invalid rank for input: {expected.name}. Got: {value.ndim} Expected: "
            f"{len(expected.sizes)}"
        )
    wrong = [
        f"index: {index} Got: {size} Expected: {given}"
        for index, (size, given) in enumerate(zip(value.shape, expected.sizes, strict=True))
        if isinstance(given, int) and given != size
    ]
    if wrong:
        raise InputError(
            f"Got invalid dimensions for input: {expected.name} for the following indices: "
            f"{'; '.join(wrong)}"
        )
