"""Data that all calls of a program share: linked code, constants, the words they begin with."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from functools import cache
from threading import main_thread
from typing import Any, Final

import numpy as np

from lowtide.ir.errors import LowtideError
from lowtide.ir.literal import DTYPES
from lowtide.native import NativeUnit
from lowtide.runtime.cpu.arena import ArenaPlan, aligned, arena_plan
from lowtide.runtime.cpu.arguments import alignment, physical_sizes
from lowtide.runtime.cpu.entry import C_CONTIGUOUS, WRITEABLE, Fill
from lowtide.runtime.cpu.frame import EXTRA_BASES, NOTHING, UNREAD, FramePlan, Words
from lowtide.runtime.cpu.linked import Linked
from lowtide.runtime.cpu.native import native
from lowtide.runtime.cpu.pool import Pool, pool_of
from lowtide.runtime.cpu.program import Interface, NativeProgram
from lowtide.runtime.cpu.results import Made, made_results
from lowtide.runtime.cpu.table import LOCKED_SECONDS, WAKE_SECONDS


class Binding:
    """A program in the process. Nothing of it changes."""

    def __init__(
        self,
        program: NativeProgram,
        compile_unit: Callable[[NativeUnit], bytes] | None,
        *,
        without_denormals: bool = False,
    ) -> None:
        self._stored: list[Any] = []
        self.program = program
        self.interface: Interface = program.interface
        _check_overwritten(program.interface)
        self.native = native(compile_unit)
        self.linked = Linked(program, self.native)
        nothing = len(self.interface.memories) + NOTHING
        self.made = made_results(self.interface, nothing=nothing, consume=False)
        self.consuming = made_results(self.interface, nothing=nothing, consume=True)
        shares = program.threads > 1 and self.linked.table.shared_seconds > 0
        self.pool: Pool | None = pool_of(program.threads, self.native) if shares else None
        placed = {x.allocation for x in self.made if x.fill is Fill.PLACE}
        self.arena: ArenaPlan = arena_plan(self.interface.memories, placed)
        self.frames = self._frame_plan(program, without_denormals)

    def _frame_plan(self, program: NativeProgram, without_denormals: bool) -> FramePlan:
        table = self.linked.table
        wake = program.threads - 1 if table.shared_seconds >= WAKE_SECONDS else 0
        team = 0 if self.pool is None else self.pool.block
        is_short = table.seconds < LOCKED_SECONDS and not table.has_loops
        lock = (0, 0, 0, 0) if is_short else _lock_functions()
        table_address = self._store(table.words)

        def context(made: Sequence[Made]) -> tuple[int, ...]:
            arguments = self._store(self._argument_words({x.consumed for x in made}))
            results = self._store(_result_words(made))
            return table_address, 0, 0, arguments, results, id(np.ndarray)

        return FramePlan(
            self._bases(program.constants),
            self.arena,
            (team, 0, 0, wake, *lock, 0, *_call_functions(), 0, int(without_denormals)),
            context(self.made),
            context(self.consuming),
            table.workspace,
        )

    def _bases(self, constants: Sequence[tuple[int, Any]]) -> Words:
        count = len(self.interface.memories)
        bases = np.zeros(count + EXTRA_BASES, np.int64)
        bases[count + NOTHING] = bases[count + UNREAD] = self._store(np.zeros(8, np.int64))
        for index, values in constants:
            bases[index] = self._store(aligned(values))
        return bases

    def _argument_words(self, consumed: set[int]) -> Words:
        unread = len(self.interface.memories) + UNREAD
        words = [len(self.interface.arguments)]
        for number, x in enumerate(self.interface.arguments):
            dtype = DTYPES[x.shape.element_type]
            sizes = self._store(np.array([*physical_sizes(x.shape), 0], np.int64))
            base = unread if x.allocation < 0 else x.allocation
            flags = C_CONTIGUOUS | (WRITEABLE if number in consumed else 0)
            words += [id(dtype), x.shape.rank, sizes, alignment(x.shape) - 1, base]
            words += [flags, dtype.itemsize * x.shape.element_count]
        return np.array(words, np.int64)

    def _store(self, array: Any) -> int:
        """Keep an array for as long as this; return its address."""
        self._stored.append(array)
        return int(array.ctypes.data)


def _result_words(made: Sequence[Made]) -> Words:
    return np.array([len(made), *[word for x in made for word in x.words]], np.int64)


def _check_overwritten(interface: Interface) -> None:
    """Raise LowtideError where a run would overwrite an argument that is no result."""
    for number, memory in enumerate(interface.memories):
        if memory.result < 0 or memory.argument < 0 or not memory.nbytes:
            continue
        place = interface.results[memory.result].place
        if (place.allocation, place.offset, place.nbytes) != (number, 0, memory.nbytes):
            argument = interface.arguments[memory.argument]
            raise LowtideError(f"the plan puts more than one result into {argument}")


@cache
def _call_functions() -> tuple[int, int, int]:
    """The addresses of what makes a number of an address, calls an object and lets go of one."""
    python = ctypes.pythonapi
    functions = (python.PyLong_FromVoidPtr, python.PyObject_CallOneArg, python.Py_DecRef)
    number, call, let_go = [ctypes.cast(x, ctypes.c_void_p).value or 0 for x in functions]
    return number, call, let_go


_main_thread: Final = ctypes.c_uint64()
"""The number of the thread in which Python calls handlers of signals."""


@cache
def _lock_functions() -> tuple[int, int, int, int]:
    """The addresses of what releases Python's lock, takes it again, and calls handlers of signals.

    The last one is that of the number of the thread in which they are called.
    """
    python = ctypes.pythonapi
    _note_main_thread()
    os.register_at_fork(after_in_child=_note_main_thread)
    functions = (python.PyEval_SaveThread, python.PyEval_RestoreThread, python.PyErr_CheckSignals)
    save, restore, signals = [ctypes.cast(x, ctypes.c_void_p).value or 0 for x in functions]
    return save, restore, signals, ctypes.addressof(_main_thread)


def _note_main_thread() -> None:
    _main_thread.value = main_thread().ident or 0
