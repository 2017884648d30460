"""A process that judges cases, so that one which crashes or hangs takes nothing else with it."""

from __future__ import annotations

import os
from multiprocessing.connection import Connection
from typing import Final, final

from benchmarks.asked_process import AskedProcess, NoAnswerError
from tests.hunting.family import HuntedCase, family
from tests.hunting.findings import Finding, Judgement

DEADLINE_SECONDS: Final = 60.0
"""How much processor time one case may take."""

MOST_CASES: Final = 400
"""How many cases a process judges before another one takes its place."""


def serve(pipe: Connection) -> None:
    """Answer (name of a family, case) by a judgement; before each judge its name is sent."""
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 2)
    while True:
        try:
            name, case = pipe.recv()
        except EOFError:
            return
        pipe.send(family(name).judge(case, pipe.send))


@final
class JudgeWorker:
    """Judges cases of one family in a process of its own, which is replaced where one kills it."""

    def __init__(self, name: str, deadline_seconds: float = DEADLINE_SECONDS) -> None:
        self._name = name
        self._process = AskedProcess(serve, deadline_seconds)
        self._judged = 0

    def judge(self, case: HuntedCase) -> Judgement:
        """Return what the judges say; a finding where the process dies or hangs."""
        self._process.ask((self._name, case))
        answer: Judgement | str = "start"
        while isinstance(answer, str):
            judge = answer
            try:
                answer = self._process.message()
            except NoAnswerError as error:
                self._judged = 0
                return Judgement((Finding(judge, error.kind, ""),), (), ())
        self._judged += 1
        if self._judged >= MOST_CASES:
            self.close()
        return answer

    def close(self) -> None:
        """End the process."""
        self._process.close()
        self._judged = 0
