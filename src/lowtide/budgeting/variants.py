"""Other programs of the same results: what passes make of a module before it is optimized.

Where no recomputation brings a module within a budget, or another program does so in less time, a
variant is planned like any other module.
"""

from __future__ import annotations

from typing import Final

from lowtide import compiler
from lowtide.compiler.planned_passes import with_planner
from lowtide.compiler.stages import STAGES
from lowtide.ir import Module
from lowtide.ir.clone import clone_module
from lowtide.passes import run_pipeline
from lowtide.passes.registry import parse_passes
from lowtide.records import dataclass
from lowtide.search.deadline import Deadline


@dataclass(frozen=True, slots=True)
class ProgramVariant:
    """A program that may take less memory: `passes` run on the module once it is at `stage`.

    Modules of more than `most_instructions` have no such variant, which would take long to find.
    """

    passes: str
    stage: str = "simplified"
    most_instructions: int = 1 << 30

    @property
    def name(self) -> str:
        """What the variant is called: by its passes."""
        return self.passes


_MIDDLING: Final = 5_000
_LARGE: Final = 15_000

MEMORY_VARIANTS: Final[tuple[ProgramVariant, ...]] = (
    ProgramVariant("loop-residual-recompute{contractions=true}"),
    ProgramVariant("loop-segments"),
    ProgramVariant("loop-residual-recompute{contractions=true},loop-segments"),
    ProgramVariant("compress-saved-values", most_instructions=_LARGE),
    ProgramVariant("split-large-instructions{parts=2}", most_instructions=_MIDDLING),
    ProgramVariant("split-large-instructions{parts=4}", most_instructions=_MIDDLING),
    ProgramVariant("split-large-instructions{parts=8}", most_instructions=_LARGE),
    ProgramVariant("split-large-instructions{parts=16}", most_instructions=_MIDDLING),
)
"""What is tried, in order."""


def variant_of(
    module: Module,
    variant: ProgramVariant,
    stage: str,
    bases: dict[str, Module] | None = None,
    deadline: Deadline | None = None,
) -> Module | None:
    """Return a variant of a module on its way to `stage`, None where its passes change nothing.

    A scheduled module, or one that is not to be optimized, has no variants; a large one has few.
    `bases` keeps the module at stages at which variants begin, for the next one. Raises
    TooLateError where its passes would take longer than to a deadline.
    """
    bases = {} if bases is None else bases
    if module.instruction_count > variant.most_instructions:
        return None
    if module.is_scheduled or STAGES.index(stage) <= STAGES.index(variant.stage):
        return None
    if variant.stage not in bases:
        bases[variant.stage] = clone_module(module)
        compiler.optimize(bases[variant.stage], compiler.PlanOptions(variant.stage))
    changed = clone_module(bases[variant.stage])
    passes = with_planner(parse_passes(variant.passes), deadline)
    return changed if run_pipeline(changed, passes) else None
