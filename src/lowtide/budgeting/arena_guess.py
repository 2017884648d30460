"""The arenas that sequences may have, guessed from those of others: which one to plan next.

An arena is larger than what its graphs say, by gaps that differ from one sequence to the next:
equally quick ones of equal bytes may lie on both sides of a budget. So several are planned, those
first that save most time by the chance with which they fit.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import erf, exp, log, sqrt
from typing import Final

from lowtide.budgeting.points import SequenceChoice

_LEAST_SPREAD: Final = 0.004
"""Gaps differ by about such a part of an arena even where those seen are alike."""

_FEW: Final = 3
_SPREAD_OF_FEW: Final = 0.01
"""Fewer arenas say less of how much they differ: it is taken to be such a part then."""

_LEAST_CHANCE: Final = 0.02
"""What fits with less than this chance is not planned."""

Key = tuple[int, float]
"""The bytes and the extra seconds of a choice: those of equal ones are one."""


class ArenaGuess:
    """What is known of the arenas of choices of one module, beside the bytes that graphs say."""

    def __init__(self) -> None:
        self._logs: list[float] = []
        self._planned: set[Key] = set()

    def saw(self, choice: SequenceChoice, arena_bytes: int) -> None:
        """Take note of the arena that a choice has."""
        self._planned.add((choice.nbytes, choice.extra_seconds))
        self._logs.append(log(max(1, arena_bytes) / max(1, choice.nbytes)))

    def chance(self, nbytes: int, budget: int) -> float:
        """Return how likely the arena of a choice of some bytes is within a budget, from 0 to 1.

        Arenas over bytes are taken to be spread as the logarithms of those seen.
        """
        mean, spread = self._spread()
        margin = log(max(1, budget) / max(1, nbytes)) - mean
        return 0.5 * (1 + erf(margin / spread / sqrt(2)))

    def room(self, budget: int, spreads: float) -> int:
        """Return the bytes of a choice whose gaps are so many spreads below the mean, to fit.

        They are at most the budget.
        """
        mean, spread = self._spread()
        return int(budget * exp(min(0.0, spreads * spread - mean)))

    def most_promising(
        self, choices: Iterable[SequenceChoice], budget: int, seconds: float
    ) -> SequenceChoice | None:
        """Return the choice not planned yet that is expected to save most of some extra seconds.

        Of endless seconds, those of the dearest choice twice count. None where none of them saves
        time and may fit.
        """
        best, most = None, 0.0
        new = [x for x in choices if (x.nbytes, x.extra_seconds) not in self._planned]
        seconds = min(seconds, 2 * max([x.extra_seconds for x in new], default=0.0))
        for choice in new:
            chance = self.chance(choice.nbytes, budget)
            saved = chance * (seconds - choice.extra_seconds)
            if chance >= _LEAST_CHANCE and saved > most:
                best, most = choice, saved
        return best

    def _spread(self) -> tuple[float, float]:
        count = len(self._logs)
        mean = sum(self._logs) / max(1, count)
        square = sum([(x - mean) ** 2 for x in self._logs])
        least = _LEAST_SPREAD if count >= _FEW else _SPREAD_OF_FEW
        return mean, max(least, sqrt(square / max(1, count - 1)))
