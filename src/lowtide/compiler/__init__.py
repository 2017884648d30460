"""The compiler: from a module to where each of its values lies, and the report on that.

`pipeline.py` runs the stages one by one; `stages.py` says which passes each has.
"""

from lowtide.compiler.pipeline import (
    DEFAULT_PACKING,
    Plan,
    explain,
    optimize,
    plan,
    schedule,
    scheduled,
)

__all__ = [
    "DEFAULT_PACKING",
    "Plan",
    "explain",
    "optimize",
    "plan",
    "schedule",
    "scheduled",
]
