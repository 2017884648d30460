"""Tables and vectors of a flatbuffer, each read checked: any bytes give values or an InputError.

A table begins with the distance back to its vtable, which has for each field its distance from the
table's beginning, 0 for one that is not there. What a field refers to lies behind it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import field
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from lowtide.ir.errors import InputError
from lowtide.records import dataclass

T = TypeVar("T")

_FORMATS: Final = {x: struct.Struct(f"<{x}") for x in "bBhHiIqQfd?"}
"""How scalars are packed, by the letters of `struct`."""

_ENTRIES_PER_BYTE: Final = 4
_LEAST_ENTRIES: Final = 1 << 12
"""A file may have as many entries in vectors: vectors that refer to one another could have more."""


@dataclass(slots=True)
class FlatBytes:
    """The bytes of a file, and how many more entries of vectors may be read."""

    data: bytes
    file: str = ""
    left: int = field(init=False)

    def __post_init__(self) -> None:
        """Count the entries that there may be."""
        self.left = _ENTRIES_PER_BYTE * len(self.data) + _LEAST_ENTRIES

    def scalar(self, form: str, at: int, where: str) -> Any:
        """Return the scalar at a place; raises InputError beyond the end."""
        pack = _FORMATS[form]
        self.check(at, pack.size, where)
        return pack.unpack_from(self.data, at)[0]

    def check(self, at: int, nbytes: int, where: str) -> None:
        """Raise InputError unless some bytes lie in the file."""
        if at < 0 or at + nbytes > len(self.data):
            raise self.error(f"reaches beyond the {len(self.data):,} bytes of the file", where)

    def error(self, message: str, where: str) -> InputError:
        """Return the error to raise for what stands in a field."""
        return InputError(message, file=self.file, position=where)

    def root(self) -> FlatTable:
        """Return the table that the file begins with."""
        return FlatTable(self, self.scalar("I", 0, "root"), "model")


@dataclass(frozen=True, slots=True)
class FlatTable:
    """A table at a place of a file; `where` is its path in messages."""

    source: FlatBytes
    at: int
    where: str

    def field_at(self, number: int) -> int:
        """Return the place of a field, 0 where it is not there."""
        source = self.source
        table = self.at - source.scalar("i", self.at, self.where)
        length = source.scalar("H", table, self.where)
        entry = 4 + 2 * number
        if entry + 2 > length:
            return 0
        distance = source.scalar("H", table + entry, self.where)
        return self.at + distance if distance else 0

    def scalar(self, number: int, form: str, default: Any) -> Any:
        """Return a scalar, its default where it is not there."""
        at = self.field_at(number)
        return self.source.scalar(form, at, self.where) if at else default

    def integer(self, number: int, default: int = 0) -> int:
        """Return a signed number of 32 bits."""
        return int(self.scalar(number, "i", default))

    def referred(self, number: int) -> int:
        """Return the place that a field refers to, 0 where it is not there."""
        at = self.field_at(number)
        return at + int(self.source.scalar("I", at, self.where)) if at else 0

    def table(self, number: int, name: str) -> FlatTable | None:
        """Return a table within this one, None where it is not there."""
        at = self.referred(number)
        return FlatTable(self.source, at, f"{self.where}.{name}") if at else None

    def text(self, number: int, name: str) -> str:
        """Return a string, "" where it is not there."""
        at, count = self._vector(number, 1, name)
        return self.source.data[at : at + count].decode("utf-8", "replace")

    def array(self, number: int, dtype: str, name: str) -> npt.NDArray[Any]:
        """Return a vector of scalars as an array, which is not copied; empty without a field."""
        kind = np.dtype(dtype)
        at, count = self._vector(number, kind.itemsize, name)
        return np.frombuffer(self.source.data, kind, count, at if count else 0)

    def integers(self, number: int, name: str) -> tuple[int, ...]:
        """Return a vector of signed numbers of 32 bits."""
        return tuple(self.array(number, "<i4", name).tolist())

    def tables(self, number: int, name: str, make: Callable[[FlatTable], T]) -> tuple[T, ...]:
        """Return what is made of each table of a vector, in order."""
        return tuple([make(x) for x in self.table_list(number, name)])

    def table_list(self, number: int, name: str) -> list[FlatTable]:
        """Return the tables of a vector."""
        at, count = self._vector(number, 4, name)
        found = []
        for i in range(count):
            place = at + 4 * i
            target = place + self.source.scalar("I", place, self.where)
            found.append(FlatTable(self.source, target, f"{self.where}.{name}[{i}]"))
        return found

    def _vector(self, number: int, size: int, name: str) -> tuple[int, int]:
        """The place of the first entry of a vector, and how many there are."""
        at, source = self.referred(number), self.source
        if not at:
            return 0, 0
        where = f"{self.where}.{name}"
        count = int(source.scalar("I", at, where))
        source.check(at + 4, count * size, where)
        source.left -= count
        if source.left < 0:
            raise source.error("the same entries are referred to again and again", where)
        return at + 4, count
