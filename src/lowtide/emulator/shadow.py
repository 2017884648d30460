"""The accesses to each byte of an emulated device: races between works, blocks and threads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

import numpy as np
import numpy.typing as npt

from lowtide.emulator.native_watch import (
    BLOCK_SHIFT,
    MOST_WORK,
    THREAD_SHIFT,
    WORDS,
    WORK_SHIFT,
    WatchedFault,
)
from lowtide.ir.errors import LowtideError
from lowtide.records import dataclass

MOST_STREAMS: Final = 256

MOST_WATCHED: Final = 1 << 25
"""Bytes of which accesses are noted; of more, only bounds are known."""

Words = npt.NDArray[np.uint64]
Clock = npt.NDArray[np.int64]
"""Of each stream the number of its last work that is done before."""


class EmulationError(LowtideError):
    """A program does what a device leaves undefined: a race, or a wait that never ends."""


@dataclass(frozen=True, slots=True)
class WatchedMoment:
    """A piece of work: its number, what it is, and what it comes after."""

    number: int
    what: str
    clock: Clock


@final
class Shadow:
    """The words on the bytes of all allocations; see `native_watch`. All work has a number."""

    def __init__(self) -> None:
        self._words: dict[int, Words] = {}
        self._sizes: dict[int, int] = {}
        self._watched = 0
        self.streams = np.zeros(MOST_WORK, np.uint8)
        """The stream of each piece of work."""
        self._names: dict[int, str] = {}
        self._last = 0

    def add(self, address: int, nbytes: int) -> None:
        """Watch an allocation; once too much is watched, only its bounds."""
        is_watched = self._watched + nbytes <= MOST_WATCHED
        self._words[address] = np.zeros((nbytes, WORDS) if is_watched else (0, WORDS), np.uint64)
        self._sizes[address] = nbytes
        self._watched += len(self._words[address])

    def remove(self, address: int) -> None:
        """Forget an allocation."""
        self._watched -= len(self._words.pop(address))
        del self._sizes[address]

    def moment(self, stream: int, clock: Clock, what: str) -> WatchedMoment:
        """Return the next work of a stream, whose clock is set to it."""
        self._last += 1
        if self._last == MOST_WORK:
            raise EmulationError(f"{MOST_WORK:,} pieces of work without an end of all")
        self.streams[self._last] = stream
        self._names[self._last] = what
        clock[stream] = self._last
        return WatchedMoment(self._last, what, clock.copy())

    def settle(self, moment: WatchedMoment) -> None:
        """What a work did so far is done before what it does next: it has the number before."""
        for words in self._words.values():
            mine = words >> np.uint64(WORK_SHIFT) == np.uint64(moment.number)
            words[mine] -= np.uint64(1 << WORK_SHIFT)

    def forget(self) -> None:
        """All work is done and was waited for: what comes next races with none of it."""
        self._last = 0
        self._names.clear()
        for words in self._words.values():
            words[:] = 0

    @property
    def is_full(self) -> bool:
        """Whether numbers run out, and some should be forgotten."""
        return self._last > MOST_WORK // 2

    def access(
        self, base: int, offset: int, nbytes: int, moment: WatchedMoment, writes: bool
    ) -> None:
        """Note a copy's access to bytes of an allocation; raises EmulationError for a race."""
        words = self._words[base][offset : offset + nbytes]
        numbers = (words >> np.uint64(WORK_SHIFT)).astype(np.int64)
        late = numbers > moment.clock[self.streams[numbers]]
        racing = late if writes else late[:, :1]
        if racing.any():
            place, column = [int(x[0]) for x in np.nonzero(racing)]
            self._raise(moment, offset + place, int(numbers[place, column]))
        me = np.uint64(moment.number << WORK_SHIFT)
        if writes:
            words[:, 0], words[:, 1:] = me, 0
        elif len(words):
            free = 1 + np.argmin(late[:, 1:], axis=1)
            words[np.arange(len(words)), free] = me

    def _raise(self, moment: WatchedMoment, place: int, other: int) -> None:
        raise EmulationError(
            f"a race between works in streams: {moment.what} and {self._names.get(other, 'other')} "
            f"access byte {place} of an allocation, one of them writes it, and neither waits"
        )

    def ranges(self, bases: Sequence[int]) -> Clock:
        """Return first and last address of allocations, and that of their words."""
        rows = [
            (x, x + self._sizes[x], self._words[x].ctypes.data if len(self._words[x]) else 0)
            for x in bases
            if x in self._words
        ]
        return np.array(rows, np.int64).reshape(-1, 3)

    def raise_fault(self, kind: int, at: int, other: int, me: int, moment: WatchedMoment) -> None:
        """Raise EmulationError for what a kernel noted."""
        block, thread = _part(me, BLOCK_SHIFT, 18), _part(me, THREAD_SHIFT, 10)
        who = f"{moment.what}: thread {thread} of block {block}"
        if kind == WatchedFault.NOWHERE:
            raise EmulationError(f"{who} accesses {other} bytes where not all are allocated")
        if kind == WatchedFault.MISALIGNED:
            text = f"accesses {at:#x}, which is no multiple of {other} bytes: a misaligned address"
            raise EmulationError(f"{who} {text}")
        number = other >> WORK_SHIFT
        base = max([x for x in self._words if x <= at], default=0)
        if number != moment.number:
            self._raise(moment, at - base, number)
        theirs = f"thread {_part(other, THREAD_SHIFT, 10)} of block {_part(other, BLOCK_SHIFT, 18)}"
        raise EmulationError(
            f"{who} and {theirs} have a race in global memory: byte {at - base} of an allocation, "
            "and one of them writes it"
        )


def _part(word: int, shift: int, bits: int) -> int:
    return word >> shift & (1 << bits) - 1
