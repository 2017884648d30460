"""Kernels of graphics processors on the host: what a device would leave in memory."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Final, final

import numpy as np

from lowtide.ir.launch import GridLaunch
from lowtide.llvm.library import Library
from lowtide.llvm.machine import KernelCompiler
from lowtide.llvm.ptx import joined
from lowtide.llvm.target import host_target
from lowtide.runtime.gpu.emulator.blocks import Fibers
from lowtide.runtime.gpu.emulator.host_text import StateField, host_text, waiting_kernels
from lowtide.runtime.gpu.program import GpuProgram

_RUN: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


@final
class HostKernels:
    """The kernels of a program as code of this host."""

    def __init__(self, program: GpuProgram) -> None:
        text = joined(program.texts)
        launches = [x for kernel in program.kernels for x in kernel.launches]
        self._waiting = waiting_kernels(text)
        names = dict.fromkeys([f"enter_{x.function}" for x in launches])
        code = KernelCompiler(host_target()).object_code(host_text(program.texts, program.kernels))
        exported = ["gpu_state_address", "gpu_run", *names]
        self._library = Library([code], exported, host_target())
        address = ctypes.CFUNCTYPE(ctypes.c_void_p)(self._library["gpu_state_address"])
        self._fibers = Fibers(address())
        self._run_all = _RUN(self._library["gpu_run"])

    def launch(self, launch: GridLaunch, addresses: Sequence[int]) -> None:
        """Run a function by all blocks; raises EmulationError for what a device leaves undefined.

        `addresses` are those of the host, of the operands' arrays, the results', and the scratch.
        """
        given = np.array(addresses, np.uint64)
        self._fibers.state[StateField.ARGUMENTS] = given.ctypes.data
        entry = self._library[f"enter_{launch.function}"]
        if launch.function not in self._waiting:
            self._run_all(entry, launch.blocks, launch.threads)
            return
        for block in range(launch.blocks):
            self._fibers.run_block(launch.function, entry, block, launch.threads)
