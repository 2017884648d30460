"""The error for a budget that no known plan fits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lowtide.ir.errors import LowtideError

if TYPE_CHECKING:
    from lowtide.budgeting.fits import Fit
    from lowtide.report.memory import MemoryReport


class OverMemoryError(LowtideError):
    """A program needs more memory than it may; nothing was run."""


def refusal(report: MemoryReport, fit: Fit) -> str:
    """Return why a module cannot be brought within a budget, and what would do; one sentence.

    `report` is that of the plan without a budget.
    """
    parts = [
        f"{report.module} needs {report.ladder.arena_bytes:,} bytes beyond its arguments, more "
        f"than the {fit.budget_bytes:,} that it may use"
    ]
    bound, least = fit.bound, fit.least
    returned = report.output_bytes - report.alias_bytes
    if returned > fit.budget_bytes:
        parts.append(f"what it returns takes {returned:,} bytes{_donations(report)}")
    elif bound is not None and bound.is_infeasible:
        binding = bound.binding
        taker = "what lives at once" if binding is None else f"the step of {binding.name}"
        parts.append(
            f"no recomputation fits, which is proved: {taker} takes {bound.binding_bytes:,} bytes"
        )
        if fit.was_late:
            parts.append(
                "programs with large steps in parts were not all tried by the deadline (a later "
                "one is given as deadline=SECONDS)"
            )
    else:
        late = " by the deadline (a later one is given as deadline=SECONDS)" if fit.was_late else ""
        parts.append(f"no plan that was found{late} fits, which does not prove that there is none")
    if least is not None:
        step = least.plan.report.peak.instruction
        parts.append(
            f"the smallest budget known to do is {least.arena_bytes:,} bytes, taken in the step of "
            f"{step}"
        )
    return "; ".join(parts)


_SHOWN_DONATIONS = 3


def _donations(report: MemoryReport) -> str:
    """Which arguments the caller could give up for results to lie there, and what that saves."""
    found = report.donations
    if not found:
        return ", and no argument could be donated for it"
    shown = [f"{x.parameter} ({x.name})" for x in found[:_SHOWN_DONATIONS]]
    more = f" and {len(found) - len(shown):,} more" if len(found) > len(shown) else ""
    saved = sum([x.nbytes for x in found])
    plural = "s" if len(found) > 1 else ""
    return f": donating argument{plural} {', '.join(shown)}{more} would save {saved:,}"
