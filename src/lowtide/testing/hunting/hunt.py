"""The hunt: modules drawn by coverage, judged in another process, finds made small and kept."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from random import Random
from typing import Final, final

from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir.errors import LowtideError
from lowtide.ir.module import Module
from lowtide.ir.printer import COMPLETE, to_text
from lowtide.reduce.minimize import minimize
from lowtide.testing.hunting.cells import cells_of
from lowtide.testing.hunting.judges import Conditions, Finding
from lowtide.testing.hunting.mutations import mutated
from lowtide.testing.hunting.state import HuntState
from lowtide.testing.hunting.worker import JudgeWorker
from lowtide.testing.hunting.writing import DrawnModule, draw_module
from lowtide.verifier import verify

SAVE_SECONDS: Final = 20.0
MINIMIZE_SECONDS: Final = 60.0
MOST_ALIKE: Final = 3
"""How many modules of one signature are made small."""

_RECENT: Final = 200


@final
class Hunt:
    """Draws modules, has them judged, and keeps what was found."""

    def __init__(self, state: HuntState, say: Callable[[str], None] = print) -> None:
        self.state = state
        self.say = say
        self.worker = JudgeWorker()
        self._recent: list[DrawnModule] = []

    def run(self, seconds: float) -> None:
        """Hunt for so long, and save the state in the end."""
        begun = saved = time.monotonic()
        before = self.state.seconds
        try:
            while time.monotonic() - begun < seconds:
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
        random = Random(seed)
        drawn = self._drawn(seed, random)
        try:
            module = parse_hlo(drawn.text)
            verify(module)
        except LowtideError as error:
            self.state.refused += 1
            self.state.silent[f"refused: {_words(error)}"] += 1
            return
        conditions = Conditions(
            seed,
            random.choice((1, 1, 2)),
            random.choice(("native", "native", "avx2")),
            random.choice(("fast", "fast", "fast", "default")),
            random.choice((("scheduled",), ("scheduled", "input"), ("input",))),
            random.choice((0, 0, 0, 6)),
        )
        judgement = self.worker.judge(drawn.text, conditions)
        self.state.modules += 1
        self.state.judged.update([judge for judge, _ in judgement.seconds])
        for judge, reason in judgement.silent:
            self.state.silent[f"{judge}: {_numberless(reason)}"] += 1
        if self.state.counts.add({*cells_of(module), *drawn.notes}):
            self._recent = [*self._recent[-_RECENT:], drawn]
        for finding in judgement.findings:
            if finding.judge == "xla" and finding.kind != "wrong":
                self.state.silent[f"xla: {finding.kind}"] += 1
                continue
            self._found(seed, drawn.text, finding, conditions)

    def _drawn(self, seed: int, random: Random) -> DrawnModule:
        """A module for a wish, or one that reached a new cell lately, changed."""
        if self._recent and random.randrange(5) == 0:
            old = random.choice(self._recent)
            return DrawnModule(mutated(old.text, random), old.notes)
        return draw_module(seed, self.state.counts.wish(random))

    def _found(self, seed: int, text: str, finding: Finding, conditions: Conditions) -> None:
        state, signature = self.state, finding.signature
        name = f"{seed:07}-{re.sub(r'[^a-z]+', '-', finding.judge)}"
        most = 4 * MOST_ALIKE if finding.kind == "wrong" else MOST_ALIKE
        is_known = state.findings[signature] >= most
        state.findings[signature] += 1
        state.last[signature] = seed
        head = f"{signature}\n{finding.words}\n{conditions}"
        state.write_find(name, head, text)
        self.say(f"{seed} {signature} {finding.words}")
        if is_known:
            return
        least = self._minimized(text, finding, conditions)
        if least is not None:
            self.state.first.setdefault(signature, f"{name}-least.hlo")
            state.write_find(f"{name}-least", head, least)

    def _minimized(self, text: str, finding: Finding, conditions: Conditions) -> str | None:
        """The least module that is found to show the same within the time allowed."""
        until = time.monotonic() + MINIMIZE_SECONDS

        def shows(module: Module) -> bool:
            if time.monotonic() > until:
                return False
            judgement = self.worker.judge(to_text(module, COMPLETE), conditions)
            return any(x.signature == finding.signature for x in judgement.findings)

        try:
            return to_text(minimize(parse_hlo(text), shows), COMPLETE)
        except (LowtideError, ValueError):
            return None


def _words(error: Exception) -> str:
    return _numberless(str(error).splitlines()[0])


def _numberless(words: str) -> str:
    return re.sub(r"[%\w.-]*\d[\w.-]*", "#", words)[:120]
