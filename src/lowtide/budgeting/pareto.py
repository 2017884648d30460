"""All plans of a module that nothing beats: memory against time, and the proven lower curve."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from lowtide.budgeting.families import Family
from lowtide.budgeting.planner import BudgetPlanner
from lowtide.records import dataclass
from lowtide.search.deadline import Deadline

_PLANS_TIME: Final = 0.75
"""The part of the time left in which plans are made: bounds and variants have the rest."""
_SEARCH_TIME: Final = 0.5
"""The part of that in which sequences are searched, ahead of their plans."""


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """Bytes beyond the arguments, and extra seconds; None where none are enough."""

    nbytes: int
    extra_seconds: float | None

    def to_json(self) -> dict[str, Any]:
        """Return the point as JSON has it."""
        return {"bytes": self.nbytes, "extra_seconds": self.extra_seconds}


@dataclass(frozen=True, slots=True)
class Pareto:
    """Plans of a module by recomputation, ever less memory for ever more time, and what is proved.

    `bound` has the least extra seconds of any recomputation at the bytes of each point; below
    `infeasible_below_bytes` there is none. `variants` are plans of other programs, by name, of
    which nothing is proved. `base_seconds` are those of the plain plan.
    """

    base_seconds: float
    points: tuple[CurvePoint, ...]
    bound: tuple[CurvePoint, ...]
    infeasible_below_bytes: int
    variants: tuple[tuple[str, tuple[CurvePoint, ...]], ...]

    def to_json(self) -> dict[str, Any]:
        """Return the frontier as JSON has it."""
        return {
            "base_seconds": self.base_seconds,
            "points": [x.to_json() for x in self.points],
            "bound": [x.to_json() for x in self.bound],
            "infeasible_below_bytes": self.infeasible_below_bytes,
            "variants": [
                {"name": name, "points": [x.to_json() for x in points]}
                for name, points in self.variants
            ],
        }


def pareto(planner: BudgetPlanner) -> Pareto:
    """Return the frontier of a module: each plan is worked out."""
    with planner.deadline.turn(_PLANS_TIME):
        points = _curve(_points(planner.own, planner.deadline))
    bound = [_proved(planner, point.nbytes) for point in points]
    variants = [(x.plain.variant, _curve(_points(x, planner.deadline))) for x in planner.variants]
    return Pareto(
        planner.base_seconds, points, tuple(bound), planner.bounds.least_bytes, tuple(variants)
    )


def _proved(planner: BudgetPlanner, nbytes: int) -> CurvePoint:
    """The extra seconds of the bound, None where nothing fits."""
    bound = planner.bound(nbytes)
    return CurvePoint(nbytes, None if bound.is_infeasible else bound.extra_seconds)


def _points(family: Family, deadline: Deadline) -> list[tuple[int, float]]:
    """Bytes and extra seconds of the plans; a deadline leaves out those that would come later."""
    found = [(family.plain.arena_bytes, family.plain.extra_seconds)]
    with deadline.until_interrupted():
        with deadline.turn(_SEARCH_TIME):
            count = len(family.choices)
        for number in range(count):
            if family.is_left_out(number):
                break
            found.append((family.arena_bytes(number), family.extra_seconds(number)))
    return found + [(x.arena_bytes, x.extra_seconds) for x in family.link_curve()]


def _curve(points: Iterable[tuple[int, float]]) -> tuple[CurvePoint, ...]:
    """The points that no other one beats, those of least time first."""
    kept: list[CurvePoint] = []
    for nbytes, extra in sorted(points, key=lambda x: (x[1], x[0])):
        if not kept or nbytes < kept[-1].nbytes:
            kept.append(CurvePoint(nbytes, extra))
    return tuple(kept)
