"""The outcome of a search about a height, and the work that it may spend."""

from __future__ import annotations

from enum import Enum
from typing import Final

from lowtide.search.effort import Effort, SearchOptions, StopReason

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


_WORK: Final = {Effort.FAST: 10**9, Effort.DEFAULT: 4 * 10**9, Effort.PROOF: 4 * 10**11}
"""Entries of arrays that a search may look at: about 10**9 in a second."""


class StoppedError(Exception):
    """The search ends here, for `reason`."""

    def __init__(self, reason: StopReason) -> None:
        super().__init__(reason.value)
        self.reason = reason


class Budget:
    """The rest of an effort; with a deadline, time alone ends the search."""

    def __init__(self, options: SearchOptions) -> None:
        self._deadline = options.begun()
        self._left = _WORK[options.effort]

    def spend(self, work: int) -> None:
        """Take off work that is done; raises StoppedError where nothing is left."""
        self._left -= work
        self.check()

    def check(self) -> None:
        """Raise StoppedError where nothing is left."""
        if self._deadline.passed:
            raise StoppedError(StopReason.DEADLINE)
        if not self._deadline.is_timed and self._left <= 0:
            raise StoppedError(StopReason.LIMIT)
