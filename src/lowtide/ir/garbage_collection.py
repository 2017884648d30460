"""Python's garbage collector, put off while graphs change."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def never_collected() -> Iterator[None]:
    """Do not look for garbage at all, not even at the end: for a process that ends soon."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def without_collection() -> Iterator[None]:
    """Do not look for garbage cycles: graphs are cycles, of which next to none are garbage.

    The collector would walk all of them again and again, a third of the time of large modules. It
    looks once at what is new when all is done, since garbage may hold large arrays; not after an
    error, which is not to wait for that.
    """
    was_enabled = gc.isenabled()
    with never_collected():
        yield
        if was_enabled:
            gc.collect(0)


def count_as_lasting() -> None:
    """Have the collector take all that lives for lasting, without a look at it.

    Several hundred modules that were just loaded hold no garbage, and to look whether they do takes
    a tenth of a first compilation. Where a caller has frozen objects nothing changes: they would be
    thawed.
    """
    if not gc.get_freeze_count():
        gc.freeze()
        gc.unfreeze()
