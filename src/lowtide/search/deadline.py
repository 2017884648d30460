"""The deadline of a search."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic, process_time
from typing import Final, final

CTRL_C: Final = "Ctrl-C"
"""What ends a search where the user asks for it."""


@final
class Deadline:
    """The end of a search: `seconds` of wall time from when it is made, or Ctrl-C before that.

    None is no end in time. Whoever handles Ctrl-C calls `interrupt`.
    """

    def __init__(self, seconds: float | None = None) -> None:
        self._end = None if seconds is None else monotonic() + seconds
        self._begun = monotonic(), process_time()
        self._guard: float | None = None
        self._is_held = False
        self._whole: Deadline | None = None
        self._ended_part = False
        self.is_timed = seconds is not None
        """Whether the caller set a time, rather than an effort."""
        self._was_interrupted = False

    @classmethod
    def of_cpu_seconds(cls, seconds: float) -> Deadline:
        """Return one that comes after so much CPU time: on a busy machine no earlier."""
        made = cls()
        made._guard = process_time() + seconds
        made.is_timed = True
        return made

    def part(self, share: float = 1.0, less: float = 0.0) -> Deadline:
        """Return one that comes after a share of the seconds that are left, `less` some of them.

        Where nobody set a time it comes with this one, as it does with Ctrl-C.
        """
        made = Deadline()
        made._whole, made.is_timed = self._whole or self, self.is_timed
        if self._end is not None:
            now = monotonic()
            made._end = now + share * (self._end - now) - less
        if self.is_timed and self._guard is not None:
            now = process_time()
            made._guard = now + share * (self._guard - now) - less
        return made

    @contextmanager
    def turn(self, share: float) -> Iterator[None]:
        """Have it come after a share of the seconds that are left, within: others have the rest.

        Where nobody set a time nothing changes. Parts made within come with it.
        """
        before = self._end, self._guard
        try:
            if self._end is not None:
                now = monotonic()
                self._end = now + share * (self._end - now)
            if self.is_timed and self._guard is not None:
                now = process_time()
                self._guard = now + share * (self._guard - now)
            yield
        finally:
            self._ended_part = self._has_come() or self._ended_part
            self._end, self._guard = before

    @property
    def elapsed(self) -> float:
        """The seconds since it was made: of CPU where it ends after some of these."""
        wall, cpu = self._begun
        return monotonic() - wall if self._guard is None else process_time() - cpu

    @property
    def was_interrupted(self) -> bool:
        """Whether Ctrl-C ended the search."""
        return self._was_interrupted if self._whole is None else self._whole.was_interrupted

    @property
    def passed(self) -> bool:
        """Whether it is over."""
        if self._whole is not None:
            if self._has_come():
                self._whole._ended_part = True
                return True
            return self._whole.passed
        return self._has_come()

    def _has_come(self) -> bool:
        if self._guard is not None and process_time() >= self._guard:
            return True
        return self._was_interrupted or (self._end is not None and monotonic() >= self._end)

    def guard(self, seconds: float) -> None:
        """Have it come in so many seconds of CPU time where it does not come by itself.

        Searches whose effort is limited do not count on that: it is there for one that hangs. A
        machine that is busy otherwise ends it no earlier.
        """
        if self._end is None:
            self._guard = process_time() + seconds

    def leaves(self, seconds: float) -> bool:
        """Whether so many seconds are left before it."""
        if self.was_interrupted:
            return False
        if self.is_timed and self._guard is not None and process_time() + seconds > self._guard:
            return False
        return self._end is None or monotonic() + seconds <= self._end

    def leave_out(self) -> None:
        """Have remarks say that it ended a search: something was not begun that would be late."""
        (self._whole or self)._ended_part = True

    def remarks(self) -> list[str]:
        """Return what to say of a result whose searches may not have ended by themselves."""
        if not (self.passed or self._ended_part):
            return []
        return [ended_by(CTRL_C if self.was_interrupted else "a deadline")]

    def interrupt(self) -> None:
        """End the search; raises KeyboardInterrupt, too, but not where that would lose a plan.

        Of a part it ends the whole.
        """
        whole = self._whole or self
        whole._was_interrupted = True
        if not whole._is_held:
            raise KeyboardInterrupt

    @contextmanager
    def held(self) -> Iterator[None]:
        """Have `interrupt` raise nothing within: what is done there ends soon, with a plan.

        It may hold `until_interrupted`, and be held by that: the innermost decides.
        """
        whole = self._whole or self
        before, whole._is_held = whole._is_held, True
        try:
            yield
        finally:
            whole._is_held = before

    @contextmanager
    def until_interrupted(self) -> Iterator[None]:
        """Leave what is within where `interrupt` raises KeyboardInterrupt there.

        One that nobody told this deadline of goes on: there is none to write what was found.
        """
        whole = self._whole or self
        before = whole._is_held
        try:
            whole._is_held = False
            yield
        except KeyboardInterrupt:
            if not self.was_interrupted:
                raise
        finally:
            whole._is_held = before


def ended_by(what: str) -> str:
    """Return what to say of a result where `what` ended the search for a better one."""
    return f"{what} ended the search: another run may give another plan"
