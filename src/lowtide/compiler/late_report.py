"""Memory reports that are made when they are first read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Final, final

from lowtide.compiler.state import PlacedModule

if TYPE_CHECKING:
    from lowtide.least_memory import LeastMemory
    from lowtide.report.memory import MemoryReport


@final
class LateReport:
    """The report that `make` returns, made once; `seconds` of its stages are known before."""

    def __init__(
        self,
        make: Callable[[], MemoryReport],
        seconds: Mapping[str, float],
        *,
        is_made: bool = False,
    ) -> None:
        self._make: Callable[[], MemoryReport] | None = make
        self.seconds = seconds
        self.is_made = is_made
        """Whether it was made with the plan, of which nothing is to be kept for it."""

    @cached_property
    def made(self) -> MemoryReport:
        """The report; what it was made of is given up."""
        assert self._make is not None
        made, self._make = self._make(), None
        return made


def report_of(
    placed: PlacedModule, least: LeastMemory | None = None, *, late: bool = False
) -> LateReport:
    """Return the report of a placed module, which is made at once unless it may be `late`.

    Where it is late, nobody changes the module. A plan that a deadline ends is reported on within
    that deadline, and a large module at once: what its report is made of takes more than the plan.
    """
    ordered = placed.ordered
    deadline = ordered.options.deadline
    is_large = ordered.module.instruction_count > _MOST_KEPT
    if late and not (is_large or deadline.is_timed or deadline.passed):
        return LateReport(lambda: _made(_without_deadline(placed), least), ordered.clock.seconds)
    found = _made(placed, least)
    return LateReport(lambda: found, ordered.clock.seconds, is_made=True)


def _made(placed: PlacedModule, least: LeastMemory | None) -> MemoryReport:
    from lowtide.compiler.reporting import report  # Programs whose report nobody reads do without.

    return report(placed, least)


_MOST_KEPT: Final = 1_000
"""So many instructions are little to keep until somebody asks for the report."""


def _without_deadline(placed: PlacedModule) -> PlacedModule:
    """The same with options whose deadline, which had not passed, does not pass later either."""
    ordered = placed.ordered
    options = ordered.options
    options = replace(options, search=replace(options.search, deadline=None))
    optimized = replace(ordered.optimized, options=options)
    return replace(placed, ordered=replace(ordered, optimized=optimized))
