"""Fusion and schedule decided together: kernels that lower the peak, if they are worth their time.

Fusion looks at the peak in the order that the kernels will have. It proposes to compute values
there once more, or to store others. A proposal that costs time is compared with the module without
it.

Barriers are compared in the same way: they go where the module without them takes no more memory
and no more time.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

from lowtide.analysis.dataflow import dataflow
from lowtide.analysis.memory_profile import peak_bytes
from lowtide.analysis.module_graphs import module_graphs
from lowtide.compiler.options import DEFAULT_PLAN, PlanOptions
from lowtide.compiler.stages import is_fused, merging, order_of_kernels, pipeline
from lowtide.cost.machine import Machine
from lowtide.cost.module_times import module_times, total_seconds
from lowtide.fusion.peak_lowering import Allowance
from lowtide.ir import Instruction, Module, Opcode
from lowtide.ir.clone import clone_module
from lowtide.passes import Observer, Step, run_pipeline
from lowtide.records import dataclass

_BEFORE: Final = "layout"


def optimize(
    module: Module, options: PlanOptions = DEFAULT_PLAN, observers: Sequence[Observer] = ()
) -> int:
    """Take a module, which is changed, to a stage; return the number of changes.

    Kernels may take longer by the part `options.memory_priority` of their estimated time where the
    peak is lower then, which is sought until the deadline. `observers` see the passes that led to
    what the module becomes. Instructions of fused modules are others than those given. Raises
    LowtideError for an unknown stage.
    """
    stage = options.stage
    options = options.begun()
    if not is_fused(stage):
        return run_pipeline(module, pipeline(stage), observers)
    started = clone_module(module) if observers else module
    changes = run_pipeline(started, pipeline(_BEFORE))
    chosen = _best(started, options)
    if observers:
        was_late = iter(chosen.was_late)
        allowance = Allowance(chosen.allowed, lambda: next(was_late, True))
        last = pipeline(stage, after=_BEFORE, allowance=allowance, target=options.target)
        return run_pipeline(module, (*pipeline(_BEFORE), *chosen.first, *last), observers)
    module.become(chosen.module)
    return changes + chosen.changes


@dataclass(frozen=True, eq=False, slots=True)
class _Fused:
    """A module that was fused, with which allowance, and whether time was spent on memory.

    `was_late` is what was answered, in turn, to whether the deadline had passed; `first` are the
    steps before those of the stage.
    """

    module: Module
    changes: int
    allowed: float
    has_spent: bool
    was_late: Sequence[bool]
    first: tuple[Step, ...] = ()


def _best(module: Module, options: PlanOptions) -> _Fused:
    """The module without barriers where that takes no more memory and time, else as it is."""
    found = _proposed(module, options)
    if options.deadline.passed or not _all_of(module, {Opcode.OPTIMIZATION_BARRIER}):
        return found
    merged, steps = clone_module(module), merging()
    changes = run_pipeline(merged, steps)
    if merged.instruction_count > _NEARLY_ALL * module.instruction_count:
        return found
    peak, seconds = needs(found.module, options.target.machine)
    if _contracted_bytes(module) - _contracted_bytes(merged) > peak:
        return found
    other = _proposed(merged, options)
    most, longest = needs(other.module, options.target.machine)
    if most > peak or longest > seconds:
        return found
    return replace(other, changes=changes + other.changes, first=steps)


_NEARLY_ALL: Final = 0.85
"""The largest part of the instructions left without barriers at which their removal is tried."""


def _contracted_bytes(module: Module) -> int:
    """The bytes of all contractions: what is no longer computed twice is held in between."""
    return sum([x.shape.nbytes for x in _all_of(module, {Opcode.CONVOLUTION, Opcode.DOT})])


def _all_of(module: Module, opcodes: Collection[Opcode]) -> list[Instruction]:
    computations = module.computations.values()
    return [y for x in computations for y in x.instructions.values() if y.opcode in opcodes]


_ROUNDS: Final = (2.0, 1.0)
"""Fusion is allowed so many times the time in turn: it knows what kernels take only roughly."""


def _proposed(module: Module, options: PlanOptions) -> _Fused:
    """The first proposal that lowers the peak and takes no more time than it may, else none."""
    machine, priority = options.target.machine, options.memory_priority
    plain: _Fused | None = None
    for factor in _ROUNDS:
        if options.deadline.passed:
            break
        proposal = _fused(module, options, factor * priority)
        if not proposal.has_spent:
            return proposal
        if plain is None:
            plain = _fused(module, options, 0.0)
            least, fewest = needs(plain.module, machine)
        peak, seconds = needs(proposal.module, machine)
        if peak < least and seconds <= fewest * (1 + priority):
            return proposal
    return plain or _fused(module, options, 0.0)


def _fused(module: Module, options: PlanOptions, allowed: float) -> _Fused:
    copy = clone_module(module)
    was_late: list[bool] = []

    def is_late() -> bool:
        was_late.append(options.deadline.passed)
        return was_late[-1]

    allowance = Allowance(allowed, is_late)
    steps = pipeline(options.stage, after=_BEFORE, allowance=allowance, target=options.target)
    changes = run_pipeline(copy, steps)
    return _Fused(copy, changes, allowed, allowance.spent > 0, was_late)


def needs(module: Module, machine: Machine) -> tuple[int, float]:
    """Return the bytes live at the peak, in the order that kernels will have, and the seconds.

    Both are estimates: of a module before it has the copies of values that its order needs.
    """
    flows = dataflow(module.entry)
    peaks: list[int] = []
    for row in module_graphs(module, flows):
        graph = row.holding(peaks)
        peaks.append(peak_bytes(graph, order_of_kernels(graph)))
    sequences = {computation: range(len(flow.nodes)) for computation, flow in flows.items()}
    seconds = total_seconds(sequences, module_times(flows, machine))
    return peaks[-1], seconds[module.entry]
