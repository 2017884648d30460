"""The peak as a function of a size: polynomials of steps, and the largest of them at each size."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from math import isqrt

import numpy as np
import numpy.typing as npt

from lowtide import compiler
from lowtide.compiler import PlanOptions
from lowtide.fitting.dimensions import SpecializedError
from lowtide.fitting.resizing import ResizableModule
from lowtide.ir import Module
from lowtide.records import dataclass
from lowtide.report.fit import PeakPiece

Int64Array = npt.NDArray[np.int64]
_Row = tuple[int, int, int]
"""The coefficients of a polynomial in a size, from the constant one up, times a denominator."""


@dataclass(frozen=True, eq=False)
class SizedPeaks:
    """The bytes that a call needs in each step of an order, at three sizes of equal distance."""

    sizes: tuple[int, int, int]
    rows: tuple[Int64Array, Int64Array, Int64Array]

    def at(self, size: int) -> int:
        """Return the peak at a size, in bytes."""
        k = Fraction(size - self.sizes[0], self.sizes[1] - self.sizes[0])
        return max([int(_newton(row, k)) for row in self._highest], default=0)

    def pieces(self, least: int) -> tuple[PeakPiece, ...]:
        """Return the polynomial that is the peak, by size from `least` on."""
        distance = self.sizes[1] - self.sizes[0]
        scale = 2 * distance * distance
        kept = [_monomials(row, self.sizes[0], distance) for row in self._highest]
        pieces: list[PeakPiece] = []
        at: int | None = least
        while at is not None and kept:
            here = at
            best = max(kept, key=lambda row: (_value(row, here), row[::-1]))
            following = [_crossing(best, row, here) for row in kept if row != best]
            at = min([x for x in following if x is not None], default=None)
            last = None if at is None else at - 1
            coefficients = tuple([Fraction(x, scale) for x in best])
            pieces.append(PeakPiece(here, last, coefficients))
        return tuple(pieces)

    @cached_property
    def _highest(self) -> list[_Row]:
        """The rows, as in `_differences`, that can be the peak at some size of 1 or more."""
        distance = self.sizes[1] - self.sizes[0]
        rows = {_monomials(row, self.sizes[0], distance): row for row in self._differences()}
        return [rows[x] for x in _undominated(sorted(rows, reverse=True))]

    def _differences(self) -> list[_Row]:
        """Each distinct row of values, as its first value and its differences."""
        first, second, third = self.rows
        table = np.stack([first, second - first, third - 2 * second + first], axis=1)
        return [(int(a), int(b), int(c)) for a, b, c in np.unique(table, axis=0)]


def _newton(row: _Row, k: Fraction) -> Fraction:
    return row[0] + row[1] * k + row[2] * k * (k - 1) / 2


def _monomials(row: _Row, first: int, distance: int) -> _Row:
    """The coefficients times twice the square of the distance."""
    value, rise, bend = row
    square = 2 * distance * distance
    linear = 2 * distance * rise - bend * (2 * first + distance)
    constant = square * value - 2 * distance * rise * first + bend * first * (first + distance)
    return constant, linear, bend


def _undominated(rows: Sequence[_Row]) -> list[_Row]:
    """The rows that no other one is known to be at least equal to at every size."""
    kept: list[_Row] = []
    for row in rows:
        if not any(_is_under(row, x) for x in kept):
            kept = [x for x in kept if not _is_under(x, row)]
            kept.append(row)
    return kept


def _is_under(row: _Row, other: _Row) -> bool:
    """Whether one is at most the other at each size from 1 on."""
    partial = accumulate([b - a for a, b in zip(row, other, strict=True)][::-1])
    return all(x >= 0 for x in partial)


def _value(row: _Row, size: int) -> int:
    return row[0] + row[1] * size + row[2] * size * size


def _crossing(best: _Row, row: _Row, size: int) -> int | None:
    """The first size behind `size` at which a row is above the best one there, None for none."""
    c, b, a = [x - y for x, y in zip(row, best, strict=True)]
    if a == 0:
        guess = -c // b if b > 0 else None
    else:
        under = b * b - 4 * a * c
        guess = None if under < 0 else (-b + isqrt(under)) // (2 * a)
    if guess is None:
        return None
    for at in range(max(size + 1, guess - 2), max(size + 1, guess) + 4):
        if c + b * at + a * at * at > 0:
            return at
    return None


def sized_peaks(program: ResizableModule, options: PlanOptions) -> SizedPeaks | None:
    """Return the peaks of a scheduled module at its size, and at two and three times of it.

    The module keeps its instructions and their order. None where that cannot be.
    """
    sizes = (program.size, 2 * program.size, 3 * program.size)
    try:
        first, second, third = [bytes_by_step(program.at(size), options) for size in sizes]
    except SpecializedError:
        return None
    if not len(first) == len(second) == len(third):
        return None
    return SizedPeaks(sizes, (first, second, third))


def bytes_by_step(module: Module, options: PlanOptions) -> Int64Array:
    """Return all bytes that a call of a scheduled module takes in each step."""
    plan = compiler.plan(module, options.at_stage("input"))
    report, profile = plan.report, plan.ranges.profile
    fixed = report.total_bytes - report.ladder.arena_bytes + report.ladder.live_bytes
    return np.asarray(profile, np.int64) - int(profile.max(initial=0)) + fixed
