"""The effort of a search, and its messages meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from lowtide.records import dataclass
from lowtide.search.deadline import Deadline


class Effort(StrEnum):
    """How many nodes a search may visit; equal effort gives an equal answer on any machine."""

    FAST = "fast"
    DEFAULT = "default"
    PROOF = "proof"


def effort_named(name: str) -> Effort:
    """Return an effort by its name; raises ValueError for an unknown one."""
    try:
        return Effort(name)
    except ValueError:
        raise ValueError(f"no effort {name!r}; there are: {', '.join(Effort)}") from None


class StopReason(StrEnum):
    """Why a search ended."""

    DONE = "done"
    """It has nothing left to try, or the bound is reached."""
    LIMIT = "limit"
    """The effort is spent."""
    DEADLINE = "deadline"
    INTERRUPT = "interrupt"
    """The user pressed Ctrl-C; what is returned is the best so far."""


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """Limits of a search.

    Without a `deadline` the effort alone ends it: that is seconds of wall time from when a search
    begins, or one that has begun. A plan of at most `capacity` bytes is small enough: the search
    stops there. `progress` is told the best size so far and the proven bound whenever one of them
    moves.
    """

    effort: Effort = Effort.DEFAULT
    deadline: float | Deadline | None = None
    capacity: int | None = None
    progress: Callable[[int, int], None] | None = None

    def begun(self) -> Deadline:
        """Return when a search has to end that begins now."""
        return self.deadline if isinstance(self.deadline, Deadline) else Deadline(self.deadline)
