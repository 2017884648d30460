"""Memory that compilations leave in the process, given back to the system."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any


def give_back_free_memory() -> None:
    """Have the C library return what it holds and nobody uses; nothing happens where it cannot."""
    trim = _trim()
    if trim is not None:
        trim(0)


@cache
def _trim() -> Any:
    """The function of glibc that does so, None where the library is another one."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):
        return None
