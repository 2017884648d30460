"""A line on a terminal that says what is being done, once that takes more than a second."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from time import perf_counter
from typing import TextIO

from lowtide.cli.interrupted import STAGE
from lowtide.options import display_for, rewrites_lines

_PATIENCE_SECONDS = 1.0
_TICK_SECONDS = 0.2
_ROOM_FOR_SECONDS = 12


class Line:
    """What the line says; how far it is may be said while it is shown."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.state = ""

    @property
    def text(self) -> str:
        """The line without the seconds."""
        return f"{self.what}{self.state}"

    def show_part(self, what: str) -> None:
        """Say which part of the work is done now."""
        self.state = f": {what},"

    def show_search(self, best: int, bound: int) -> None:
        """Say how far a search is: the bytes of its best plan, and those proved needed."""
        self.state = f": {best:,} bytes so far, at least {bound:,} needed,"


@contextmanager
def progress(what: str) -> Iterator[Line]:
    """Show `what` and the seconds so far on stderr, if that is a terminal, until the end.

    An error raised within is told of as one of this work.
    """
    try:
        with _shown(Line(what)) as line:
            yield line
    except BaseException:
        from lowtide.report.drawing import visible

        STAGE.failed(visible(what))
        raise


@contextmanager
def _shown(line: Line) -> Iterator[Line]:
    stream = sys.stderr
    if not rewrites_lines(stream):
        yield line
        return
    done = Event()
    thread = Thread(target=_show, args=(stream, line, done), daemon=True)
    thread.start()
    try:
        yield line
    finally:
        done.set()
        thread.join()


def _show(stream: TextIO, line: Line, done: Event) -> None:
    from lowtide.report.drawing import elide

    start = perf_counter()
    width = display_for(stream).width - _ROOM_FOR_SECONDS
    if done.wait(_PATIENCE_SECONDS):
        return
    while True:
        stream.write(f"\r{elide(line.text, width)} {perf_counter() - start:.0f} s\x1b[K")
        stream.flush()
        if done.wait(_TICK_SECONDS):
            break
    stream.write("\r\x1b[K")
    stream.flush()
