"""The threads of a block as fibers: each runs until it waits, in turn with the others."""

from __future__ import annotations

import ctypes
from typing import Any, Final

import numpy as np

from lowtide.codegen.emulated.calls import Wait
from lowtide.codegen.emulated.products import WARP
from lowtide.emulator.native_fibers import CONTEXT_BYTES, RUNNABLE, STACK_BYTES
from lowtide.emulator.products import PRODUCT_WAITS
from lowtide.emulator.shadow import EmulationError
from lowtide.emulator.shared_log import LOGGED, SharedLog
from lowtide.emulator.state import (
    COPY_WORDS,
    MOST_COPIES,
    MOST_SUMS,
    MOST_WARPS,
    SLOTS,
    CopyList,
    EmulatedState,
)
from lowtide.emulator.warp import WARP_WAITS
from lowtide.emulator.warpgroup import WARPGROUP, Warpgroup
from lowtide.ir.thunk import GridLaunch
from lowtide.native import view

_LIST_WORDS: Final = ctypes.sizeof(CopyList) // 8

_TOGETHER: Final = WARP_WAITS | PRODUCT_WAITS
"""What a warp does all of whose threads wait for it."""


_BEGIN: Final = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64
)
_RESUME: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)


class Fibers:
    """Contexts and stacks for the threads of a block, and what they share with the scheduler.

    `state` is the address of the state of the kernels' module, `shared` that of the shared memory
    that launches ask for; `begin` and `resume` are those of `gpu_begin` and `gpu_resume`.
    """

    def __init__(self, state: int, shared: int, begin: int, resume: int) -> None:
        self._begin_all, self._resume = _BEGIN(begin), _RESUME(resume)
        self.state = view(EmulatedState, state)
        self._log = SharedLog(shared)
        self._warpgroups: list[Warpgroup] = []
        self._main = np.zeros(CONTEXT_BYTES // 8, np.uint64)
        self._contexts = np.zeros((0, CONTEXT_BYTES // 8), np.uint64)
        self._stacks = np.zeros((0, STACK_BYTES), np.uint8)
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
        waits = np.full(threads, RUNNABLE, np.int64)
        while (waits == RUNNABLE).any():
            self._resume(self._contexts.ctypes.data, threads, waits.ctypes.data)
            waits[self._released(name, waits)] = RUNNABLE
        self._check_log(name)
        if any(x.going_on for x in self._warpgroups):
            raise EmulationError(f"{name}: a block ends without a wait for its last products")

    def begin_steps(self) -> None:
        """No threads of a block have waited for each other."""
        self.state.passed = self.state.barrier = 0
        self.state.in_step[:] = [0] * MOST_WARPS

    def _begin(self, entry: int, launch: GridLaunch) -> None:
        threads = launch.threads
        if threads > len(self._contexts):
            self._contexts = np.zeros((threads, CONTEXT_BYTES // 8), np.uint64)
            self._stacks = np.zeros((threads, STACK_BYTES), np.uint8)
            self._lanes = np.zeros((threads, SLOTS), np.int32)
            self._copies = np.zeros((threads, _LIST_WORDS), np.int64)
            self._sums = np.zeros((threads, MOST_SUMS), np.float32)
            self.state.lanes = self._lanes.ctypes.data
            self.state.copies = self._copies.ctypes.data
            self.state.sums = self._sums.ctypes.data
        self.state.logged = 0
        self.begin_steps()
        self._copies[:, :2] = 0
        self._log.begin(launch.shared_bytes)
        self._warpgroups = [Warpgroup(i, self._log) for i in range(threads // WARPGROUP)]
        contexts, stacks = self._contexts.ctypes.data, self._stacks.ctypes.data
        self._begin_all(contexts, stacks, entry, threads)

    def _released(self, name: str, waits: Any) -> list[int]:
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
            self.state.passed += 1
            for warp in {x // WARP for x in found}:
                self.state.in_step[warp] = self.state.passed
        if found or (waits == Wait.ENDED).all():
            return found
        if (waits == Wait.BARRIER).all():
            self._check_log(name)
            self.state.passed += 1
            self.state.barrier = self.state.passed
            return list(range(len(waits)))
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
