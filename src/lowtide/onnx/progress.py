"""A line on a terminal while a session compiles, once that takes more than half a second."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from time import perf_counter

from lowtide.options import rewrites_lines

_PATIENCE_SECONDS = 0.5
_TICK_SECONDS = 0.2


@contextmanager
def shown_on_terminal(what: str) -> Iterator[None]:
    """Show `what` and the seconds so far on stderr until the end, if that is a terminal."""
    if not rewrites_lines(sys.stderr):
        yield
        return
    done = Event()
    thread = Thread(target=_show, args=(what, done), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _show(what: str, done: Event) -> None:
    stream, start = sys.stderr, perf_counter()
    if done.wait(_PATIENCE_SECONDS):
        return
    while True:
        stream.write(f"\r{what}: {perf_counter() - start:.1f} s\x1b[K")
        stream.flush()
        if done.wait(_TICK_SECONDS):
            break
    stream.write("\r\x1b[K")
    stream.flush()
