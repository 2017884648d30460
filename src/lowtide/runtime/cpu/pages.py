"""Memory from the operating system, in whole pages."""

from __future__ import annotations

import ctypes
import mmap
import os
from functools import cache
from typing import Any, Final

import numpy as np

from lowtide.ir.errors import LowtideError

PAGE: Final = mmap.PAGESIZE
HUGE_PAGE: Final = 1 << 21
"""The size of a huge page, by which stretches of memory are aligned that have one."""

_FAILED: Final = ctypes.c_void_p(-1).value
READ_WRITE: Final = mmap.PROT_READ | mmap.PROT_WRITE
PRIVATE: Final = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
"""Pages that are to be written: the system refuses at once what it plainly has not."""

UNRESERVED: Final = PRIVATE | 0x4000
"""Addresses only, for pages that move there."""

_FIXED: Final = 0x10
_MOVE: Final = 3
"""What `mremap` is asked for: a move to a fixed place."""

KEEP_PLACE: Final = _MOVE | 4
"""The same, which leaves the old place mapped."""

MAY_BE_HUGE: Final = 14
"""What `madvise` is told of pages that may be huge ones."""


class OutOfMemoryError(LowtideError, MemoryError):
    """The system has not the memory that a call needs."""


@cache
def _libc() -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    word, number = ctypes.c_void_p, ctypes.c_size_t
    integer, offset = ctypes.c_int, ctypes.c_long
    libc.mmap.restype = word
    libc.mmap.argtypes = (word, number, integer, integer, integer, offset)
    libc.munmap.argtypes = (word, number)
    libc.mremap.restype = word
    libc.mremap.argtypes = (word, number, number, integer, word)
    libc.madvise.argtypes = (word, number, integer)
    libc.mincore.argtypes = (word, number, word)
    return libc


def whole_pages(nbytes: int) -> int:
    """Return the least multiple of a page that is not less."""
    return -(-nbytes // PAGE) * PAGE


def take(nbytes: int, *, huge: bool) -> int:
    """Return the address of that many new bytes (a multiple of a page), all 0.

    From 2 MiB on they begin at a multiple of a huge page, and with `huge` the system may use huge
    pages. Raises OutOfMemoryError.
    """
    if nbytes < HUGE_PAGE:
        return _map(None, nbytes, PRIVATE)
    address = reserve(nbytes, 0)
    _map(address, nbytes, PRIVATE | _FIXED)
    if huge:
        _libc().madvise(address, nbytes, MAY_BE_HUGE)
    return address


def reserve(nbytes: int, remainder: int) -> int:
    """Return the address of that many new bytes, equal to `remainder` modulo a huge page.

    Less than a huge page lies anywhere. Raises OutOfMemoryError.
    """
    if nbytes < HUGE_PAGE:
        return _map(None, nbytes, UNRESERVED)
    given = nbytes + HUGE_PAGE
    start = _map(None, given, UNRESERVED)
    address = start + (remainder - start) % HUGE_PAGE
    if address > start:
        give(start, address - start)
    rest = start + given - address - nbytes
    if rest:
        give(address + nbytes, rest)
    return address


def move(address: int, nbytes: int, target: int, *, keep: bool) -> bool:
    """Move pages to an address, in place of what is there; whether the system could.

    With `keep` new bytes, all 0, are left where they were, at no moment free for others to take.
    """
    flags = KEEP_PLACE if keep else _MOVE
    return bool(_libc().mremap(address, nbytes, nbytes, flags, target) != _FAILED)


@cache
def can_move() -> bool:
    """Whether the system moves pages and keeps the place where they were (Linux 5.7 and later)."""
    source, target = _map(None, PAGE, PRIVATE), _map(None, PAGE, PRIVATE)
    moved = move(source, PAGE, target, keep=True)
    give(source, PAGE)
    give(target, PAGE)
    return moved


def give(address: int, nbytes: int) -> None:
    """Give memory back to the system."""
    _libc().munmap(address, nbytes)


def resident(address: int, nbytes: int) -> int:
    """Return how many bytes of a stretch that begins with a page have pages of memory."""
    found = np.zeros(-(-nbytes // PAGE), np.uint8)
    _libc().mincore(address, nbytes, found.ctypes.data)
    return PAGE * int(np.count_nonzero(found & 1))


def _map(address: int | None, nbytes: int, flags: int) -> int:
    found = _libc().mmap(address, nbytes, READ_WRITE, flags, -1, 0)
    if found in (_FAILED, None):
        reason = os.strerror(ctypes.get_errno())
        raise OutOfMemoryError(f"{nbytes} bytes of memory are not to be had: {reason}")
    return int(found)
