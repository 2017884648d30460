"""Which passes take a module from one stage to the next."""

from __future__ import annotations

from typing import Final

from lowtide.ir import LowtideError
from lowtide.passes import Fixpoint, Step
from lowtide.passes.registry import parse_passes

STAGES: Final = ("input", "simplified", "layout", "fused", "scheduled")
"""How far a module can be taken; each stage includes those before it."""

_SIMPLIFICATION: Final = "algsimp,cse,dce"

_PASSES: Final[dict[str, tuple[str | tuple[str, str], ...]]] = {
    "simplified": ("row-major,async-to-sync,inline", ("simplification", _SIMPLIFICATION)),
    "fused": ("priority-fusion,cse,dce",),
}
"""By stage the passes in turn; a pair is a name and passes that are repeated until they settle."""


def check_stage(stage: str) -> None:
    """Raise LowtideError for a stage that there is not."""
    if stage not in STAGES:
        raise LowtideError(f"no stage {stage!r}; there are: {', '.join(STAGES)}")


def pipeline(stage: str) -> tuple[Step, ...]:
    """Return the steps from a module as it was written to a stage; raises LowtideError."""
    check_stage(stage)
    steps: list[Step] = []
    for name in STAGES[: STAGES.index(stage) + 1]:
        for entry in _PASSES.get(name, ()):
            if isinstance(entry, tuple):
                steps.append(Fixpoint(entry[0], parse_passes(entry[1])))
            else:
                steps += parse_passes(entry)
    return tuple(steps)
