"""Programs of graphics processors on the host: what a device would leave in memory."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from lowtide.ir.buffer import BufferSlice
from lowtide.ir.errors import InputError
from lowtide.ir.launch import GridLaunch
from lowtide.ir.literal import DTYPES
from lowtide.ir.shape import Shape
from lowtide.ir.thunk import ConditionalThunk, CopyThunk, KernelThunk, Thunk, WhileThunk
from lowtide.llvm.library import Library
from lowtide.llvm.machine import KernelCompiler
from lowtide.llvm.ptx import joined
from lowtide.llvm.target import host_target
from lowtide.runtime.cpu.arguments import as_array, major_to_minor
from lowtide.runtime.cpu.program import Bytes, nested
from lowtide.runtime.gpu.emulator.blocks import Fibers
from lowtide.runtime.gpu.emulator.host_text import StateField, host_text, waiting_kernels
from lowtide.runtime.gpu.program import GpuProgram

ALIGNMENT: Final = 256
"""What addresses of allocations are multiples of, as on a device."""


class EmulatedProgram:
    """A program of a graphics processor, able to be called on this host.

    A call takes arrays, one for each array of the parameters, and returns what the program does.
    """

    def __init__(self, program: GpuProgram) -> None:
        self.program = program
        text = joined(program.texts)
        launches = [x for kernel in program.kernels for x in kernel.launches]
        self._waiting = waiting_kernels(text)
        names = dict.fromkeys([f"enter_{x.function}" for x in launches])
        code = KernelCompiler(host_target()).object_code(host_text(program.texts, program.kernels))
        exported = ["gpu_state_address", "gpu_run", *names]
        self._library = Library([code], exported, host_target())
        address = ctypes.CFUNCTYPE(ctypes.c_void_p)(self._library["gpu_state_address"])
        self._fibers = Fibers(address())
        self._run_all = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(
            self._library["gpu_run"]
        )

    def __call__(self, *arrays: Any) -> Any:
        """Run the program; raises InputError for arguments that do not fit, EmulationError."""
        memories = self._memories(arrays)
        self._run(self.program.thunks, memories)
        interface = self.program.interface
        results = [_array(memories, x.place, x.shape) for x in interface.results]
        return nested(interface.structure, results)

    def _memories(self, arrays: Sequence[Any]) -> list[Bytes]:
        """The bytes of each allocation before the program runs."""
        interface = self.program.interface
        if len(arrays) != len(interface.arguments):
            count = len(interface.arguments)
            raise InputError(f"the program takes {count} arrays, {len(arrays)} were given")
        memories = [_aligned(x.nbytes) for x in interface.memories]
        for argument, given in zip(interface.arguments, arrays, strict=True):
            array = as_array(argument, given)
            if argument.allocation >= 0:
                laid = np.ascontiguousarray(array.transpose(major_to_minor(argument.shape)))
                flat = laid.reshape(-1).view(np.uint8)
                memories[argument.allocation][: flat.size] = flat
        for index, values in self.program.constants:
            memories[index][: values.size] = values
        return memories

    def _run(self, thunks: Sequence[Thunk], memories: Sequence[Bytes]) -> None:
        for thunk in thunks:
            match thunk:
                case KernelThunk():
                    self._kernel(thunk, memories)
                case CopyThunk():
                    _bytes(memories, thunk.target)[:] = _bytes(memories, thunk.source)
                case WhileThunk():
                    self._run(thunk.condition, memories)
                    while _bytes(memories, thunk.predicate)[0]:
                        self._run(thunk.body, memories)
                        self._run(thunk.condition, memories)
                case ConditionalThunk():
                    self._run(thunk.branches[_branch(thunk, memories)], memories)
                case _:
                    raise AssertionError(thunk)

    def _kernel(self, thunk: KernelThunk, memories: Sequence[Bytes]) -> None:
        places = [*thunk.buffers]
        addresses = [_bytes(memories, x).ctypes.data if x.nbytes else 0 for x in places]
        scratch = 0 if thunk.scratch is None else _bytes(memories, thunk.scratch).ctypes.data
        given = np.array([*addresses, scratch], np.uint64)
        self._fibers.state[StateField.ARGUMENTS] = given.ctypes.data
        for launch in self.program.kernels[thunk.kernel].launches:
            self._launch(launch)

    def _launch(self, launch: GridLaunch) -> None:
        entry = self._library[f"enter_{launch.function}"]
        if launch.function not in self._waiting:
            self._run_all(entry, launch.blocks, launch.threads)
            return
        for block in range(launch.blocks):
            self._fibers.run_block(launch.function, entry, block, launch.threads)


def _aligned(nbytes: int) -> Bytes:
    whole = np.zeros(nbytes + ALIGNMENT, np.uint8)
    start = -whole.ctypes.data % ALIGNMENT
    return whole[start : start + nbytes]


def _bytes(memories: Sequence[Bytes], place: BufferSlice) -> Bytes:
    return memories[place.allocation][place.offset : place.offset + place.nbytes]


def _array(memories: Sequence[Bytes], place: BufferSlice, shape: Shape) -> Any:
    """A copy of a result as an array of its logical dimensions."""
    order = major_to_minor(shape)
    sizes = [shape.dimensions[d] for d in order]
    if not shape.element_count:
        return np.zeros(shape.dimensions, DTYPES[shape.element_type])
    flat = _bytes(memories, place).copy().view(DTYPES[shape.element_type])
    back = np.argsort(order) if order else ()
    return flat.reshape(sizes).transpose(back)


def _branch(thunk: ConditionalThunk, memories: Sequence[Bytes]) -> int:
    selector = _bytes(memories, thunk.selector)
    if thunk.is_predicate:
        return 0 if selector[0] else 1
    number = int(selector.copy().view(np.int32)[0])
    last = len(thunk.branches) - 1
    return number if 0 <= number <= last else last
