"""The independent checkers: they share no code with what makes plans."""

from lowtide.checking.packing import PackingRow, check_packing
from lowtide.checking.plan import PlanCheck, check_plan, inspect_plan
from lowtide.checking.violation import PlanMismatchError, Violation, ViolationKind

__all__ = [
    "PackingRow",
    "PlanCheck",
    "PlanMismatchError",
    "Violation",
    "ViolationKind",
    "check_packing",
    "check_plan",
    "inspect_plan",
]
