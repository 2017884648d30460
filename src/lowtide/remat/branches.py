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

_SPLITS: Final = 4
"""So many cases of a network are divided."""


def ticks_by_cases(
    networks: Networks, lines: CutLines, budget: int, late: Callable[[], bool]
) -> int:
    """Return the ticks that each sequence within a budget costs, by what is held.

    The best price of `lines` for the budget is known. They are those of its cut where the cases say
    nothing more.
    """
    alone = max(0, lines.ticks(lines.best(budget), budget))
    cases = [(alone, 0, lines)]
    for split in range(_SPLITS):
        ticks, _, weakest = cases[0]
        buffer = None if ticks == UNBOUNDED or late() else _dividing(weakest, budget)
        if buffer is None:
            break
        heapq.heappop(cases)
        for is_held in (False, True):
            network = weakest.network.decided(buffer, is_held=is_held)
            case, proved = CutLines(network), UNBOUNDED
            if network.fixed_bytes <= budget:
                case.refine(networks, budget, late, weakest.best(budget))
                proved = max(ticks, case.ticks(case.best(budget), budget))
            heapq.heappush(cases, (proved, 1 + 2 * split + is_held, case))
    return alone if cases[0][0] == UNBOUNDED else cases[0][0]


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
