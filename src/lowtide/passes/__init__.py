"""The machinery of passes: what one is, pipelines, observers, rewriting by rules, edits."""

from lowtide.passes.interface import Pass, PassError, example
from lowtide.passes.pipeline import Fixpoint, Observer, Step, run_pipeline

__all__ = ["Fixpoint", "Observer", "Pass", "PassError", "Step", "example", "run_pipeline"]
