"""Records that are sorted in place of elements: keys and places, in scratch memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from lowtide.llvm.function import Function, Integer
from lowtide.records import dataclass

Fields: TypeAlias = "tuple[str, ...]"
"""The values of one record."""

Less: TypeAlias = "Callable[[Fields, Fields], str]"
"""Writes whether a record comes before another, as an i1."""


@dataclass(frozen=True, slots=True)
class Records:
    """The layout of records: arrays of fields, one behind the other, of `capacity` each.

    `types` are the integers of a record, the key before the place. A key of up to 32 bits shares
    an i64 with the place (`packed`), which orders equal keys by their places. With no key only
    places are sorted. `key_bits` are those in use.
    """

    types: tuple[str, ...]
    capacity: int
    key_bits: int

    @property
    def packed(self) -> bool:
        """Whether key and place are one integer."""
        return self.types == ("i64",)

    @property
    def keyed(self) -> bool:
        """Whether the order is one of keys."""
        return self.key_bits > 0

    @property
    def nbytes(self) -> int:
        """The bytes of one record."""
        return sum([_width(x) for x in self.types]) // 8

    @property
    def digits(self) -> int:
        """The bytes of the key."""
        return -(-self.key_bits // 8)

    def load(self, fn: Function, base: str, at: Integer) -> Fields:
        """Load a record."""
        return tuple([fn.load(t, p, _width(t) // 8) for t, p in self._pointers(fn, base, at)])

    def store(self, fn: Function, base: str, at: Integer, fields: Fields) -> None:
        """Store a record."""
        for (type_, pointer), name in zip(self._pointers(fn, base, at), fields, strict=True):
            fn.store(type_, name, pointer, _width(type_) // 8)

    def part(self, fn: Function, base: str, field: int, at: Integer) -> str:
        """Return the address of a field of a record."""
        return self._pointers(fn, base, at)[field][1]

    def _pointers(self, fn: Function, base: str, at: Integer) -> list[tuple[str, str]]:
        found, start = [], 0
        for type_ in self.types:
            found.append((type_, fn.gep(fn.gep(base, start), at, type_)))
            start += self.capacity * (_width(type_) // 8)
        return found

    def place(self, fn: Function, fields: Fields) -> str:
        """Return the place of a record as an i64."""
        if self.packed:
            return fn.op(f"and i64 {fields[0]}, {(1 << 32) - 1}")
        return fn.op(f"zext i32 {fields[-1]} to i64")

    def digit(self, fn: Function, fields: Fields, number: int) -> str:
        """Return byte `number` of the key, counted from the lowest, as an i64."""
        shift = 8 * number + (32 if self.packed else 0)
        moved = fn.op(f"lshr i64 {fields[0]}, {shift}")
        return fn.op(f"and i64 {moved}, 255")

    def key_less(self, fn: Function, a: Fields, b: Fields) -> str:
        """Whether the key of a record is less; of equal keys of packed ones, the place."""
        return fn.op(f"icmp ult {self.types[0]} {a[0]}, {b[0]}")


def _width(type_: str) -> int:
    return int(type_[1:])


def records_of(key_bits: int, count: int) -> Records:
    """Return the layout of `count` records, and one more, whose keys have so many bits."""
    capacity = -(-(count + 8) // 16) * 16
    if 0 < key_bits <= 32:
        return Records(("i64",), capacity, key_bits)
    if 0 < key_bits <= 64:
        return Records(("i64", "i32"), capacity, key_bits)
    return Records(("i32",), capacity, 0)
