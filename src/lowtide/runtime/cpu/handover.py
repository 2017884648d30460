"""Memory of results: new arrays, and pages of the arena that move to one while others replace them.

A moved page is neither copied nor filled again. When the array dies its pages wait for the next
result of the same place. They move into the hole that this one leaves.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np

from lowtide.ir.literal import Array
from lowtide.runtime.cpu import pages
from lowtide.runtime.cpu.arena import LINE
from lowtide.runtime.cpu.entry import Fill
from lowtide.runtime.cpu.layout import address_of
from lowtide.runtime.cpu.pages import HUGE_PAGE, PAGE
from lowtide.runtime.cpu.results import MOVED_BYTES, Made


class PageForm(NamedTuple):
    """How `nbytes` bytes lie in pages: the first `data` bytes into them.

    The `pages` bytes of all pages begin at `remainder` modulo a huge page. The whole pages between
    the first and the last byte are `inner_bytes` bytes, from `inner` on.
    """

    nbytes: int
    data: int
    pages: int
    remainder: int
    inner: int
    inner_bytes: int


def form_at(begin: int, nbytes: int) -> PageForm:
    """Return how bytes at an address lie in pages."""
    data = begin % PAGE
    inner = pages.whole_pages(data)
    inner_bytes = (data + nbytes) // PAGE * PAGE - inner
    remainder = (begin - data) % HUGE_PAGE if nbytes >= HUGE_PAGE else 0
    return PageForm(nbytes, data, pages.whole_pages(data + nbytes), remainder, inner, inner_bytes)


class Recycled:
    """Stretches of memory that results had, by form; at most so many of each.

    As many as `alike` says for their bytes are kept, too. `full` ones have all their pages, and
    are kept where there is `room` for so many bytes. The inner pages of `hollow` ones have moved
    into arenas. With `huge` the system may use huge pages for new ones.
    """

    def __init__(
        self,
        most: int,
        room: Callable[[int], bool] | None = None,
        *,
        alike: Mapping[int, int] = MappingProxyType({}),
        huge: bool = True,
    ) -> None:
        self._most = most
        self._alike = alike
        self._huge = huge
        self._room = room
        self._full: dict[PageForm, list[int]] = {}
        self._hollow: dict[PageForm, list[int]] = {}
        self._closed = False

    def full(self, form: PageForm) -> int | None:
        """Take memory with all its pages; None where there is none."""
        return _popped(self._full, form)

    def whole(self, form: PageForm) -> int:
        """Take memory with all its pages, or new memory; raises OutOfMemoryError."""
        found = self.full(form)
        return pages.take(form.pages, huge=self._huge) if found is None else found

    def hollow(self, form: PageForm) -> int:
        """Take memory without inner pages, or new memory; raises OutOfMemoryError."""
        found = _popped(self._hollow, form)
        if found is not None:
            return found
        return pages.reserve(form.pages, form.remainder)

    def keep_full(self, address: int, form: PageForm) -> None:
        """Take back memory that has its pages."""
        if self._room is None or self._room(form.pages):
            self._keep(self._full, address, form)
        else:
            pages.give(address, form.pages)

    def keep_hollow(self, address: int, form: PageForm) -> None:
        """Take back memory whose inner pages moved away."""
        self._keep(self._hollow, address, form)

    def _keep(self, kept: dict[PageForm, list[int]], address: int, form: PageForm) -> None:
        found = kept.setdefault(form, [])
        most = max(self._most, self._alike.get(form.nbytes, 0))
        if len(found) < most and not self._closed:
            found.append(address)
        else:
            pages.give(address, form.pages)

    def empty(self) -> None:
        """Give all memory back to the system."""
        for kept in (self._full, self._hollow):
            for form, found in list(kept.items()):
                while found:
                    pages.give(found.pop(), form.pages)

    @property
    def nbytes(self) -> int:
        """The bytes that wait, in pages."""
        full = [form.pages * len(found) for form, found in list(self._full.items())]
        hollow = [
            (form.pages - form.inner_bytes) * len(found)
            for form, found in list(self._hollow.items())
        ]
        return sum(full) + sum(hollow)

    def close(self) -> None:
        """Give all memory back, and from now on what comes later."""
        self._closed = True
        self.empty()


def _popped(kept: dict[PageForm, list[int]], form: PageForm) -> int | None:
    try:
        return kept[form].pop()
    except (KeyError, IndexError):
        return None


class Owner:
    """The memory of a result, which waits for another one when the result is gone.

    At the end of the process it stays: the system takes it, and modules may be gone by then.
    """

    __slots__ = ("__array_interface__", "_memory")

    def __init__(self, address: int, form: PageForm, home: Recycled) -> None:
        self.__array_interface__ = {
            "shape": (form.nbytes,),
            "typestr": "|u1",
            "data": (address + form.data, False),
            "version": 3,
        }
        self._memory = address, form, home

    def __del__(self) -> None:
        address, form, home = self._memory
        if not _is_ending():
            home.keep_full(address, form)


_is_ending: Final = sys.is_finalizing


def new_array(made: Made, recycled: Recycled) -> Array:
    """Return memory for a result, in order of memory, that begins with a line of a cache.

    Large results have pages of their own, which may have waited; a result that is made otherwise
    has no elements yet. Raises OutOfMemoryError.
    """
    if not made.is_placed:
        return np.empty((0,) if made.fill is Fill.NONE else made.sizes, made.dtype)
    if made.nbytes < MOVED_BYTES:
        room = np.empty(made.nbytes + LINE, np.uint8)
        return np.ndarray(made.sizes, made.dtype, room, -address_of(room) % LINE)
    form = _form_of_pages(made.nbytes)
    return _shaped(Owner(recycled.whole(form), form, recycled), made)


def _shaped(owner: Owner, made: Made) -> Array:
    """The memory of a result as an array of its type and sizes, in order of memory."""
    return np.ndarray(made.sizes, made.dtype, np.asarray(owner))


@lru_cache
def _form_of_pages(nbytes: int) -> PageForm:
    """How bytes lie in pages of their own."""
    return form_at(0, nbytes)


def refill(begin: int, made: Made, recycled: Recycled) -> None:
    """Move pages that wait to where a result will lie in an arena."""
    form = form_at(begin, made.nbytes)
    waiting = recycled.full(form)
    if waiting is not None:
        hole = begin - form.data + form.inner
        pages.move(waiting + form.inner, form.inner_bytes, hole, keep=True)
        recycled.keep_hollow(waiting, form)


def taken_over(begin: int, made: Made, recycled: Recycled, *, fill: bool) -> Array:
    """Return the result that lies at an address of an arena as an array with its own memory.

    With `fill` pages that wait take the place of its own. It is copied where the system does not
    move pages. Raises OutOfMemoryError.
    """
    if not pages.can_move():
        return _copied(begin, made)
    form = form_at(begin, made.nbytes)
    start = begin - form.data
    hole, size = start + form.inner, form.inner_bytes
    home = recycled.hollow(form)
    if not pages.move(hole, size, home + form.inner, keep=True):
        pages.give(home, form.pages)
        return _copied(begin, made)
    if fill:
        refill(begin, made, recycled)
    end = form.inner + size
    ctypes.memmove(home + form.data, begin, form.inner - form.data)
    ctypes.memmove(home + end, start + end, form.data + form.nbytes - end)
    return _shaped(Owner(home, form, recycled), made)


def _copied(begin: int, made: Made) -> Array:
    array: Array = np.empty(made.sizes, made.dtype)
    ctypes.memmove(array.ctypes.data, begin, made.nbytes)
    return array
