"""The exact solver as a strategy."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from lowtide.planning.exact.pack import exact
from lowtide.planning.offsets.portfolio import portfolio
from lowtide.planning.plans import Packing
from lowtide.planning.problem import PackingProblem
from lowtide.planning.registry import OffsetStrategy
from lowtide.search.effort import Effort, SearchOptions, StopReason

_FEW: Final = 1_500
"""With fewer buffers the search is worth more than many tries to improve a packing."""


def place_exactly(problem: PackingProblem, options: SearchOptions) -> Packing:
    """Return the smallest packing that the effort finds, and a proven bound.

    It is the smallest there is where the bound equals its size.
    """
    options = replace(options, deadline=options.begun())
    effort = Effort.FAST if len(problem) < _FEW else options.effort
    start = portfolio(problem, replace(options, effort=effort))
    if start.stopped in (StopReason.DEADLINE, StopReason.INTERRUPT):
        return start
    return exact(problem, start, options)


STRATEGIES: Final = (
    OffsetStrategy(
        "exact",
        place_exactly,
        "The smallest arena there is, or as small as the effort finds, with a proven bound.",
        "Moffitt 2023 (search by address); branching on valleys of the skyline is lowtide's own",
        frozenset({"alignment", "fixed", "gaps", "regions"}),
    ),
)
