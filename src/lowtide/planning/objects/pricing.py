"""The search for prices that prove as much as prices can.

The linear program starts with few choices of size for each tensor, and its prices are valid for
those only. Choices for which they are not valid are added, and so on. Programs like this one have
many best prices, and those at corners are far from valid elsewhere. So a mean of prices is tried
before the latest ones (Wentges, "Weighted Dantzig-Wolfe Decomposition for Linear Mixed-Integer
Programming", 1997).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from lowtide.planning.objects.prices import Prices, exact_prices, slack
from lowtide.planning.objects.size_class_program import Choices, SizeClassProgram
from lowtide.planning.objects.size_classes import SizeClasses
from lowtide.records import dataclass

KEPT: Final = 0.7
"""The weight of the mean so far when new prices are added to it."""

GRAIN: Final = 1024
"""Prices are rounded to one over this to see which choices are missing."""

TOLERANCE: Final = 1e-7
"""Choices by which prices are invalid by less than this part of a size do not count."""

MOST_CHOICES: Final = 400_000
"""A program with more is not built: it would take minutes and gigabytes."""

FloatVector = npt.NDArray[np.float64]
Solve = Callable[[SizeClassProgram], FloatVector | None]


@dataclass(frozen=True, slots=True)
class PricingLimits:
    """The work that a program may take, and the number of programs."""

    work: float
    rounds: int


def best_prices(
    problem: SizeClasses, start: Sequence[int], solve: Solve, limits: PricingLimits
) -> Iterator[Prices]:
    """Yield valid prices, each with a higher bound than those before.

    `start` are the sizes to begin with, the largest of all among them. The last prices are the best
    there are, as far as floating point can tell, if no limit was reached.
    """
    choices = {size: problem.size <= size for size in sorted(set(start))}
    best = 0
    mean: FloatVector | None = None
    for _ in range(limits.rounds):
        if sum([int(may.sum()) for may in choices.values()]) > MOST_CHOICES:
            return
        latest = solve(SizeClassProgram(problem, choices, limits.work))
        if latest is None:
            return
        mean = latest if mean is None else KEPT * mean + (1 - KEPT) * latest
        for about in (mean, latest):
            found = exact_prices(problem, about)
            if found.bound > best:
                best = found.bound
                yield found
        if best >= latest.sum() - TOLERANCE:
            return
        missing = _missing(problem, mean, choices)
        if not missing:
            mean = latest
            missing = _missing(problem, latest, choices)
        if not missing:
            return
        for size, may in missing.items():
            choices[size] = choices[size] | may if size in choices else may


def _missing(problem: SizeClasses, about: FloatVector, choices: Choices) -> Choices:
    """The choices not yet there by which tensors of an object would cost more than the object."""
    rounded = np.floor(np.maximum(about, 0) * GRAIN).astype(np.int64)
    prices = Prices(rounded, GRAIN)
    found: dict[int, npt.NDArray[np.bool_]] = {}
    for size in problem.sizes.tolist():
        least = -(1 + size * GRAIN * TOLERANCE)
        may = (slack(problem, prices, size) < least) & (problem.size <= size)
        if size in choices:
            may &= ~choices[size]
        if may.any():
            found[size] = may
    return found
