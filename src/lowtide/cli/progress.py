"""A line on a terminal that says what is being done, once that takes more than a second."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from time import perf_counter
from typing import TextIO

from lowtide.options import is_terminal

_PATIENCE_SECONDS = 1.0
_TICK_SECONDS = 0.2


@contextmanager
def progress(what: str) -> Iterator[None]:
    """Show `what` and the seconds so far on stderr, if that is a terminal, until the end."""
    stream = sys.stderr
    if not is_terminal(stream):
        yield
        return
    done = Event()
    thread = Thread(target=_show, args=(stream, what, done), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _show(stream: TextIO, what: str, done: Event) -> None:
    start = perf_counter()
    if done.wait(_PATIENCE_SECONDS):
        return
    while True:
        stream.write(f"\r{what} {perf_counter() - start:.0f} s\x1b[K")
        stream.flush()
        if done.wait(_TICK_SECONDS):
            break
    stream.write("\r\x1b[K")
    stream.flush()
