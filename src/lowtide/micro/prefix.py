"""New tables in front of a flatbuffer, which refer to what stands in it: nothing in it changes.

References of a flatbuffer lead forward, so what is new stands first, and the old bytes behind it.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Final, TypeAlias

from lowtide.records import dataclass

_ALIGNMENT: Final = 64
"""The old bytes begin at a multiple of so many, so that what is aligned in them stays so."""

Target: TypeAlias = "str | int"
"""What a reference leads to: a new thing by its label, or a place in the old bytes."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """A field of 32 bits that is a number."""

    value: int


@dataclass(slots=True)
class Prefix:
    """What is new, from the root on, each thing in front of all that it refers to."""

    identifier: bytes
    data: bytearray = field(default_factory=bytearray)
    places: dict[str, int] = field(default_factory=dict)
    references: list[tuple[int, Target]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Begin with the reference to the table "root"."""
        self._refer("root")
        self.data += self.identifier

    def table(self, label: str, fields: Mapping[int, Scalar | Target]) -> None:
        """Add a table of fields of 32 bits by their numbers, behind its vtable."""
        count = max(fields, default=-1) + 1
        ends = {number: 4 + 4 * place for place, number in enumerate(fields)}
        entries = [ends.get(x, 0) for x in range(count)]
        head = 4 + 2 * count
        self._align(4, -head)
        self.data += struct.pack(f"<{count + 2}H", head, 4 + 4 * len(fields), *entries)
        self.places[label] = len(self.data)
        self.data += struct.pack("<i", head)
        for value in fields.values():
            if isinstance(value, Scalar):
                self.data += struct.pack("<I", value.value & 0xFFFFFFFF)
            else:
                self._refer(value)

    def vector(self, label: str, targets: Sequence[Target]) -> None:
        """Add a vector of references."""
        self._align(4)
        self.places[label] = len(self.data)
        self.data += struct.pack("<I", len(targets))
        for target in targets:
            self._refer(target)

    def content(self, label: str, content: bytes, size: int = 1, alignment: int = 4) -> None:
        """Add a vector of numbers of `size` bytes, the first aligned, with a zero behind the last.

        A vector of characters with a zero behind it is a string.
        """
        self._align(max(alignment, 4), -4)
        self.places[label] = len(self.data)
        self.data += struct.pack("<I", len(content) // size) + content + b"\0"

    def before(self, old: bytes) -> bytes:
        """Return all that is new, then the old bytes."""
        self._align(_ALIGNMENT)
        base = len(self.data)
        for at, target in self.references:
            place = self.places[target] if isinstance(target, str) else base + target
            assert place > at, "references lead forward"
            struct.pack_into("<I", self.data, at, place - at)
        return bytes(self.data) + old

    def _refer(self, target: Target) -> None:
        self.references.append((len(self.data), target))
        self.data += bytes(4)

    def _align(self, alignment: int, place: int = 0) -> None:
        """Add zeros until `place` bytes before the end lie at a multiple of some bytes."""
        self.data += bytes((place - len(self.data)) % alignment)
