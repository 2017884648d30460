"""The words of judges on a case: findings, and who could say nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from time import perf_counter
from typing import Any

from lowtide.ir.errors import LowtideError, UnsupportedOpError
from lowtide.records import dataclass

Tell = Callable[[str], None]
"""Told the name of each judge before it is asked."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A disagreement: who says so, of what kind, and the first line of the words."""

    judge: str
    kind: str
    words: str

    @property
    def signature(self) -> str:
        """What findings of one cause have in common: numbers and names are left out."""
        words = "" if self.kind == "wrong" else re.sub(r"[%\w.-]*\d[\w.-]*", "#", self.words)
        return f"{self.judge}: {self.kind} {words[:100]}".strip()


@dataclass(frozen=True, slots=True)
class Judgement:
    """What came of a case: findings, and which judges could not say anything, with the reason."""

    findings: tuple[Finding, ...]
    silent: tuple[tuple[str, str], ...]
    seconds: tuple[tuple[str, float], ...]


class Court:
    """The judges of one case, asked one after the other."""

    def __init__(self, tell: Tell) -> None:
        self.tell = tell
        self.findings: list[Finding] = []
        self.silent: list[tuple[str, str]] = []
        self.seconds: list[tuple[str, float]] = []

    def judgement(self) -> Judgement:
        """Return what all judges said."""
        return Judgement(tuple(self.findings), tuple(self.silent), tuple(self.seconds))

    def found(self, judge: str, kind: str, words: str) -> None:
        """Add a finding."""
        self.findings.append(Finding(judge, kind, words))

    def ask(self, judge: str, question: Callable[[], Any], *, is_ours: bool = True) -> Any:
        """Return an answer; None with a finding where it fails, silent where it is unsupported.

        What fails in a judge that is not ours is no finding.
        """
        self.tell(judge)
        start = perf_counter()
        try:
            return question()
        except UnsupportedOpError as error:
            self.silent.append((judge, first_line(error)))
        except (Exception, SystemExit) as error:
            is_error = is_ours or isinstance(error, LowtideError)
            if is_error:
                self.found(judge, type(error).__name__, first_line(error))
            else:
                self.silent.append((judge, first_line(error)))
        finally:
            self.seconds.append((judge, perf_counter() - start))
        return None


def first_line(error: BaseException) -> str:
    """Return the first line of an error's words that says anything."""
    lines = [x for x in str(error).splitlines() if x.strip()]
    return lines[0][:300] if lines else type(error).__name__
