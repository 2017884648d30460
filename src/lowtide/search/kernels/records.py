"""Records: arrays and numbers that belong together, which kernels take as one argument.

Native code gets the address of a table of 64-bit words: one per field, in order, those of a record
within a record in its place. An array is its address.
"""

from __future__ import annotations

import builtins
import ctypes
import struct
import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from lowtide.records import is_frozen

Array = npt.NDArray[np.int64]
"""A contiguous array of 64-bit integers that a kernel reads and writes."""

FloatArray = npt.NDArray[np.float64]
"""A contiguous array of 64-bit floats that a kernel reads and writes."""

SCALARS: Final[dict[str, Any]] = {"int": ctypes.c_int64, "float": ctypes.c_double}
ARRAYS: Final[dict[str, type]] = {"Array": np.int64, "FloatArray": np.float64}

_CODES: Final = {"int": "q", "float": "d", "Array": "q", "FloatArray": "q"}


class KernelError(Exception):
    """A kernel has something that the subset lacks, or is called with wrong arguments."""


class Record:
    """Base of frozen dataclasses that kernels take as arguments.

    Fields are annotated `int`, `float`, `Array`, `FloatArray` or with another record class. Kernels
    read them, read and write the arrays, and pass records on; no field is ever set.
    """

    __slots__ = ("_table",)

    _table: bytes

    @property
    def table(self) -> bytes:
        """The words that native code reads, made when they are first asked for.

        Raises KernelError where a field has another type than its annotation says, or holds an
        array that is not contiguous, aligned and writable.
        """
        try:
            return self._table
        except AttributeError:
            object.__setattr__(self, "_table", _table_of(self))
            return self._table

    def values(self) -> list[Any]:
        """Return the values of the fields, in order."""
        return [getattr(self, name) for name in kinds_of(type(self))]


Kind: TypeAlias = str | type[Record]
"""A type of the subset: the name of a number's or an array's annotation, or a record class."""


_KINDS: Final[dict[Any, str]] = {
    int: "int",
    float: "float",
    Array: "Array",
    FloatArray: "FloatArray",
}


def kind_of(annotation: object, names: Mapping[str, object]) -> Kind | None:
    """Return the type that an annotation means among names, None for what kernels do not have."""
    if isinstance(annotation, str):
        annotation = names.get(annotation, vars(builtins).get(annotation))
    if isinstance(annotation, type) and issubclass(annotation, Record):
        return annotation
    return _KINDS.get(annotation)


_KINDS_OF: Final[dict[type[Record], dict[str, Kind]]] = {}
"""The fields of the record classes met so far."""


def kinds_of(record: type[Record]) -> dict[str, Kind]:
    """Return the types of a record's fields, by name, in order; raises KernelError."""
    if record not in _KINDS_OF:
        _KINDS_OF[record] = _kinds_of(record)
    return _KINDS_OF[record]


def _kinds_of(record: type[Record]) -> dict[str, Kind]:
    if not is_dataclass(record) or not is_frozen(record):
        raise KernelError(f"record {record.__name__} is no frozen dataclass")
    found: dict[str, Kind] = {}
    names = vars(sys.modules[record.__module__])
    for field in fields(record):
        kind = kind_of(field.type, names)
        if kind is None:
            known = ", ".join([*SCALARS, *ARRAYS])
            raise KernelError(
                f"record {record.__name__}: {field.name} is {field.type}, "
                f"expected a record or one of {known}"
            )
        found[field.name] = kind
    return found


def address_of(value: Any, kind: str, name: str) -> int:
    """Return where the numbers of an array begin; raises KernelError for one of another type."""
    if not isinstance(value, np.ndarray) or value.dtype != ARRAYS[kind]:
        raise KernelError(f"{name} is no {kind} but {type(value).__name__}")
    flags = value.flags
    if not (flags.c_contiguous and flags.writeable and flags.aligned):
        raise KernelError(f"{name} is not contiguous, aligned and writable")
    if not value.size:
        return value.ctypes.data
    return ctypes.addressof(ctypes.c_char.from_buffer(value.data))


def checked(value: Any, kind: type[Record], name: str) -> Record:
    """Return a record; raises KernelError for one of another class."""
    if type(value) is not kind:
        raise KernelError(f"{name} is no {kind.__name__} but {type(value).__name__}")
    return value


def _table_of(record: Record) -> bytes:
    codes, words = zip(*_words(record, type(record).__name__), strict=True)
    return struct.pack("".join(codes), *words)


def _words(record: Record, name: str) -> Iterator[tuple[str, int | float]]:
    """Yield the code and the value of each word; records lie in records only a few deep."""
    for field, kind in kinds_of(type(record)).items():
        value, what = getattr(record, field), f"{name}.{field}"
        if not isinstance(kind, str):
            yield from _words(checked(value, kind, what), what)
            continue
        if kind in ARRAYS:
            value = address_of(value, kind, what)
        elif not isinstance(value, (int, np.integer) if kind == "int" else (int, float)):
            raise KernelError(f"{what} is no {kind} but {type(value).__name__}")
        yield _CODES[kind], value
