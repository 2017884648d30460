"""Metadata which is still text: most of it is printed again as it was, and never looked at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias, final

from lowtide.ir.metadata import Metadata


class LazyMetadata:
    """Metadata in canonical HLO text, decoded on first use.

    `fields` is what stands between the braces but for the frame id; whoever makes one vouches
    that `decoder` accepts it and that `Metadata.text` of the result is `fields` again.
    """

    __slots__ = ("_decoded", "_decoder", "_fields", "stack_frame_id")

    def __init__(
        self, fields: str, stack_frame_id: int, decoder: Callable[[str], Metadata]
    ) -> None:
        self._fields = fields
        self._decoder = decoder
        self.stack_frame_id = stack_frame_id
        self._decoded: Metadata | None = None
        """The record, once it was asked for: copies of an instruction share it."""

    def text(self) -> str:
        """Return the text between the braces of `metadata={...}`."""
        if not self.stack_frame_id:
            return self._fields
        separator = " " if self._fields else ""
        return f"{self._fields}{separator}stack_frame_id={self.stack_frame_id}"

    def decode(self) -> Metadata:
        """Return the metadata as a record."""
        if self._decoded is None:
            found = self._decoder(self._fields)
            self._decoded = replace(found, stack_frame_id=self.stack_frame_id)
        return self._decoded

    def says(self, word: str) -> bool:
        """Whether a word is in its text, be it as a part of a string."""
        return word in self._fields

    def with_stack_frame(self, number: int) -> Metadata | LazyMetadata:
        """Return the same metadata with another frame id."""
        return LazyMetadata(self._fields, number, self._decoder)


AnyMetadata: TypeAlias = "Metadata | LazyMetadata"
Join: TypeAlias = Callable[[Metadata, Metadata], Metadata]


@final
class NestedMetadata(LazyMetadata):
    """Metadata that `join` makes of those of an instruction and of a call around it, on first use.

    Calls may be nested deeply: what both are made of is put together without recursion.
    """

    __slots__ = ("_inner", "_join", "_outer")

    def __init__(self, inner: AnyMetadata, outer: AnyMetadata, frame: int, join: Join) -> None:
        self._inner, self._outer, self._join = inner, outer, join
        self.stack_frame_id = frame
        self._decoded = None

    def text(self) -> str:
        """Return the text between the braces of `metadata={...}`."""
        return self.decode().text()

    def decode(self) -> Metadata:
        """Return the metadata as a record."""
        waiting: list[NestedMetadata] = [self]
        while self._decoded is None:
            last = waiting[-1]
            parts = (last._inner, last._outer)
            missing = [x for x in parts if isinstance(x, NestedMetadata) and x._decoded is None]
            if missing:
                waiting += missing
                continue
            waiting.pop()
            last._decoded = last._join(*map(_record, parts))
        return self._decoded

    def says(self, word: str) -> bool:
        """Whether a word may be in its text: that is not known before it is asked for."""
        return True

    def with_stack_frame(self, number: int) -> Metadata:
        """Return the same metadata with another frame id."""
        return self.decode().with_stack_frame(number)


def _record(x: AnyMetadata) -> Metadata:
    return x.decode() if isinstance(x, LazyMetadata) else x
