"""The threads of a block as fibers: each runs until it waits, in turn with the others."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

import numpy as np

from lowtide.ir.thunk import GridLaunch
from lowtide.native import view
from lowtide.runtime.gpu.emulator.products import PRODUCT_WAITS
from lowtide.runtime.gpu.emulator.shadow import EmulationError
from lowtide.runtime.gpu.emulator.shared_log import LOGGED, SharedLog
from lowtide.runtime.gpu.emulator.state import (
    COPY_WORDS,
    MOST_COPIES,
    MOST_SUMS,
    SLOTS,
    CopyList,
    EmulatedState,
    Wait,
)
from lowtide.runtime.gpu.emulator.warp import WARP, WARP_WAITS
from lowtide.runtime.gpu.emulator.warpgroup import WARPGROUP, Warpgroup

_STACK_BYTES: Final = 1 << 16
_CONTEXT_BYTES: Final = 8192
"""Bytes of a `ucontext_t`, with room to spare."""

_LINK, _STACK, _SIZE = 1, 2, 4
"""Where it has the context that follows, the stack, and its size, in words of 8 bytes."""

_LIST_WORDS: Final = ctypes.sizeof(CopyList) // 8

_TOGETHER: Final = WARP_WAITS | PRODUCT_WAITS
"""What a warp does all of whose threads wait for it."""


@cache
def _libc() -> Any:
    library = ctypes.CDLL(None)
    for name, count in (("getcontext", 1), ("swapcontext", 2)):
        getattr(library, name).argtypes = [ctypes.c_void_p] * count
    library.makecontext.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int]
    return library


class Fibers:
    """Contexts and stacks for the threads of a block, and what they share with the scheduler.

    `state` is the address of the state of the kernels' module, `shared` that of the shared memory
    that launches ask for.
    """

    def __init__(self, state: int, shared: int) -> None:
        self.state = view(EmulatedState, state)
        self._log = SharedLog(shared)
        self._warpgroups: list[Warpgroup] = []
        self._main = np.zeros(_CONTEXT_BYTES // 8, np.uint64)
        self._contexts = np.zeros((0, _CONTEXT_BYTES // 8), np.uint64)
        self._stacks = np.zeros((0, _STACK_BYTES), np.uint8)
        self._lanes = np.zeros((0, SLOTS), np.int32)
        self._copies = np.zeros((0, _LIST_WORDS), np.int64)
        self._sums = np.zeros((0, MOST_SUMS), np.float32)
        self.state.scheduler = self._main.ctypes.data
        self.state.log = self._log.rows.ctypes.data
        self.state.capacity = LOGGED

    def run_block(self, launch: GridLaunch, entry: int, block: int) -> None:
        """Run all threads of a block; raises EmulationError for a race, or threads that hang."""
        name, threads = launch.function, launch.threads
        self._begin(entry, launch)
        self.state.block = block
        waits = np.full(threads, -1)
        runnable: Sequence[int] = range(threads)
        while len(runnable):
            for thread in runnable:
                waits[thread] = self._resumed(thread)
            runnable = self._released(name, waits)
        self._check_log(name)
        if any(x.going_on for x in self._warpgroups):
            raise EmulationError(f"{name}: a block ends without a wait for its last products")

    def _begin(self, entry: int, launch: GridLaunch) -> None:
        libc, threads = _libc(), launch.threads
        if threads > len(self._contexts):
            self._contexts = np.zeros((threads, _CONTEXT_BYTES // 8), np.uint64)
            self._stacks = np.zeros((threads, _STACK_BYTES), np.uint8)
            self._lanes = np.zeros((threads, SLOTS), np.int32)
            self._copies = np.zeros((threads, _LIST_WORDS), np.int64)
            self._sums = np.zeros((threads, MOST_SUMS), np.float32)
            self.state.lanes = self._lanes.ctypes.data
            self.state.copies = self._copies.ctypes.data
            self.state.sums = self._sums.ctypes.data
        self.state.logged = self.state.passed = 0
        self._copies[:, :2] = 0
        self._log.begin(launch.shared_bytes)
        self._warpgroups = [Warpgroup(i, self._log) for i in range(threads // WARPGROUP)]
        for thread in range(threads):
            context = self._contexts[thread]
            libc.getcontext(context.ctypes.data)
            context[_LINK] = self._main.ctypes.data
            context[_STACK] = self._stacks[thread].ctypes.data
            context[_SIZE] = _STACK_BYTES
            libc.makecontext(context.ctypes.data, entry, 0)

    def _resumed(self, thread: int) -> int:
        """Run a thread until it waits or ends; return what it waits for."""
        self.state.thread = thread
        self.state.waits_for = Wait.ENDED
        place = self._contexts[thread].ctypes.data
        self.state.fiber = place
        _libc().swapcontext(self._main.ctypes.data, place)
        found: int = self.state.waits_for
        return found

    def _released(self, name: str, waits: Any) -> Sequence[int]:
        """The threads that can go on; none where all have ended."""
        found: list[int] = []
        for first in range(0, len(waits), WARP):
            warp = waits[first : first + WARP]
            lanes = self._lanes[first : first + WARP]
            together = _TOGETHER.get(int(warp[0]))
            if together is None or not (warp == warp[0]).all():
                continue
            together(lanes)
            found += range(first, first + len(warp))
        for warpgroup in self._warpgroups:
            first = warpgroup.number * WARPGROUP
            members = range(first, first + WARPGROUP)
            if (waits[first : first + WARPGROUP] == Wait.WARPGROUP).all():
                self._together(name, warpgroup, members)
                found += members
        if found:
            self.state.passed += 1  # Threads of a warp are in step again.
        if found or (waits == Wait.ENDED).all():
            return found
        if (waits == Wait.BARRIER).all():
            self._check_log(name)
            self.state.passed += 1
            return range(len(waits))
        text = ", ".join([f"{int((waits == x).sum())} {x.name.lower()}" for x in Wait])
        raise EmulationError(f"{name}: threads of a block wait for different things: {text}")

    def _together(self, name: str, warpgroup: Warpgroup, members: range) -> None:
        """Do what all threads of a warpgroup call."""
        words = np.ascontiguousarray(self._lanes[members]).view(np.int64)
        sums = self._sums[members.start : members.stop]
        try:
            warpgroup.call(words, sums)
        except EmulationError as error:
            raise EmulationError(f"{name}: {error}") from None

    def _check_log(self, name: str) -> None:
        """Raise EmulationError for a race since the last barrier."""
        self._note_what_goes_on(name)
        count, is_wrong = self.state.logged, bool(self.state.fault)
        self.state.logged = 0
        self._log.check(name, count, is_wrong=is_wrong)

    def _note_what_goes_on(self, name: str) -> None:
        """Note the accesses of copies and products that go on over a barrier."""
        for warpgroup in self._warpgroups:
            warpgroup.note_all()
        counts = self._copies[:, 0]
        if not counts.any():
            return
        if counts.max() > MOST_COPIES:
            raise EmulationError(f"{name}: a thread begins more than {MOST_COPIES} copies at once")
        places = self._copies[:, 2::COPY_WORDS]
        going_on = np.arange(MOST_COPIES) < counts[:, None]
        self._log.note_copies(places[going_on], np.nonzero(going_on)[0])
