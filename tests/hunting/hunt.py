"""The hunt: cases drawn by coverage, judged in another process, finds made small and kept."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Final, final

from tests.hunting.family import HuntedCase, family
from tests.hunting.findings import Finding
from tests.hunting.state import HuntState
from tests.hunting.worker import JudgeWorker

from lowtide.ir.errors import LowtideError

SAVE_SECONDS: Final = 20.0
MINIMIZE_SECONDS: Final = 60.0


@final
class Hunt:
    """Draws the cases of a family, has them judged, and keeps what was found."""

    def __init__(self, name: str, state: HuntState, say: Callable[[str], None] = print) -> None:
        self.family = family(name)
        self.state = state
        self.say = say
        self.worker = JudgeWorker(name)

    def run(self, seconds: float, seeds: int | None = None) -> None:
        """Hunt for so long, or through so many seeds, and save the state in the end."""
        begun = saved = time.monotonic()
        before, last = self.state.seconds, None if seeds is None else self.state.next_seed + seeds
        try:
            while time.monotonic() - begun < seconds and self.state.next_seed != last:
                self._one(self.state.next_seed)
                self.state.next_seed += 1
                self.state.seconds = before + time.monotonic() - begun
                if time.monotonic() - saved > SAVE_SECONDS:
                    self.state.save()
                    saved = time.monotonic()
        finally:
            self.worker.close()
            self.state.save()

    def _one(self, seed: int) -> None:
        try:
            case = self.family.draw(seed, Random(seed), self.state.counts)
        except LowtideError as error:
            self.state.refused += 1
            self.state.silent[f"refused: {_words(error)}"] += 1
            return
        judgement = self.worker.judge(case)
        self.state.cases += 1
        self.state.judged.update([judge for judge, _ in judgement.seconds])
        for judge, reason in judgement.silent:
            self.state.silent[f"{judge}: {_numberless(reason)}"] += 1
        self.state.counts.add(case.cells)
        for finding in judgement.findings:
            self._found(seed, case, finding)

    def _found(self, seed: int, case: HuntedCase, finding: Finding) -> None:
        """Count a finding under what it shows and the operations of the least case with it."""
        state = self.state
        name = f"{seed:07}-{re.sub(r'[^a-z]+', '-', finding.judge)}"
        words = " ".join(finding.words.split())  # Of one line, as who reads it expects.
        head = f"{finding.signature}\n{words}\n{case.conditions}"
        state.write_find(name, head, case.text)
        least = case if finding.kind == "hang" else self._minimized(case, finding)
        state.write_find(f"{name}-least", head, least.text)
        key = f"{finding.signature} [{self.family.words(least)}]"
        state.findings[key] += 1
        state.last[key] = seed
        state.ended.discard(key)
        state.first.setdefault(key, f"{name}-least")
        self.say(f"{seed} {key} {finding.words}")

    def _minimized(self, case: HuntedCase, finding: Finding) -> HuntedCase:
        """The least case that is found to show the same within the time allowed."""
        until = time.monotonic() + MINIMIZE_SECONDS

        def shows(smaller: HuntedCase) -> bool:
            if time.monotonic() > until:
                return False
            found = self.worker.judge(smaller).findings
            return any(x.signature == finding.signature for x in found)

        return self.family.smaller(replace(case, cells=frozenset()), shows)


def _words(error: Exception) -> str:
    return _numberless(str(error).splitlines()[0])


def _numberless(words: str) -> str:
    return re.sub(r"[%\w.-]*\d[\w.-]*", "#", words)[:120]
