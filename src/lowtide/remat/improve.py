"""Better sequences from a sequence: runs move to where they hold less, needless ones go."""

from __future__ import annotations

from typing import Final

import numpy as np

from lowtide.remat.expand import ExpandedRows, expanded
from lowtide.remat.measure import step_bytes
from lowtide.remat.mending import mending
from lowtide.remat.slide import settled
from lowtide.remat.tables import Int64Array, RematTables, tables_of
from lowtide.remat.thinning import thin

_ROUNDS: Final = 4
_PASSES: Final = 4
_NEAR: Final = 0.9
"""A step of this share of the cap or more weighs `_HEAVY` times as much as another one."""
_HEAVY: Final = 20


class Improver:
    """Improves sequences of one graph within a cap of bytes."""

    def __init__(self, tables: RematTables) -> None:
        self._tables = tables
        self._room = mending(tables.problem.graph)
        self._rows = ExpandedRows(tables.graph)

    def improved(self, sequence: Int64Array, cap: int) -> Int64Array:
        """Return a sequence within `cap` bytes that takes no longer; the given one is within it."""
        for _ in range(_ROUNDS):
            moved = self._moved(sequence, cap)
            shorter = self._shorter(moved, cap)
            if len(shorter) == len(sequence):
                return sequence
            sequence = shorter
        return sequence

    def _moved(self, sequence: Int64Array, cap: int) -> Int64Array:
        """The runs in an order that holds fewer bytes in high steps, if that fits too."""
        tables = tables_of(expanded(self._tables.graph, self._rows, sequence))
        steps = step_bytes(self._tables, sequence)
        weight = np.where(steps > _NEAR * cap, _HEAVY, 1)
        moved = sequence[settled(tables, np.arange(len(sequence)), weight, _PASSES)]
        fits = step_bytes(self._tables, moved).max(initial=0) <= cap
        return np.ascontiguousarray(moved) if fits else sequence

    def _shorter(self, sequence: Int64Array, cap: int) -> Int64Array:
        result = sequence.copy()
        length = thin(self._tables.problem, result, len(result), cap, 0, self._room)
        return result[:length].copy()
