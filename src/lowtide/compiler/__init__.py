"""The compiler: from a module to where each of its values lies, and the report on that.

`pipeline.py` runs the stages one by one; `stages.py` says which passes each has.
"""

from lowtide.compiler.options import DEFAULT_PACKING, DEFAULT_PLAN, PlanOptions
from lowtide.compiler.pipeline import ModulePlan, explain, optimize, plan, scheduled

__all__ = [
    "DEFAULT_PACKING",
    "DEFAULT_PLAN",
    "ModulePlan",
    "PlanOptions",
    "explain",
    "optimize",
    "plan",
    "scheduled",
]
