"""Accesses of the threads of a block to shared memory between barriers, and their faults."""

from __future__ import annotations

import ctypes
from typing import Final, final

import numpy as np
import numpy.typing as npt

from lowtide.emulator.races import race_in, unwritten_in
from lowtide.emulator.shadow import EmulationError

LOGGED: Final = 1 << 21
"""Accesses to shared memory between two barriers, at most."""

_PIECE: Final = 16
_FIRST_WARPGROUP: Final = 1 << 10
"""The number of the first warpgroup among those that access shared memory; threads are below."""

_WINDOW: Final = 1 << 18
"""Descriptors tell addresses up to a multiple of this."""

Places = npt.NDArray[np.int64]


@final
class SharedLog:
    """The accesses of a block since its last barrier, and what became of the earlier ones.

    `base` is the address of the shared memory that launches ask for.
    """

    def __init__(self, base: int) -> None:
        self.base = base
        self.rows = np.zeros((LOGGED, 2), np.uint64)
        """An access each, as `races.Log` has them; without bytes it is a fence of the thread's."""
        self._more: list[npt.NDArray[np.uint64]] = []
        self._written = np.zeros(0, np.uint64)
        """The addresses that the block had written at its last barrier."""
        self._nbytes = 0
        self._hidden = np.zeros(0, np.int64)
        """By byte the thread that wrote it and has not shown it to products since, or -1."""

    def begin(self, nbytes: int) -> None:
        """Forget all: a block begins whose launch asks for so many bytes."""
        self._more, self._nbytes = [], nbytes
        self._written = np.zeros(0, np.uint64)
        self._hidden = np.full(nbytes, -1)

    # -- products of warpgroups ------------------------------------------------------------------

    def inside(self, addresses: Places) -> Places:
        """Return places in shared memory for addresses as descriptors tell them."""
        places = (addresses - self.base) % _WINDOW
        if places.max() + 2 > self._nbytes:
            text = f"byte {int(places.max())} of shared memory, of {self._nbytes}"
            raise EmulationError(f"a product reads {text}")
        return places

    def halves(self, places: Places) -> npt.NDArray[np.uint16]:
        """Return the numbers of 16 bits at places."""
        whole = (ctypes.c_uint16 * (self._nbytes // 2)).from_address(self.base)
        found: npt.NDArray[np.uint16] = np.ctypeslib.as_array(whole)[places // 2]
        return found

    def check_shown(self, pieces: Places) -> None:
        """Raise EmulationError where a piece has bytes that were stored and not shown since."""
        hidden = self._hidden[pieces[:, None] + np.arange(_PIECE)]
        if (hidden >= 0).any():
            thread = int(hidden.max())
            raise EmulationError(
                f"a product reads what thread {thread} stored in shared memory, without a fence "
                "of the proxy between that and the barrier ahead of the product"
            )

    def note_pieces(self, pieces: Places, warpgroup: int) -> None:
        """Note that a warpgroup reads pieces of 16 bytes."""
        what = _FIRST_WARPGROUP + warpgroup << 16 | _PIECE << 1
        self._note(pieces + self.base, np.full(len(pieces), what))

    def note_copies(self, addresses: Places, threads: Places) -> None:
        """Note that copies of 16 bytes go on, of a thread each."""
        self._note(addresses, threads << 16 | _PIECE << 1 | 1)

    def _note(self, addresses: Places, what: Places) -> None:
        self._more.append(np.stack([addresses, what], axis=1).astype(np.uint64))

    # -- barriers --------------------------------------------------------------------------------

    def check(self, name: str, count: int, *, is_wrong: bool) -> None:
        """Raise EmulationError for what was wrong since the last barrier, after so many accesses.

        Nothing is raised where an access `is_wrong` already.
        """
        if count > LOGGED:
            raise EmulationError(f"{name}: {count} accesses to shared memory without a barrier")
        log = np.concatenate([self.rows[:count], *self._more]) if self._more else self.rows[:count]
        self._more = []
        self._note_hidden(log)
        log = log[(log[:, 1] & np.uint64(0xFFFE)) != 0]
        race = race_in(log)
        unwritten, self._written = unwritten_in(log, self._written)
        if is_wrong:
            return
        if race is not None:
            first, second = sorted([race.first, race.second])
            raise EmulationError(
                f"{name}: a race in shared memory: threads {first} and {_who(second)} access "
                f"byte {race.place}, and one of them writes it, without a barrier between"
            )
        if unwritten is not None:
            raise EmulationError(
                f"{name}: thread {_who(unwritten.thread)} reads byte {unwritten.place} of shared "
                "memory, which no thread of the block has written"
            )

    def _note_hidden(self, log: npt.NDArray[np.uint64]) -> None:
        """Note which bytes of what was asked for are stored, and not shown to products since."""
        if not self._nbytes:
            return
        what, place = log[:, 1].astype(np.int64), log[:, 0].astype(np.int64) - self.base
        thread, nbytes, order = what >> 16, what >> 1 & 0x7FFF, np.arange(len(log))
        last = np.full(_FIRST_WARPGROUP + 16, -1)
        fences = nbytes == 0
        np.maximum.at(last, thread[fences], order[fences])
        shown = (self._hidden >= 0) & (last[self._hidden] >= 0)
        self._hidden[shown] = -1
        is_write = (what & 1 == 1) & (place >= 0) & (place < _WINDOW)
        for is_shown in (True, False):
            chosen = is_write & ((order < last[thread]) == is_shown)
            for size in np.unique(nbytes[chosen]):
                some = chosen & (nbytes == size)
                places = place[some][:, None] + np.arange(size)
                self._hidden[places] = -1 if is_shown else thread[some][:, None]


def _who(thread: int) -> str:
    """What accesses shared memory, after the word "thread"."""
    if thread < _FIRST_WARPGROUP:
        return str(thread)
    return f"a product of warpgroup {thread - _FIRST_WARPGROUP}"
