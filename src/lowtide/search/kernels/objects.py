"""The place of the machine code of kernels for other processes; it needs no LLVM."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol


class ObjectStore(Protocol):
    """Objects by key, kept for other processes."""

    def through(self, key: str, make: Callable[[], bytes]) -> bytes:
        """Return the object of a key, made and kept where there is none."""


_STORES: Final[list[ObjectStore]] = []
"""The store in use, if there is one."""


def keep_objects(store: ObjectStore) -> None:
    """Take the objects of kernels from a store from now on, and put new ones there."""
    _STORES[:] = [store]


def kept_object(key: str, make: Callable[[], bytes]) -> bytes:
    """Return the object of a key: from the store, or made."""
    return _STORES[0].through(key, make) if _STORES else make()
