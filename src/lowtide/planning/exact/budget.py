"""The search that is left: work by effort, and seconds where there is a deadline."""

from __future__ import annotations

from typing import Final

from lowtide.search.effort import Effort, SearchOptions, StopReason

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
