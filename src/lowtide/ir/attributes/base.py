"""The base of all attribute records."""

from __future__ import annotations

from typing import Final

from lowtide.records import dataclass


@dataclass(frozen=True, slots=True)
class Attributes:
    """The base of all attribute records, and itself the record of opcodes without attributes."""


NO_ATTRIBUTES: Final = Attributes()
