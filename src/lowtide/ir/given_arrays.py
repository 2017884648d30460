"""Arrays that callers give for shapes: counted, opened, compared, and read as the wanted type."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any, Protocol

import numpy as np

from lowtide.ir.element_type import ElementType
from lowtide.ir.errors import InputError
from lowtide.ir.literal import DTYPES, Array
from lowtide.ir.shape import UNBOUNDED, Shape


class Wanted(Protocol):
    """An array that is wanted; `str` of it is its name in messages."""

    @property
    def shape(self) -> Shape:
        """Its element type and sizes."""


def missing_text(wanted: Sequence[Wanted], given: int) -> str:
    """Return what to say of the first array that is missing where `given` ones are there."""
    if given >= len(wanted):
        return ""
    first = wanted[given]
    return f"; the first one missing is {first}, {first.shape.text(layout=False)}"


def check_count(wanted: Sequence[Wanted], given: int) -> None:
    """Raise InputError unless as many arrays are given as a program takes."""
    if given != len(wanted):
        message = f"the module takes {len(wanted)} arguments, found {given}"
        raise InputError(message + missing_text(wanted, given))


def opened_array(given: Any) -> Array:
    """Return an array of what has one to show; of the plain class, on the same memory if possible.

    Arrays that offer only DLPack are opened by that.
    """
    plain = hasattr(given, "__array__") or not hasattr(given, "__dlpack__")
    return np.asarray(given) if plain else np.from_dlpack(given)


def sizes_fit(sizes: tuple[int, ...], shape: Shape) -> bool:
    """Whether an array of some sizes may be given; dynamic dimensions are bounds."""
    dynamic = shape.dynamic or (False,) * shape.rank
    return len(sizes) == shape.rank and all(
        size == bound or (flag and (bound == UNBOUNDED or size < bound))
        for size, bound, flag in zip(sizes, shape.dimensions, dynamic, strict=True)
    )


def type_text(array: Array) -> str:
    """Return type and sizes of an array, for errors."""
    order = "" if array.dtype.isnative else " in the other order of bytes"
    return f"{array.dtype.name}{list(array.shape)}{order}"


def misfit(wanted: Wanted, array: Array) -> InputError:
    """Return the error that says what is wanted and what was given."""
    dtype = DTYPES[wanted.shape.element_type]
    needed = f"{wanted.shape.text(layout=False)} (dtype {dtype.name})"
    return InputError(f"{wanted} needs {needed}, found {type_text(array)}")


def read_as(wanted: Wanted, array: Array, given: Any) -> Array:
    """Return an array in the wanted type, without a copy if possible; `given` is what it shows.

    An unsigned array of equal width is read as the wanted type; a Python number is converted.
    Raises InputError where it does not fit.
    """
    element_type = wanted.shape.element_type
    dtype = DTYPES[element_type]
    if array.dtype == dtype:
        return array
    if isinstance(given, (bool, int, float, complex)):
        return _converted(wanted, given, dtype)
    if array.dtype.kind != "u" or array.dtype.itemsize != dtype.itemsize:
        raise misfit(wanted, array)
    if element_type is ElementType.PRED or element_type.bits % 8:
        return array.astype(dtype)
    return np.ascontiguousarray(array).view(dtype).reshape(array.shape)


def _converted(wanted: Wanted, number: complex, dtype: np.dtype[Any]) -> Array:
    if isinstance(number, complex) and not wanted.shape.element_type.is_complex:
        raise InputError(f"{wanted} cannot be {number!r}: it is no complex number")
    if wanted.shape.element_type.is_integer and isinstance(number, float) and not isfinite(number):
        raise InputError(f"{wanted} cannot be {number!r}: it is an integer")
    try:
        return np.asarray(number).astype(np.result_type(type(number), np.int8)).astype(dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{wanted} cannot be {number!r}: {error}") from error
