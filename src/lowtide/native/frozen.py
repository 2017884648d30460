"""Frozen records: arrays and numbers that belong together, which native code takes as one argument.

Native code gets the address of a table of 64-bit words: one per field, in order, those of a record
within a record in its place. An array is its address.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from lowtide.native.kinds import FLOAT, INT, ItemsKind, Kind, Reference, fields_of
from lowtide.native.records import NativeError

Array: TypeAlias = npt.NDArray[np.int64]
"""A contiguous array of 64-bit integers that native code reads and writes."""

FloatArray: TypeAlias = npt.NDArray[np.float64]
"""A contiguous array of 64-bit floats that native code reads and writes."""

_ARRAYS: Final[dict[Kind, tuple[str, type]]] = {
    ItemsKind(INT): ("Array", np.int64),
    ItemsKind(FLOAT): ("FloatArray", np.float64),
}
_INTS: Final = np.dtype(np.int64)
_FLOATS: Final = np.dtype(np.float64)
_NUMBERS: Final[dict[Kind, tuple[str, str, tuple[type, ...]]]] = {
    INT: ("int", "q", (int, np.integer)),
    FLOAT: ("float", "d", (int, float)),
}
"""The annotation of a number, its code in `struct`, and the types of Python's that are one."""


class Record:
    """Base of frozen dataclasses that native code takes as arguments.

    Fields are annotated `int`, `float`, `Array`, `FloatArray` or with another record class. Native
    code reads them, reads and writes the arrays, and passes records on; no field is ever set.
    """

    __slots__ = ("_table",)

    _table: bytes

    @property
    def table(self) -> bytes:
        """The words that native code reads, made when they are first asked for.

        Raises NativeError where a field has another type than its annotation says, or holds an
        array that is not contiguous, aligned and writable.
        """
        try:
            return self._table
        except AttributeError:
            object.__setattr__(self, "_table", _table_of(self))
            return self._table

    def values(self) -> list[Any]:
        """Return the values of the fields, in order."""
        return [getattr(self, name) for name in fields_of(type(self))]


def address_of_items(value: Any, kind: Kind, name: str) -> int:
    """Return where the numbers of an array begin; raises NativeError for one of another type."""
    assert isinstance(kind, ItemsKind)
    type_ = _FLOATS if kind.of is FLOAT else _INTS
    if not isinstance(value, np.ndarray) or (value.dtype is not type_ and value.dtype != type_):
        word, _ = _ARRAYS[kind]
        raise NativeError(f"{name} is no {word} but {type(value).__name__}")
    try:  # This looks whether it is as it has to be in a quarter of the time that flags take.
        address = ctypes.addressof(ctypes.c_char.from_buffer(value.data))
    except ValueError:  # There are no elements.
        return value.ctypes.data
    except TypeError:
        address = _NOWHERE
    if address % value.itemsize:
        raise NativeError(f"{name} is not contiguous, aligned and writable")
    return address


_NOWHERE: Final = 1
"""No address of an element."""


def checked(value: Any, kind: type[Record], name: str) -> Record:
    """Return a record; raises NativeError for one of another class."""
    if type(value) is not kind:
        raise NativeError(f"{name} is no {kind.__name__} but {type(value).__name__}")
    return value


def _table_of(record: Record) -> bytes:
    codes, words = zip(*_words(record, type(record).__name__), strict=True)
    return struct.pack("".join(codes), *words)


def _words(record: Record, name: str) -> Iterator[tuple[str, int | float]]:
    """Yield the code and the value of each word; records lie in records only a few deep."""
    for field, (_, kind, _) in fields_of(type(record)).items():
        value, what = getattr(record, field), f"{name}.{field}"
        if isinstance(kind, Reference):
            yield from _words(checked(value, kind.record, what), what)
        elif isinstance(kind, ItemsKind):
            yield "q", address_of_items(value, kind, what)
        else:
            word, code, types = _NUMBERS[kind]
            is_one = isinstance(value, types)
            if not is_one:
                raise NativeError(f"{what} is no {word} but {type(value).__name__}")
            yield code, value
