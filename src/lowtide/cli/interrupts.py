"""Ctrl-C while something is searched: the first ends the search, the second the command."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from lowtide.cli.exit_codes import ExitCode
from lowtide.planning.deadline import Deadline


@contextmanager
def ending_at(seconds: float | None) -> Iterator[Deadline]:
    """Yield a deadline in seconds, None for none, that Ctrl-C within brings about at once.

    Where no plan is made yet, it raises KeyboardInterrupt. When pressed again, it raises SystemExit
    with the status of interrupted commands. Threads but the main one cannot take signals.
    """
    deadline = Deadline(seconds)
    if threading.current_thread() is not threading.main_thread():
        yield deadline
        return

    def ring(number: int, frame: FrameType | None) -> None:
        if deadline.was_interrupted:
            raise SystemExit(int(ExitCode.INTERRUPTED))
        deadline.interrupt()

    before = signal.signal(signal.SIGINT, ring)
    try:
        yield deadline
    finally:
        signal.signal(signal.SIGINT, before)
