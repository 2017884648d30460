"""The outcome of a search about a height."""

from __future__ import annotations

from enum import Enum
from typing import Final

SOLVED: Final = 0
REFUTED: Final = 1
SPENT: Final = 2
"""The node limit is reached."""
CROWDED: Final = 3
"""An array has to grow before the search goes on."""


class Outcome(Enum):
    """The knowledge about a height."""

    FITS = SOLVED
    REFUTED = REFUTED
    """No packing is of that height, or lower."""
    OPEN = SPENT
