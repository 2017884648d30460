"""Broken contracts: errors that name them, and those that are found when nobody can raise them."""

from __future__ import annotations

import atexit
import sys
from threading import Lock
from typing import Final

from lowtide.pjrt.errors import INTERNAL, PluginError


class BrokenContractError(PluginError):
    """What JAX was told, or may count on, is not so: a fault of lowtide's."""

    def __init__(self, message: str) -> None:
        super().__init__(INTERNAL, f"contract broken: {message}")


def require(holds: bool, message: str) -> None:
    """Raise BrokenContractError unless something holds."""
    if not holds:
        raise BrokenContractError(message)


_found: Final[list[str]] = []
_lock: Final = Lock()


def note(message: str) -> None:
    """Keep what is broken for the next watched call to raise."""
    with _lock:
        _found.append(message)


def raise_noted() -> None:
    """Raise BrokenContractError for what was noted first, which then counts as told."""
    with _lock:
        first = _found.pop(0) if _found else None
    if first is not None:
        raise BrokenContractError(first)


@atexit.register
def _tell_rest() -> None:
    """Print what no call came to raise."""
    for message in _found:
        print(f"lowtide: contract broken: {message}", file=sys.stderr)
