"""The machine code of the runtime itself: one library for the process."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from threading import Lock
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from lowtide.llvm.library import Library
from lowtide.llvm.objects import compiled_unit
from lowtide.llvm.target import Target, host_target
from lowtide.native import NativeUnit
from lowtide.runtime.cpu.entry import entry, unlocked
from lowtide.runtime.cpu.signals import STATE_WORDS, THREAD_STATE
from lowtide.runtime.cpu.team import dismiss, take, worker
from lowtide.runtime.cpu.walker import copy
from lowtide.runtime.devices.native_rendezvous import (
    fail_rendezvous,
    leave_rendezvous,
    run_collective,
)

RUNTIME: Final = NativeUnit(
    "runtime",
    [
        worker,
        unlocked,
        entry,
        copy,
        take,
        dismiss,
        run_collective,
        fail_rendezvous,
        leave_rendezvous,
    ],
)
"""The runtime's functions that are called from elsewhere."""


class Native:
    """The runtime as it is linked: the addresses of its functions, and those that Python calls."""

    def __init__(self, code: bytes, target: Target) -> None:
        self.library = Library([code], RUNTIME.names, target)
        self.worker = self.library["worker"]
        self.copy = self.library["copy"]
        one = ctypes.c_void_p
        self.take: Any = ctypes.CFUNCTYPE(ctypes.c_int64, one)(self.library["take"])
        unlocked = self.library["unlocked"]
        self.run_alone: Any = ctypes.PYFUNCTYPE(ctypes.c_int64, one, one, one)(unlocked)
        self.dismiss: Any = ctypes.CFUNCTYPE(None, one)(self.library["dismiss"])
        self.fail_rendezvous: Any = ctypes.CFUNCTYPE(None, one)(self.library["fail_rendezvous"])
        self.leave_rendezvous: Any = ctypes.CFUNCTYPE(None, one)(self.library["leave_rendezvous"])
        self._collective: Any = ctypes.CFUNCTYPE(ctypes.c_int64, one, one, one, one)(
            self.library["run_collective"]
        )
        three = (ctypes.py_object, ctypes.py_object, ctypes.c_void_p)
        self.entry: Any = ctypes.PYFUNCTYPE(ctypes.c_int64, *three)(self.library["entry"])

    def meet(self, collective: int, words: npt.NDArray[np.uint64], participant: int) -> bool:
        """Meet other devices outside of a run, given a workspace; return whether they came."""
        state = np.zeros(STATE_WORDS + THREAD_STATE + 1, np.uint64)
        state[1] = state.ctypes.data + 8 * STATE_WORDS  # No words about Python's lock are needed.
        given = collective, words.ctypes.data, participant, state.ctypes.data
        return bool(self._collective(*given) == 0)


_lock: Final = Lock()
os.register_at_fork(  # A forked process finds it free.
    before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
)
_native: list[Native] = []


def native(compile_unit: Callable[[NativeUnit], bytes] | None = None) -> Native:
    """Return the runtime of this process, which the first caller compiles.

    `compile_unit` makes the object file of a unit; by default LLVM does, each time.
    """
    with _lock:
        if not _native:
            target = host_target()
            code = compile_unit(RUNTIME) if compile_unit else compiled_unit(RUNTIME, target)
            _native.append(Native(code, target))
        return _native[0]
