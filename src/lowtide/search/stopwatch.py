"""Seconds that a kind of work has taken: whether more of it ends before a deadline."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, final

from lowtide.search.deadline import Deadline

_SPREAD: Final = 1.15
"""Work of one kind may take so many times as long as what took longest so far."""


@final
class Stopwatch:
    """The most seconds that work of one kind has taken, by the clock of a deadline.

    They are seconds of wall time, or of CPU where the deadline ends after some of these; up to the
    first run those that are `expected`.
    """

    def __init__(self, deadline: Deadline, expected: float = 0.0) -> None:
        self.deadline = deadline
        self.seconds = expected
        self.has_run = False

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count the seconds within."""
        begin = self.deadline.elapsed
        try:
            yield
        finally:
            taken = self.deadline.elapsed - begin
            self.seconds = max(self.seconds, taken) if self.has_run else taken
            self.has_run = True

    def is_in_time(self, beside: float = 0.0) -> bool:
        """Return whether what takes as long again ends before the deadline.

        So it does with `beside`, the seconds of what has to follow. Where nobody set a time it is
        in time as long as nobody interrupts.
        """
        return self.deadline.leaves(self.reserve + beside)

    @property
    def reserve(self) -> float:
        """The seconds to keep where such work has to end before the deadline."""
        return _SPREAD * self.seconds
