"""LLVM's loop strength reduction, left out for some modules.

LLVM has one switch for the whole process, which is on but while such a module is compiled. Modules
with and without never meet, so that the code of each is the same whatever else is compiled.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition, Lock
from typing import Final

_SWITCH: Final = "-disable-lsr"


class _Switch:
    """The switch, and how many modules are compiled now; all of them want it in one position."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.changed = Condition(self.lock)
        self.users = 0
        self.is_on = True

    def begin(self, *, on: bool) -> None:
        """Wait until the switch may be where a module wants it, and put it there."""
        with self.changed:
            self.changed.wait_for(lambda: self.is_on is on or not self.users)
            self._put(on=on)
            self.users += 1

    def end(self) -> None:
        """Put the switch back behind the last module."""
        with self.changed:
            self.users -= 1
            if not self.users:
                self._put(on=True)
                self.changed.notify_all()

    def begin_anew(self) -> None:
        """Forget, in a forked process, what threads that it does not have were compiling."""
        self.users = 0
        self.lock.release()

    def _put(self, *, on: bool) -> None:
        if self.is_on is not on:
            import llvmlite.binding as llvm  # What is cached needs no LLVM.

            llvm.set_option("", f"{_SWITCH}={str(not on).lower()}")
            self.is_on = on


_THE_SWITCH: Final = _Switch()
os.register_at_fork(
    before=_THE_SWITCH.lock.acquire,
    after_in_parent=_THE_SWITCH.lock.release,
    after_in_child=_THE_SWITCH.begin_anew,
)


@contextmanager
def loop_reduction(*, on: bool) -> Iterator[None]:
    """Compile with loop strength reduction within the block, or without it."""
    _THE_SWITCH.begin(on=on)
    try:
        yield
    finally:
        _THE_SWITCH.end()
