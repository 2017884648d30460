"""Kernels of graphics processors on the host: what a device would leave in memory."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Final, final

import numpy as np

from lowtide.codegen.emulated.host_text import host_text, shared_bytes, waiting_kernels
from lowtide.emulator.blocks import Fibers
from lowtide.emulator.native_copies import (
    gpu_copies_commit,
    gpu_copies_wait,
    gpu_copy,
    gpu_copy_part,
)
from lowtide.emulator.native_fibers import gpu_begin, gpu_resume
from lowtide.emulator.native_threads import (
    gpu_arguments,
    gpu_barrier,
    gpu_bfloats,
    gpu_block,
    gpu_exchange,
    gpu_lane,
    gpu_note,
    gpu_proxy_fence,
    gpu_run,
    gpu_state_address,
    gpu_sums,
    gpu_thread,
    gpu_wait,
    gpu_warp_barrier,
    gpu_warpgroup,
)
from lowtide.emulator.native_watch import gpu_global, gpu_lanes
from lowtide.emulator.shadow import EmulationError, Shadow, WatchedMoment
from lowtide.ir.thunk import GridLaunch
from lowtide.llvm.library import Library
from lowtide.llvm.machine import KernelCompiler
from lowtide.llvm.ptx import joined
from lowtide.llvm.target import host_target
from lowtide.native import NativeUnit
from lowtide.runtime.gpu.assembling import MOST_SHARED_BYTES
from lowtide.runtime.gpu.program import GpuProgram

_RUN: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


_EXPORTED: Final = (
    *(gpu_state_address, gpu_arguments, gpu_thread, gpu_block, gpu_run),
    *(gpu_begin, gpu_resume),
    *(gpu_wait, gpu_barrier, gpu_lane, gpu_exchange, gpu_warp_barrier, gpu_note),
    *(gpu_sums, gpu_warpgroup, gpu_proxy_fence),
    *(gpu_copy, gpu_copy_part, gpu_copies_commit, gpu_copies_wait, gpu_global, gpu_lanes),
    gpu_bfloats,
)
"""The native functions that the text of kernels calls."""


@cache
def _native_text() -> str:
    """The text of the native functions; it declares what copies bytes."""
    return NativeUnit("emulator", _EXPORTED).text(host_target().triple)


@lru_cache(maxsize=1)
def _host_code(program: GpuProgram) -> bytes:
    """The kernels as code of this host, which several devices load."""
    return KernelCompiler(host_target()).object_code(
        host_text(program.texts, program.kernels, _native_text())
    )


@final
class HostKernels:
    """The kernels of a program as code of this host."""

    def __init__(self, program: GpuProgram) -> None:
        text = joined(program.texts)
        _check_shared_bytes(text)
        launches = [x for kernel in program.kernels for x in kernel.launches]
        self._waiting = waiting_kernels(text)
        names = dict.fromkeys([f"enter_{x.function}" for x in launches])
        found = ["gpu_state_address", "gpu_shared_address", "gpu_constants_address"]
        exported = [*found, "gpu_run", "gpu_begin", "gpu_resume", *names]
        self._library = Library([_host_code(program)], exported, host_target())
        asked = ctypes.CFUNCTYPE(ctypes.c_void_p)
        state, shared, constants = (asked(self._library[x])() for x in found)
        begin, resume = self._library["gpu_begin"], self._library["gpu_resume"]
        self._fibers = Fibers(state, shared, begin, resume)
        self._fibers.state.constants = constants
        self._run_all = _RUN(self._library["gpu_run"])

    def launch(self, launch: GridLaunch, addresses: Sequence[int]) -> None:
        """Run a function by all blocks; raises EmulationError for what a device leaves undefined.

        `addresses` are those of the host, of the operands' arrays, the results', and the scratch.
        """
        given = np.array(addresses, np.uint64)
        state = self._fibers.state
        state.arguments = given.ctypes.data
        state.fault = 0
        self._fibers.begin_steps()
        entry = self._library[f"enter_{launch.function}"]
        if launch.function not in self._waiting:
            self._run_all(entry, launch.blocks, launch.threads)
            return
        for block in range(launch.blocks):
            self._fibers.run_block(launch, entry, block)

    def launch_watched(
        self,
        launch: GridLaunch,
        addresses: Sequence[int],
        shadow: Shadow,
        bases: Sequence[int],
        moment: WatchedMoment,
    ) -> None:
        """Do what `launch` does, where only the allocations at `bases` may be accessed.

        Raises EmulationError for other accesses, misaligned ones, and races.
        """
        state, ranges = self._fibers.state, shadow.ranges(bases)
        state.work, state.clock = moment.number, moment.clock.ctypes.data
        state.streams = shadow.streams.ctypes.data
        state.ranges, state.range_count = ranges.ctypes.data, len(ranges)
        try:
            self.launch(launch, addresses)
        finally:
            state.range_count = 0
        if state.fault:
            other, me = state.fault_other % (1 << 64), state.fault_me % (1 << 64)
            shadow.raise_fault(state.fault, state.fault_at, other, me, moment)


def _check_shared_bytes(text: str) -> None:
    """Raise EmulationError where a kernel defines more shared memory than a device gives it."""
    for name, nbytes in shared_bytes(text):
        if nbytes > MOST_SHARED_BYTES:
            raise EmulationError(f"{name}: {nbytes} bytes of shared memory, of {MOST_SHARED_BYTES}")
