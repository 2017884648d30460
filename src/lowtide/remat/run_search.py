"""Large neighbourhood search among sequences: take runs out, put others in, keep what is better.

Unlike plans of gaps (`neighbourhood.py`), which hold what was computed again for so many steps or
not, this reaches each sequence of the same first runs.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

import numpy as np

from lowtide.remat.mending import longest_room, mend, mending
from lowtide.remat.tables import Int64Array, RematTables
from lowtide.remat.thinning import thin

_TOLERANCE: Final = 0.1
"""A sequence whose extra time is longer by up to this share may still be gone on with."""
_PATIENCE: Final = 40
"""Trials in vain after which a search ends: so many, and as many as there are runs to take out."""
_ROUNDS: Final = 400
"""How often runs are put in at most."""
_NEAR: Final = (20, 60, 200)
"""How many steps away runs may be that are taken out together."""
_SHARES: Final = (0.2, 0.5, 1.0)
"""Which share of them goes."""
_FEW: Final = (1, 2, 4, 8, 16)
"""How many runs go that are anywhere."""
_LESS: Final = (0.005, 0.01, 0.02, 0.05)
"""By which shares of the cap less is asked for."""


class RunSearch:
    """Searches sequences of one graph."""

    def __init__(self, tables: RematTables) -> None:
        self._tables = tables
        self._room = mending(tables.problem.graph)
        self._sequence = np.zeros(longest_room(tables.problem.graph), np.int64)
        self._once = int(tables.cost.sum())

    def fitted(self, sequence: Int64Array, cap: int) -> Int64Array | None:
        """Return a sequence of at most `cap` bytes with more runs, None where none is found."""
        return self._mended(sequence, cap, cap, (0, 0))

    def searched(
        self, start: Int64Array, cap: int, trials: int, stop: Callable[[], bool], seed: int
    ) -> Int64Array:
        """Return the quickest sequence within `cap` bytes met near `start`, which is within it.

        The search ends after so many trials, after as many in vain as leave little to expect, or
        when `stop` says so. It is the same each time for a `seed`.
        """
        random = Random(seed)
        current = best = start
        current_ticks = least = self._extra_ticks(start)
        improved, patience = 0, _PATIENCE + len(start) - self._tables.node_count
        for trial in range(trials):
            if trial - improved > patience or stop():
                break
            found = self._neighbour(current, cap, random)
            if found is None:
                continue
            ticks = self._extra_ticks(found)
            if ticks <= current_ticks * (1 + _TOLERANCE * random.random()):
                current, current_ticks = found, ticks
            if ticks < least:
                best, least, improved = found, ticks, trial
        return best

    def _neighbour(self, sequence: Int64Array, cap: int, random: Random) -> Int64Array | None:
        again = self._runs_again(sequence)
        kind, target = random.choice(_KINDS), cap
        if kind == _LESS_ROOM or not len(again):
            target = int(cap * (1 - random.choice(_LESS)))
        else:
            gone = _near(again, random) if kind == _TOGETHER else _few(again, random)
            sequence = np.delete(sequence, gone)
        seeds = [random.choice((0, random.randrange(1, 1 << 30))) for _ in range(2)]
        return self._mended(sequence, target, cap, (seeds[0], seeds[1]))

    def _mended(
        self, sequence: Int64Array, target: int, cap: int, seeds: tuple[int, int]
    ) -> Int64Array | None:
        """A sequence with runs put in until it holds `target` bytes, and thinned to `cap` bytes."""
        problem, length = self._tables.problem, len(sequence)
        if length > len(self._sequence):
            return None
        made = self._sequence
        made[:length] = sequence
        length = mend(problem, made, length, target, _ROUNDS, seeds[0], self._room)
        if length < 0:
            return None
        length = thin(problem, made, length, cap, seeds[1], self._room)
        return made[:length].copy()

    def _runs_again(self, sequence: Int64Array) -> Int64Array:
        """The steps of runs that are not the first one of their node."""
        is_again = np.ones(len(sequence), np.bool_)
        is_again[np.unique(sequence, return_index=True)[1]] = False
        return np.flatnonzero(is_again)

    def _extra_ticks(self, sequence: Int64Array) -> int:
        return int(self._tables.cost[sequence].sum()) - self._once


_TOGETHER, _ANYWHERE, _LESS_ROOM = range(3)
_KINDS: Final = (_TOGETHER, _TOGETHER, _ANYWHERE, _LESS_ROOM)


def _near(again: Int64Array, random: Random) -> list[int]:
    """Some of the runs that are near one of them."""
    place = random.choice(again.tolist())
    near = again[np.abs(again - place) < random.choice(_NEAR)]
    share = random.choice(_SHARES)
    return [step for step in near.tolist() if random.random() < share]


def _few(again: Int64Array, random: Random) -> list[int]:
    """A few runs anywhere."""
    return random.sample(again.tolist(), min(len(again), random.choice(_FEW)))
