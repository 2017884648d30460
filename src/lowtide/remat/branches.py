"""Proofs by cuts where buffers are large: each one is in memory, or is made again.

At a price per byte, part of a buffer may be held for part of its price. A sequence holds all of it
or nothing: in the step in which the node of a network first runs it is in memory, and takes its
bytes of the budget, or it is not, and whoever reads it later has it made again. No sequence takes
less than the lesser of what the two cases prove, each by a network in which that is decided. The
case that proves least is divided again.

A. Land and A. Doig, "An Automatic Method of Solving Discrete Programming Problems", 1960.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Final

import numpy as np

from lowtide.remat.network import UNBOUNDED, Networks
from lowtide.remat.prices import CutLines

SPLITS: Final = 4
"""So many cases of a network are divided where many networks are looked at,"""
DEEP_SPLITS: Final = 64
"""and so many of one that proves most."""


class Cases:
    """The cases of one network for a budget, of which the weakest can be divided again.

    The best price of `lines` for the budget is known. What they prove is that of its cut where the
    cases say nothing more.
    """

    def __init__(self, networks: Networks, lines: CutLines, budget: int) -> None:
        self._networks = networks
        self._budget = budget
        self._alone = max(0, lines.ticks(lines.best(budget), budget))
        self._made = 0
        self._cases = [(self._alone, self._made, lines)]

    @property
    def ticks(self) -> int:
        """What each sequence within the budget costs at least."""
        least = self._cases[0][0]
        return self._alone if least == UNBOUNDED else least

    def divide(self, splits: int, late: Callable[[], bool]) -> int:
        """Divide the weakest case so many times, as far as there is time; return the ticks."""
        for _ in range(splits):
            ticks, _, weakest = self._cases[0]
            is_open = ticks < UNBOUNDED and not late()
            buffer = _dividing(weakest, self._budget) if is_open else None
            if buffer is None:
                break
            heapq.heappop(self._cases)
            for is_held in (False, True):
                self._decide(weakest, buffer, ticks, late, is_held=is_held)
        return self.ticks

    def _decide(
        self, weakest: CutLines, buffer: int, ticks: int, late: Callable[[], bool], *, is_held: bool
    ) -> None:
        """Add a case in which a buffer is held, or is not; it proves the `ticks` of all of them."""
        budget = self._budget
        network = weakest.network.decided(buffer, is_held=is_held)
        case, proved = CutLines(network), UNBOUNDED
        if network.fixed_bytes <= budget:
            case.refine(self._networks, budget, late, weakest.best(budget))
            proved = max(ticks, case.ticks(case.best(budget), budget))
        self._made += 1
        heapq.heappush(self._cases, (proved, self._made, case))


def ticks_by_cases(
    networks: Networks, lines: CutLines, budget: int, late: Callable[[], bool]
) -> int:
    """Return the ticks that each sequence within a budget costs, by what is held."""
    return Cases(networks, lines, budget).divide(SPLITS, late)


def _dividing(lines: CutLines, budget: int) -> int | None:
    """The largest buffer that the next cut above a budget holds and the next within does not."""
    room = budget - lines.network.fixed_bytes
    by_bytes = sorted(lines.cuts.items(), key=lambda x: (x[1].held_bytes, x[0].value))
    within = [price for price, cut in by_bytes if cut.held_bytes <= room][-1:]
    beyond = [price for price, cut in by_bytes if cut.held_bytes > room][:1]
    if not within or not beyond:
        return None
    more = np.setdiff1d(lines.network.held(beyond[0]), lines.network.held(within[0]))
    return lines.network.largest_open(more)
