"""Loops as they are written: LLVM's loop strength reduction, switched off meanwhile.

It takes a quarter of the time of LLVM's code generator. Kernels step their addresses themselves and
are neither longer nor slower without it. LLVM has one switch for the whole process, which is on
again as soon as no kernel is compiled: others who use llvmlite find it as it was.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Final

_SWITCH: Final = "-disable-lsr"


class _Users:
    """How many compile kernels now: the first one throws the switch, the last one turns it back."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.count = 0

    def begin(self) -> None:
        with self.lock:
            if not self.count:
                _throw(is_off=True)
            self.count += 1

    def end(self) -> None:
        with self.lock:
            self.count -= 1
            if not self.count:
                _throw(is_off=False)


_USERS: Final = _Users()
os.register_at_fork(  # A forked process finds the lock free.
    before=_USERS.lock.acquire,
    after_in_parent=_USERS.lock.release,
    after_in_child=_USERS.lock.release,
)


@contextmanager
def plain_loops() -> Iterator[None]:
    """Compile loops as they are written within the block, on any thread of this process."""
    _USERS.begin()
    try:
        yield
    finally:
        _USERS.end()


def _throw(*, is_off: bool) -> None:
    import llvmlite.binding as llvm  # What is cached needs no LLVM.

    llvm.set_option("", f"{_SWITCH}={str(is_off).lower()}")
