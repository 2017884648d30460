"""A process that judges modules, so that one which crashes or hangs takes nothing else with it."""

from __future__ import annotations

import multiprocessing
import os
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Final, final

from lowtide.testing.hunting.judges import Conditions, Court, Finding, Judgement

DEADLINE_SECONDS: Final = 60.0
"""How long one module may take."""

MOST_MODULES: Final = 400
"""How many modules a process judges before another one takes its place."""


def serve(pipe: Connection) -> None:
    """Answer (text, conditions) by a judgement; before each judge its name is sent."""
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 2)
    while True:
        try:
            text, conditions = pipe.recv()
        except EOFError:
            return
        judgement = Court(text, conditions, pipe.send).judgement()
        pipe.send(judgement)


@dataclass(frozen=True, slots=True)
class JudgeProcess:
    """A process with the pipe to it."""

    process: Any
    pipe: Connection


@final
class JudgeWorker:
    """Judges modules in a process of its own, which is replaced where a module kills it."""

    def __init__(self, deadline_seconds: float = DEADLINE_SECONDS) -> None:
        self._deadline_seconds = deadline_seconds
        self._running: JudgeProcess | None = None
        self._judged = 0

    def judge(self, text: str, conditions: Conditions) -> Judgement:
        """Return what the judges say; a finding where the process dies or takes too long."""
        running = self._running or self._start()
        judge = "start"
        until = time.monotonic() + self._deadline_seconds
        running.pipe.send((text, conditions))
        while True:
            try:
                if not running.pipe.poll(max(0.0, until - time.monotonic())):
                    kind = "hang"
                    break
                answer = running.pipe.recv()
            except (EOFError, ConnectionResetError):
                kind = "crash"
                break
            if isinstance(answer, Judgement):
                self._judged += 1
                if self._judged >= MOST_MODULES:
                    self.close()
                return answer
            judge = answer
        self.close()
        return Judgement((Finding(judge, kind, ""),), (), ())

    def close(self) -> None:
        """End the process."""
        if self._running is not None:
            self._running.process.kill()
            self._running.process.join()
            self._running.pipe.close()
            self._running = None

    def _start(self) -> JudgeProcess:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=serve, args=(theirs,), daemon=True)
        process.start()
        theirs.close()
        self._running = JudgeProcess(process, ours)
        self._judged = 0
        return self._running
