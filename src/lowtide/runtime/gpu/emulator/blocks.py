"""The threads of a block as fibers: each runs until it waits, in turn with the others."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

import numpy as np

from lowtide.runtime.gpu.emulator.products import PRODUCT_WAITS
from lowtide.runtime.gpu.emulator.races import race_in, unwritten_in
from lowtide.runtime.gpu.emulator.shadow import EmulationError
from lowtide.runtime.gpu.emulator.state import SLOTS, StateField, Wait
from lowtide.runtime.gpu.emulator.warp import (
    WARP,
    Lanes,
    exchange,
    matrices,
    turned_matrices,
)

_STACK_BYTES: Final = 1 << 16
_CONTEXT_BYTES: Final = 8192
"""Bytes of a `ucontext_t`, with room to spare."""

_LINK, _STACK, _SIZE = 1, 2, 4
"""Where it has the context that follows, the stack, and its size, in words of 8 bytes."""

_LOGGED: Final = 1 << 21
"""Accesses to shared memory between two barriers, at most."""


_TOGETHER: Final[dict[int, Callable[[Lanes], None]]] = {
    Wait.EXCHANGE: exchange,
    Wait.MATRICES: matrices,
    Wait.TURNED_MATRICES: turned_matrices,
    **PRODUCT_WAITS,
}
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

    `state` is the address of `@gpu_state` of the kernels' module.
    """

    def __init__(self, state: int) -> None:
        pointer = ctypes.cast(state, ctypes.POINTER(ctypes.c_int64))
        self.state = np.ctypeslib.as_array(pointer, (len(StateField),))
        self._log = np.zeros((_LOGGED, 2), np.uint64)
        self._written = np.zeros(0, np.uint64)
        """The addresses in shared memory that the block had written at its last barrier."""
        self._main = np.zeros(_CONTEXT_BYTES // 8, np.uint64)
        self._contexts = np.zeros((0, _CONTEXT_BYTES // 8), np.uint64)
        self._stacks = np.zeros((0, _STACK_BYTES), np.uint8)
        self._lanes = np.zeros((0, SLOTS), np.int32)
        self.state[StateField.SCHEDULER] = self._main.ctypes.data
        self.state[StateField.LOG] = self._log.ctypes.data
        self.state[StateField.CAPACITY] = _LOGGED

    def run_block(self, name: str, entry: int, block: int, threads: int) -> None:
        """Run all threads of a block; raises EmulationError for a race, or threads that hang."""
        self._begin(entry, threads)
        self.state[StateField.BLOCK] = block
        waits = np.full(threads, -1)
        runnable: Sequence[int] = range(threads)
        while len(runnable):
            for thread in runnable:
                waits[thread] = self._resumed(thread)
            runnable = self._released(name, waits)
        self._check_log(name)

    def _begin(self, entry: int, threads: int) -> None:
        libc = _libc()
        if threads > len(self._contexts):
            self._contexts = np.zeros((threads, _CONTEXT_BYTES // 8), np.uint64)
            self._stacks = np.zeros((threads, _STACK_BYTES), np.uint8)
            self._lanes = np.zeros((threads, SLOTS), np.int32)
            self.state[StateField.LANES] = self._lanes.ctypes.data
        self.state[StateField.LOGGED] = self.state[StateField.PASSED] = 0
        self._written = np.zeros(0, np.uint64)
        for thread in range(threads):
            context = self._contexts[thread]
            libc.getcontext(context.ctypes.data)
            context[_LINK] = self._main.ctypes.data
            context[_STACK] = self._stacks[thread].ctypes.data
            context[_SIZE] = _STACK_BYTES
            libc.makecontext(context.ctypes.data, entry, 0)

    def _resumed(self, thread: int) -> int:
        """Run a thread until it waits or ends; return what it waits for."""
        self.state[StateField.THREAD] = thread
        self.state[StateField.WAITS_FOR] = Wait.ENDED
        place = self._contexts[thread].ctypes.data
        self.state[StateField.FIBER] = place
        _libc().swapcontext(self._main.ctypes.data, place)
        return int(self.state[StateField.WAITS_FOR])

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
        if found:
            self.state[StateField.PASSED] += 1  # Threads of a warp are in step again.
        if found or (waits == Wait.ENDED).all():
            return found
        if (waits == Wait.BARRIER).all():
            self._check_log(name)
            self.state[StateField.PASSED] += 1
            return range(len(waits))
        text = ", ".join([f"{int((waits == x).sum())} {x.name.lower()}" for x in Wait])
        raise EmulationError(f"{name}: threads of a block wait for different things: {text}")

    def _check_log(self, name: str) -> None:
        """Raise EmulationError for a race since the last barrier."""
        count = int(self.state[StateField.LOGGED])
        if count > _LOGGED:
            raise EmulationError(f"{name}: {count} accesses to shared memory without a barrier")
        race = race_in(self._log[:count])
        unwritten, self._written = unwritten_in(self._log[:count], self._written)
        self.state[StateField.LOGGED] = 0
        if self.state[StateField.FAULT]:
            return  # An earlier access is wrong already.
        if race is not None:
            raise EmulationError(
                f"{name}: a race in shared memory: threads {race.first} and {race.second} access "
                f"byte {race.place}, and one of them writes it, without a barrier between"
            )
        if unwritten is not None:
            raise EmulationError(
                f"{name}: thread {unwritten.thread} reads byte {unwritten.place} of shared memory, "
                "which no thread of the block has written"
            )
