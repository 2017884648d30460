"""Seconds that a kind of work has taken: whether more of it ends before a deadline."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import final

from lowtide.search.deadline import Deadline


@final
class Stopwatch:
    """The most seconds that work of one kind has taken, by the clock of a deadline.

    They are seconds of wall time, or of CPU where the deadline ends after some of these.
    """

    def __init__(self, deadline: Deadline) -> None:
        self.deadline = deadline
        self.seconds = 0.0
        self.has_run = False

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count the seconds within."""
        begin = self.deadline.elapsed
        try:
            yield
        finally:
            self.has_run = True
            self.seconds = max(self.seconds, self.deadline.elapsed - begin)

    def is_in_time(self, late: float = 0.0) -> bool:
        """Return whether what takes as long again ends before the deadline.

        With `late` it may end a share of all of the deadline's seconds behind it. Where nobody set
        a time it is as long as nobody interrupts.
        """
        end = self.deadline.later(late) if late else self.deadline
        return end.leaves(self.seconds)
