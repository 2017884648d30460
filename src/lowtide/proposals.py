"""Fusion and schedule decided together: kernels that lower the peak, if they are worth their time.

Fusion sees where most is live in the order that kernels will have, and proposes to compute values
there once more, or to store others. What costs time is compared with the module without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lowtide.analysis.dataflow import dataflow
from lowtide.analysis.memory_profile import peak_bytes
from lowtide.analysis.module_graphs import module_graphs
from lowtide.budgeting.times import module_times, total_seconds
from lowtide.fusion.peak_lowering import Allowance
from lowtide.ir import Module
from lowtide.ir.clone import clone_module
from lowtide.options import DEFAULT_MEMORY_PRIORITY
from lowtide.passes import Observer, run_pipeline
from lowtide.pipelines import is_fused, order_of_kernels, pipeline

_BEFORE: Final = "layout"


def optimize(
    module: Module,
    stage: str,
    observers: Sequence[Observer] = (),
    memory_priority: float = DEFAULT_MEMORY_PRIORITY,
) -> int:
    """Take a module, which is changed, to a stage; return the number of changes.

    Kernels may take longer by the part `memory_priority` of their estimated time where the peak is
    lower then. `observers` see the passes that led to what the module becomes. Instructions of
    fused modules are others than those given. Raises LowtideError for an unknown stage.
    """
    if not is_fused(stage) or memory_priority <= 0:
        return run_pipeline(module, pipeline(stage), observers)
    started = clone_module(module) if observers else module
    changes = run_pipeline(started, pipeline(_BEFORE))
    chosen = _proposed(started, stage, memory_priority)
    if observers:
        steps = pipeline(stage, allowance=Allowance(chosen.allowed))
        return run_pipeline(module, steps, observers)
    module.become(chosen.module)
    return changes + chosen.changes


@dataclass(frozen=True, eq=False, slots=True)
class _Fused:
    """A module that was fused, with which allowance, and whether time was spent on memory."""

    module: Module
    changes: int
    allowed: float
    has_spent: bool


_ROUNDS: Final = (2.0, 1.0)
"""Fusion is allowed so many times the time in turn: it knows what kernels take only roughly."""


def _proposed(module: Module, stage: str, priority: float) -> _Fused:
    """The first proposal that lowers the peak and takes no more time than it may, else none."""
    plain: _Fused | None = None
    for factor in _ROUNDS:
        proposal = _fused(module, stage, factor * priority)
        if not proposal.has_spent:
            return proposal
        if plain is None:
            plain = _fused(module, stage, 0.0)
            least, fewest = needs(plain.module)
        peak, seconds = needs(proposal.module)
        if peak < least and seconds <= fewest * (1 + priority):
            return proposal
    assert plain is not None
    return plain


def _fused(module: Module, stage: str, allowed: float) -> _Fused:
    copy = clone_module(module)
    allowance = Allowance(allowed)
    changes = run_pipeline(copy, pipeline(stage, after=_BEFORE, allowance=allowance))
    return _Fused(copy, changes, allowed, allowance.spent > 0)


def needs(module: Module) -> tuple[int, float]:
    """Return the bytes live at the peak, in the order that kernels will have, and the seconds.

    Both are estimates: of a module before it has the copies of values that its order needs.
    """
    flows = dataflow(module.entry)
    peaks: list[int] = []
    for row in module_graphs(module, flows):
        graph = row.holding(peaks)
        peaks.append(peak_bytes(graph, order_of_kernels(graph)))
    sequences = {computation: range(len(flow.nodes)) for computation, flow in flows.items()}
    seconds = total_seconds(sequences, module_times(flows))
    return peaks[-1], seconds[module.entry]
