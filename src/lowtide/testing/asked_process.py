"""A process that is asked over a pipe: a request that crashes or hangs ends nothing else."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, Literal, final


class NoAnswerError(Exception):
    """The process died ("crash"), or took too long ("hang")."""

    def __init__(self, kind: Literal["crash", "hang"]) -> None:
        super().__init__(kind)
        self.kind = kind


@final
class AskedProcess:
    """A process that runs `serve` with its end of a pipe until that is closed.

    It starts with the first request, and after one that had no answer with the next. `serve` is a
    function of a module, which the process imports.
    """

    def __init__(self, serve: Callable[[Connection], None], deadline_seconds: float) -> None:
        self._serve = serve
        self._deadline_seconds = deadline_seconds
        self._running: tuple[Any, Connection] | None = None
        self._until = 0.0

    def ask(self, request: object) -> None:
        """Send a request; from now on the deadline counts."""
        _, pipe = self._running or self._start()
        self._until = time.monotonic() + self._deadline_seconds
        pipe.send(request)

    def message(self) -> Any:
        """Return the next message; raises NoAnswerError, after which the process is gone."""
        if self._running is None:
            raise NoAnswerError("crash")
        try:
            if self._running[1].poll(max(0.0, self._until - time.monotonic())):
                return self._running[1].recv()
            error = NoAnswerError("hang")
        except (EOFError, ConnectionResetError):
            error = NoAnswerError("crash")
        self.close()
        raise error

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
        process = context.Process(target=self._serve, args=(theirs,), daemon=True)
        process.start()
        theirs.close()
        self._running = process, ours
        return self._running
