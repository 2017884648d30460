"""The base of all attribute records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Attributes:
    """The base of all attribute records, and itself the record of opcodes without attributes."""


NO_ATTRIBUTES: Final = Attributes()
