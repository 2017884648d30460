"""Ctrl-C while something is searched: the first ends the search, the second what asked for it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from lowtide.search.deadline import Deadline


class PressedAgainError(BaseException):
    """Ctrl-C was pressed again: what asked for the search ends as it is, with no plan."""


@contextmanager
def ending_at(seconds: float | None) -> Iterator[Deadline]:
    """Yield a deadline in seconds, None for none, that Ctrl-C within brings about at once.

    Where no plan is made yet, it raises KeyboardInterrupt. When pressed again, it raises
    PressedAgainError. Threads but the main one cannot take signals, and who ignores them, or takes
    them outside of Python, goes on to do so.
    """
    deadline = Deadline(seconds)
    before = signal.getsignal(signal.SIGINT)
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or before in (signal.SIG_IGN, None):
        yield deadline
        return

    def ring(number: int, frame: FrameType | None) -> None:
        if deadline.was_interrupted:
            raise PressedAgainError
        deadline.interrupt()

    signal.signal(signal.SIGINT, ring)
    try:
        yield deadline
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def ending_call_at(seconds: float | None) -> Iterator[Deadline]:
    """Yield a deadline as `ending_at` does, for a call from Python: it raises KeyboardInterrupt."""
    try:
        with ending_at(seconds) as deadline:
            yield deadline
    except PressedAgainError:
        raise KeyboardInterrupt from None
