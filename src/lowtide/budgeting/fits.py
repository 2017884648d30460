"""The outcome of a budget: a plan, its extra time, and the bound that is proved for both."""

from __future__ import annotations

from typing import Any, Final

from lowtide.budgeting.bounds import ModuleBound
from lowtide.compiler import ModulePlan
from lowtide.records import dataclass
from lowtide.remat.bound import is_above, without_rounding

NEXT_ROOMS: Final = 0.8, 0.998
"""The least and the most of what was tried for of which the next try is for a part."""


_SPARED: Final = 0.004
"""Gaps in an arena are a part of it that differs by about so much from one sequence to another."""


def less_room(
    room: float, nbytes: int, arena_bytes: int, budget: int, failed: int | None = None
) -> float:
    """Return what to ask for where a plan of `nbytes` by its graphs has an arena above a budget.

    It is somewhat less than what would fit with as large a part of gaps: where gaps are small they
    differ by little, so half of them is enough for the first of the plans that `failed`, all of
    them for the second. Little less room may keep a buffer that takes long to make again.
    """
    least, most = NEXT_ROOMS
    spared, gaps = _SPARED, max(0, arena_bytes - nbytes) / max(1, arena_bytes)
    if failed in (1, 2):
        spared, most = min(_SPARED, failed * gaps / 2), 1 - 1e-6
    part = budget / max(1, arena_bytes) - spared
    return min(room, float(nbytes)) * max(least, min(most, part))


@dataclass(frozen=True, eq=False, slots=True)
class PlannedPoint:
    """A plan, its seconds beyond those of the plain one, and of which variant it is, if any.

    With `has_transfers`, values of it are stored in the host's memory.
    """

    plan: ModulePlan
    extra_seconds: float
    variant: str = ""
    has_transfers: bool = False

    @property
    def only_runs_again(self) -> bool:
        """Whether it is the module's own, and differs from its plain plan by recomputation only."""
        return not self.variant and not self.has_transfers

    @property
    def arena_bytes(self) -> int:
        """What the plan takes beyond arguments."""
        return self.plan.report.ladder.arena_bytes


@dataclass(frozen=True, eq=False, slots=True)
class Fit:
    """The time that a module needs within a budget of bytes.

    `point` is the cheapest plan that fits, None where none that is known does, `was_late` says that
    the deadline ended the search for it. `least` is the plan
    of the smallest arena known, None where that was not asked. `bound` is proved for the module as
    it is, any order and any recomputation; None where the plain plan fits.
    """

    budget_bytes: int
    point: PlannedPoint | None
    least: PlannedPoint | None
    bound: ModuleBound | None
    was_late: bool = False

    @property
    def is_feasible(self) -> bool:
        """Whether a plan within the budget is known."""
        return self.point is not None

    def check(self) -> None:
        """Raise AssertionError where the plan takes less time than is said to be proved."""
        point, bound = self.point, self.bound
        if point is None or bound is None or point.variant:
            return
        if is_above(bound.extra_seconds, point.extra_seconds):
            raise AssertionError(
                f"the plan takes {point.extra_seconds:.3g} s more, and the bound on every one is "
                f"{bound.extra_seconds:.3g} s: the plan stands, the bound is wrong"
            )

    def document(self) -> dict[str, Any]:
        """Return the report's `budget`.

        `extra_seconds_bound` is null where no recomputation fits, and for a variant, of which
        nothing is proved. `infeasible_proved`: no recomputation fits, and no variant was found
        to, with none left untried at the deadline.
        """
        point, bound, least = self.point, self.bound, self.least
        no_plan = point is None and bound is not None and bound.is_infeasible
        proved = None if bound is None or bound.is_infeasible else bound.extra_seconds
        if point is not None:
            proved = without_rounding(proved or 0.0, point.extra_seconds)
        if point is not None and point.variant:
            proved = None
        return {
            "bytes": self.budget_bytes,
            "feasible": point is not None,
            "infeasible_proved": no_plan and not self.was_late,
            "extra_seconds": None if point is None else point.extra_seconds,
            "extra_seconds_bound": proved,
            "smallest_feasible_bytes": None if least is None else least.arena_bytes,
            "variant": (point.variant or None) if point is not None else None,
            **_host_field(point),
        }


def _host_field(point: PlannedPoint | None) -> dict[str, Any]:
    """What a plan takes of the host's memory, where it stores values there by itself."""
    if point is None or not point.has_transfers:
        return {}
    return {"host_bytes": point.plan.assignment.host_arena_bytes}
