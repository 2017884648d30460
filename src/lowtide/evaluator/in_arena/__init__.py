"""Running a program inside its plan: every value in its slice, every wrong byte seen."""

from lowtide.evaluator.in_arena.errors import ArenaError, ValueReport
from lowtide.evaluator.in_arena.run import differing_leaves, run_in_arena

__all__ = ["ArenaError", "ValueReport", "differing_leaves", "run_in_arena"]
