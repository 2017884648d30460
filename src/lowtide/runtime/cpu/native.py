"""The machine code of the runtime itself: one library for the process."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from threading import Lock
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from lowtide.llvm.function import Function, module_text
from lowtide.llvm.library import Library
from lowtide.llvm.machine import RUNTIME_LEVEL, KernelCompiler
from lowtide.llvm.target import Target, host_target
from lowtide.runtime.cpu.entry import entry_function, unlocked_function
from lowtide.runtime.cpu.looking import STATE_WORDS, THREAD_STATE, look_function
from lowtide.runtime.cpu.system import system_of
from lowtide.runtime.cpu.team import (
    dismiss_function,
    piece_function,
    take_function,
    work_function,
    worker_function,
)
from lowtide.runtime.cpu.walker import copy_function, run_function
from lowtide.runtime.devices.native_meeting import MeetingCode

EXPORTS: Final = (
    *("worker", "unlocked", "entry", "copy", "take", "dismiss"),
    *("exchange", "fail_meeting", "leave_meeting"),
)


def runtime_text(target: Target) -> str:
    """Return the module of the runtime in LLVM IR."""
    system = system_of(target)
    piece = piece_function()
    work = work_function(piece)
    look = look_function()
    meeting = MeetingCode(system, look)
    run = run_function(system, work, look, meeting.exchange)
    functions: list[Function] = [
        worker_function(system, work),
        work,
        piece,
        look,
        run,
        entry_function(run),
        unlocked_function(run),
        copy_function(),
        take_function(),
        dismiss_function(system),
        *meeting.functions,
    ]
    return module_text(functions)


class Native:
    """The runtime as it is linked: the addresses of its functions, and those that Python calls."""

    def __init__(self, code: bytes, target: Target) -> None:
        self.library = Library([code], list(EXPORTS), target)
        self.worker = self.library["worker"]
        self.copy = self.library["copy"]
        one = ctypes.c_void_p
        self.take: Any = ctypes.CFUNCTYPE(ctypes.c_int64, one)(self.library["take"])
        unlocked = self.library["unlocked"]
        self.run_alone: Any = ctypes.PYFUNCTYPE(ctypes.c_int64, one, one, one)(unlocked)
        self.dismiss: Any = ctypes.CFUNCTYPE(None, one)(self.library["dismiss"])
        self.fail_meeting: Any = ctypes.CFUNCTYPE(None, one)(self.library["fail_meeting"])
        self.leave_meeting: Any = ctypes.CFUNCTYPE(None, one)(self.library["leave_meeting"])
        self._exchange: Any = ctypes.CFUNCTYPE(ctypes.c_int64, one, one, one, one)(
            self.library["exchange"]
        )
        three = (ctypes.py_object, ctypes.py_object, ctypes.c_void_p)
        self.entry: Any = ctypes.PYFUNCTYPE(ctypes.c_int64, *three)(self.library["entry"])

    def meet(self, exchange: int, words: npt.NDArray[np.uint64], seat: int) -> bool:
        """Meet other devices outside of a run, given a workspace; return whether they came."""
        state = np.zeros(STATE_WORDS + THREAD_STATE + 1, np.uint64)
        state[1] = state.ctypes.data + 8 * STATE_WORDS  # No words about Python's lock are needed.
        given = exchange, words.ctypes.data, seat, state.ctypes.data
        return bool(self._exchange(*given) == 0)


_lock: Final = Lock()
os.register_at_fork(  # A forked process finds it free.
    before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
)
_native: list[Native] = []


def native(compile_object: Callable[[str], bytes] | None = None) -> Native:
    """Return the runtime of this process, which the first caller compiles.

    `compile_object` makes an object file of a module's text; by default LLVM does, each time.
    """
    with _lock:
        if not _native:
            target = host_target()
            make = compile_object or KernelCompiler(target, RUNTIME_LEVEL).object_code
            _native.append(Native(make(runtime_text(target)), target))
        return _native[0]
