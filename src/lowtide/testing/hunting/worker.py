"""A process that judges modules, so that one which crashes or hangs takes nothing else with it."""

from __future__ import annotations

import os
from multiprocessing.connection import Connection
from typing import Final, final

from lowtide.testing.asked_process import AskedProcess, NoAnswerError
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


@final
class JudgeWorker:
    """Judges modules in a process of its own, which is replaced where a module kills it."""

    def __init__(self, deadline_seconds: float = DEADLINE_SECONDS) -> None:
        self._process = AskedProcess(serve, deadline_seconds)
        self._judged = 0

    def judge(self, text: str, conditions: Conditions) -> Judgement:
        """Return what the judges say; a finding where the process dies or takes too long."""
        self._process.ask((text, conditions))
        answer: Judgement | str = "start"
        while isinstance(answer, str):
            judge = answer
            try:
                answer = self._process.message()
            except NoAnswerError as error:
                self._judged = 0
                return Judgement((Finding(judge, error.kind, ""),), (), ())
        self._judged += 1
        if self._judged >= MOST_MODULES:
            self.close()
        return answer

    def close(self) -> None:
        """End the process."""
        self._process.close()
        self._judged = 0
