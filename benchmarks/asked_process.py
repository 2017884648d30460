"""A process that is asked over a pipe: a request that crashes or hangs ends nothing else."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, Literal, final

_IDLE: Final = 0.01
"""The share of a processor below which a process does nothing."""


class NoAnswerError(Exception):
    """The process died ("crash"), or computed or did nothing for too long ("hang")."""

    def __init__(self, kind: Literal["crash", "hang"]) -> None:
        super().__init__(kind)
        self.kind = kind


@final
class AskedProcess:
    """A process that runs `serve` with its end of a pipe until that is closed.

    It starts with the first request, and after one that had no answer with the next. `serve` is a
    function of a module, which the process imports. A request may take `deadline_seconds` of
    processor time; it may do nothing for as long, which waiting for a processor is not. On Linux
    it ends with the thread that asked first, whatever ends that one, and whatever it computes then.
    """

    def __init__(self, serve: Callable[[Connection], None], deadline_seconds: float) -> None:
        self._serve = serve
        self._deadline_seconds = deadline_seconds
        self._running: tuple[Any, Connection] | None = None
        self._asked_at = 0.0

    def ask(self, request: object) -> None:
        """Send a request; from now on the deadline counts."""
        process, pipe = self._running or self._start()
        self._asked_at = _processor_seconds(process.pid)
        pipe.send(request)

    def message(self) -> Any:
        """Return the next message; raises NoAnswerError, after which the process is gone."""
        if self._running is None:
            raise NoAnswerError("crash")
        try:
            if self._comes():
                return self._running[1].recv()
            error = NoAnswerError("hang")
        except (EOFError, ConnectionResetError):
            error = NoAnswerError("crash")
        self.close()
        raise error

    def _comes(self) -> bool:
        """Wait for a message; return False where the process hangs."""
        assert self._running is not None
        process, pipe = self._running
        deadline = self._deadline_seconds
        idle_since, used = time.monotonic(), _busy_seconds(process.pid)
        while not pipe.poll(min(1.0, deadline)):
            now, busy = time.monotonic(), _busy_seconds(process.pid)
            if _processor_seconds(process.pid) - self._asked_at > deadline:
                return False
            if abs(busy - used) > _IDLE * (now - idle_since):
                idle_since, used = now, busy
            elif now - idle_since > deadline:
                return False
        return True

    def close(self) -> None:
        """End the process."""
        if self._running is not None:
            process, pipe = self._running
            process.kill()
            process.join()
            pipe.close()
            self._running = None

    def _start(self) -> tuple[Any, Connection]:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        arguments = (self._serve, theirs, os.getpid())
        process = context.Process(target=_serve_beside, args=arguments, daemon=True)
        process.start()
        theirs.close()
        self._running = process, ours
        return self._running


_SIGNAL_AT_PARENTS_END: Final = 1
"""PR_SET_PDEATHSIG of Linux's prctl."""


def _serve_beside(serve: Callable[[Connection], None], pipe: Connection, asking: int) -> None:
    """Serve as long as the process that asks is there."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SIGNAL_AT_PARENTS_END, signal.SIGKILL)
        if os.getppid() != asking:
            return
    serve(pipe)


def _processor_seconds(pid: int) -> float:
    """Return what a process has computed; 0 where it is gone, and its pipe tells so."""
    try:
        return time.clock_gettime(_clock_of(pid))
    except OSError:
        return 0.0


def _busy_seconds(pid: int) -> float:
    """Return what a process has computed, and its threads have waited for a processor.

    A thread that ends takes what it waited along.
    """
    return _processor_seconds(pid) + sum(map(_waited_seconds, Path(f"/proc/{pid}/task").glob("*")))


def _waited_seconds(thread: Path) -> float:
    """Return what a thread has waited for a processor; 0 where it is gone, or not on Linux."""
    try:
        return int((thread / "schedstat").read_text().split()[1]) / 1e9
    except OSError:
        return 0.0


def _clock_of(pid: int) -> int:
    """Return the number of the clock of a process, as Linux makes it of the process's number."""
    return (~pid << 3) | 2
