"""Which passes take a module from one stage to the next."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from inspect import signature
from typing import Final

from lowtide.ir import LowtideError
from lowtide.ir.suggestions import nearest
from lowtide.passes import Fixpoint, Pass, Step
from lowtide.passes.registry import parse_passes
from lowtide.scheduling.module_scheduler import best_of

STAGES: Final = ("input", "simplified", "layout", "fused", "scheduled")
"""How far a module can be taken; each stage includes those before it."""

_CLEANUP: Final = "algsimp,constant-folding,cse,dce"

_CONTROL_FLOW: Final = (
    "conditional-simplifier,conditional-operands,conditional-results,conditional-to-select,"
    "while-tuple-flattening,while-invariant-carries,while-relayout-sinking,"
    "while-duplicate-carries,while-dead-carries,while-simplifier"
)

_PASSES: Final[dict[str, tuple[str | tuple[str, str], ...]]] = {
    "simplified": (
        "expand-custom-calls,row-major,sharding-remover,async-to-sync,zero-sized,legalize,inline,"
        "computation-deduplication",
        ("simplification", f"{_CONTROL_FLOW},{_CLEANUP}"),
        "while-unroller,inline,while-code-motion,while-induction-range,conditional-code-motion,"
        "conditional-code-sinking,legalize",
        ("simplification after unrolling", f"{_CONTROL_FLOW},{_CLEANUP}"),
        "while-trip-count",
    ),
    "layout": (
        "dot-dimension-splitter,algsimp,layout-assignment,copy-sinking,reshape-decomposer,"
        "layout-normalization",
        ("cleanup after layouts", _CLEANUP),
    ),
    "fused": (
        "attention-fusion,priority-fusion,cse,dce,multi-output-fusion,horizontal-fusion,cse,dce,"
        "computation-deduplication",
    ),
}
"""By stage the passes in turn; a pair is a name and passes that are repeated until they settle."""


def check_stage(stage: str) -> None:
    """Raise LowtideError for a stage that there is not."""
    if stage not in STAGES:
        raise LowtideError(
            f"no stage {stage!r}; there are: {', '.join(STAGES)}{nearest(stage, STAGES)}"
        )


def is_fused(stage: str) -> bool:
    """Whether modules have gone through fusion at a stage."""
    return STAGES.index(stage) >= STAGES.index("fused")


def pipeline(stage: str) -> tuple[Step, ...]:
    """Return the steps from a module as it was written to a stage; raises LowtideError."""
    check_stage(stage)
    steps: list[Step] = []
    for name in STAGES[: STAGES.index(stage) + 1]:
        for entry in _PASSES.get(name, ()):
            if isinstance(entry, tuple):
                steps.append(Fixpoint(entry[0], parse_passes(entry[1])))
            else:
                steps += [_with_scheduler(x) for x in parse_passes(entry)]
    return tuple(steps)


def _with_scheduler(step: Pass) -> Pass:
    """The same pass; fusion, which knows no schedulers, gets one to see where the peak is."""
    if "scheduler" not in signature(step.function).parameters:
        return step
    return replace(step, function=partial(step.function, scheduler=best_of))
