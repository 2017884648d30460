"""Metadata which is still text: most of it is printed again as it was, and never looked at."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from lowtide.ir.metadata import Metadata


@final
class LazyMetadata:
    """Metadata in canonical HLO text, decoded on first use.

    `text` is what stands between the braces; whoever makes one vouches that `decoder` accepts it
    and that `Metadata.text` of the result is `text` again.
    """

    __slots__ = ("_decoder", "_text")

    def __init__(self, text: str, decoder: Callable[[str], Metadata]) -> None:
        self._text = text
        self._decoder = decoder

    def text(self) -> str:
        """Return the text between the braces of `metadata={...}`."""
        return self._text

    def decode(self) -> Metadata:
        """Return the metadata as a record."""
        return self._decoder(self._text)
