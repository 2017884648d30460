"""Threads that run pieces of work beside the caller: one pool for each number of threads."""

from __future__ import annotations

import atexit
import ctypes
import os
import signal
from functools import cache
from threading import Lock
from time import monotonic, sleep
from typing import Any, Final

import numpy as np

from lowtide.ir.errors import LowtideError
from lowtide.runtime.cpu.native import Native
from lowtide.runtime.cpu.team import LOCK, OPEN, PENDING, SLEEPERS, TEAM_BYTES, THREADS

STOP_SECONDS: Final = 2.0
"""How long the end of the process waits for a run on another thread."""


class Pool:
    """`threads` - 1 workers, which `start` starts; the caller of a run is thread 0.

    Its block says that the pool is taken unless workers are there, so that runs go on alone before
    the start, after the end, and in a forked process, which has none of its parent's workers.
    """

    def __init__(self, threads: int, native: Native) -> None:
        self.threads = threads
        self._native = native
        self._memory = np.zeros(TEAM_BYTES + 128, np.uint8)
        self.block = int(self._memory.ctypes.data) + (-self._memory.ctypes.data) % 128
        self._arguments = np.zeros((threads, 2), np.int64)
        self._workers: list[Any] = []
        self._starting = Lock()
        self.alive = False
        self.ended = False
        self._word(LOCK).value = 1
        self._word(THREADS).value = threads

    def _word(self, offset: int) -> ctypes.c_int64:
        """A word of the block. Those of 32 bits stand alone, so that the rest of it is 0."""
        return ctypes.c_int64.from_address(self.block + offset)

    def start(self) -> None:
        """Start the workers; raises LowtideError where the system gives no threads."""
        with self._starting:
            if self.alive or self.ended:
                return
            blocked = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            try:
                for number in range(1, self.threads):
                    self._workers.append(self._started(number))
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
            self.alive = True
            self._word(LOCK).value = 0

    def _started(self, number: int) -> Any:
        self._arguments[number] = self.block, number
        thread = ctypes.c_ulong()
        given = ctypes.c_void_p(self._arguments[number].ctypes.data)
        worker = ctypes.c_void_p(self._native.worker)
        error = _libc().pthread_create(ctypes.byref(thread), None, worker, given)
        if error:
            self._end_workers()
            raise LowtideError(
                f"thread {number + 1} of {self.threads} cannot be started: {os.strerror(error)}; "
                "take fewer threads"
            )
        return thread

    def stop(self) -> None:
        """End the workers for good. Runs go on alone."""
        self.ended = True
        if not self.alive:
            return
        deadline = monotonic() + STOP_SECONDS
        while self._native.take(self.block):
            if monotonic() > deadline:
                return
            sleep(0.001)
        self.alive = False
        self._end_workers()

    def _end_workers(self) -> None:
        self._native.dismiss(self.block)
        for thread in self._workers:
            _libc().pthread_join(thread, None)
        self._workers.clear()
        self._word(OPEN).value = 0

    def forget(self) -> None:
        """Take note, in a forked process, that the workers are not there."""
        self._starting = Lock()
        self._workers.clear()
        self.alive = False
        for offset, value in ((LOCK, 1), (OPEN, 0), (PENDING, 0), (SLEEPERS, 0)):
            self._word(offset).value = value


@cache
def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


_pools: Final[dict[int, Pool]] = {}


def pool_of(threads: int, native: Native) -> Pool:
    """Return the pool of the process for a number of threads; raises ValueError below 1."""
    if threads < 1:
        raise ValueError(f"a pool has at least one thread, not {threads}")
    pool = _pools.get(threads)
    return pool if pool is not None else _pools.setdefault(threads, Pool(threads, native))


def _stop_all() -> None:
    for pool in list(_pools.values()):
        pool.stop()


def _forget_all() -> None:
    for pool in list(_pools.values()):
        pool.forget()


atexit.register(_stop_all)
os.register_at_fork(after_in_child=_forget_all)
