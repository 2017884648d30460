"""Metadata which is still text: most of it is printed again as it was, and never looked at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import final

from lowtide.ir.metadata import Metadata


@final
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

    def with_stack_frame(self, number: int) -> LazyMetadata:
        """Return the same metadata with another frame id."""
        return LazyMetadata(self._fields, number, self._decoder)
