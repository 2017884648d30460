"""When a search has to end."""

from __future__ import annotations

from time import monotonic
from typing import final


@final
class Deadline:
    """A point in wall time, `seconds` from when it is made; what searches ends there."""

    def __init__(self, seconds: float) -> None:
        self._end = monotonic() + seconds

    @property
    def passed(self) -> bool:
        """Whether it is over."""
        return monotonic() >= self._end
