"""The passes that take a module from one stage to the next."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Final

from lowtide.analysis.memory_graph import MemoryGraph
from lowtide.fusion.peak_lowering import Allowance
from lowtide.fusion.target_record import CPU_TARGET, TargetRecord
from lowtide.ir import LowtideError
from lowtide.passes import Fixpoint, Pass, Step
from lowtide.passes.registry import late_passes, parse_passes
from lowtide.scheduling.exact import lower_order
from lowtide.scheduling.module_scheduler import Int64Array, best_and_peak, best_of
from lowtide.scheduling.proof import plain_bound
from lowtide.search.effort import Effort
from lowtide.suggestions import nearest

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
        "effect-order,dce,expand-custom-calls,row-major,sharding-remover,async-to-sync,zero-sized,legalize,"
        "inline,computation-deduplication,integer-products",
        ("simplification", f"{_CONTROL_FLOW},{_CLEANUP}"),
        "counted-values,while-unroller,inline,call-operands,while-code-motion,while-induction-range,"
        "conditional-code-motion,conditional-code-sinking,legalize,needless-barriers,barrier-operands",
        ("simplification after unrolling", f"{_CONTROL_FLOW},{_CLEANUP}"),
        "while-independent-steps,legalize",
        ("simplification of steps together", f"while-dead-carries,while-simplifier,{_CLEANUP}"),
        "loop-residual-recompute,while-trip-count",
    ),
    "layout": (
        "dot-dimension-splitter,algsimp,layout-assignment,copy-sinking,reshape-decomposer,"
        "layout-normalization",
        ("cleanup after layouts", _CLEANUP),
        "lookup-tables",
    ),
    "fused": (
        "attention-fusion,priority-fusion,cse,dce,late-kernels,multi-output-fusion,horizontal-fusion,"
        "cse,dce,computation-deduplication",
    ),
}
"""By stage the passes in turn; a pair is a name and passes that are repeated until they settle."""

CHOOSING: Final = "priority-fusion"
"""The pass that can make other kernels of one module, by what time may be spent on memory."""

UNITING: Final = "late-kernels"
"""The first pass for kernels that are chosen: it runs some of them again, for less at the peak.

Those behind it make one kernel of several, and raise no peak.
"""

SHARING: Final = "computation-deduplication"
"""The pass that gives kernels that compute the same one body."""

_ALL_BARRIERS: Final = "needless-barriers{all=true}"

_MERGED: Final = "cse,dce"
"""What has nothing computed twice because a barrier asked for it; before the stage "fused"."""


def check_stage(stage: str) -> None:
    """Raise LowtideError for a stage that there is not."""
    if stage not in STAGES:
        raise LowtideError(
            f"no stage {stage!r}; there are: {', '.join(STAGES)}{nearest(stage, STAGES)}"
        )


def is_fused(stage: str) -> bool:
    """Whether modules have gone through fusion at a stage."""
    return STAGES.index(stage) >= STAGES.index("fused")


def merging() -> tuple[Step, ...]:
    """Return the steps that merge what barriers keep apart: for modules at the stage "layout"."""
    return (*parse_passes(_ALL_BARRIERS), *_read(_MERGED))


def cleaned() -> tuple[Step, ...]:
    """Return the steps behind one that changed a module at the stage "layout"."""
    return _read("algsimp,cse,dce")


@cache
def _read(passes: str) -> tuple[Pass, ...]:
    """The passes of a list of this file, read once."""
    return late_passes(passes)


def pipeline(
    stage: str,
    *,
    after: str = "",
    allowance: Allowance | None = None,
    time_share: float = 0.0,
    target: TargetRecord = CPU_TARGET,
) -> tuple[Step, ...]:
    """Return the steps from a module as it was written to a stage; raises LowtideError.

    With `after` only those from that stage on. Fusion makes kernels of a `target`, and may spend
    time on memory within an `allowance`, by default none; kernels that run again behind the peak
    take at most the part `time_share` of a run.
    """
    check_stage(stage)
    first = STAGES.index(after) + 1 if after else 0
    # Fusion knows no schedulers: it gets one to see where the peak is.
    given: dict[str, object] = {"scheduler": order_of_kernels, "allowance": allowance}
    given |= {"target": target, "time_share": time_share}
    steps: list[Step] = []
    for name in STAGES[first : STAGES.index(stage) + 1]:
        for entry in _PASSES.get(name, ()):
            if isinstance(entry, tuple):
                steps.append(Fixpoint(entry[0], _read(entry[1])))
            else:
                steps += [x.told(given) for x in _read(entry)]
    return tuple(steps)


def with_time(steps: Iterable[Step], time_share: float) -> list[Step]:
    """Return the same steps where kernels that run again take at most such a part of a run."""
    given = {"time_share": time_share}
    return [x.told(given) if isinstance(x, Pass) and x.name == UNITING else x for x in steps]


def order_of_kernels(graph: MemoryGraph) -> Int64Array:
    """Return the order in which fusion expects kernels to run: nearly the one that they will have.

    What has to run early or late keeps its place only by the simple schedulers. These are asked
    first for a small graph, where it often takes little to see that no order is lower.
    """
    if graph.urgency.any():
        return best_of(graph)
    if graph.node_count <= _SMALL:
        bound = plain_bound(graph)
        order, peak = best_and_peak(graph, bound)
        work = _TINY_WORK if graph.node_count <= _TINY else _LITTLE_WORK
        found = lower_order(graph, peak, bound, work)
        if found is not None:
            return order if found.order is None else found.order
    from lowtide.scheduling.search import search_order  # Most small graphs need no search.

    return search_order(graph, Effort.FAST).order


_SMALL: Final = 256
_LITTLE_WORK: Final = 30_000
"""Nodes looked at to find a least order in Python: compiled code comes as far in that time."""

_TINY: Final = 32
_TINY_WORK: Final = 120_000
"""The same of graphs of so few nodes, where it takes less than to load compiled code."""
