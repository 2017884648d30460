"""Fusion and schedule decided together: kernels that lower the peak, if they are worth their time.

Fusion looks at the peak in the order that the kernels will have. It proposes to compute values
there once more, or to store others. A proposal that costs time is compared with the module without
it before kernels are united, which is done once, for the one that is taken.

Barriers are compared in the same way: they go where the module without them takes no more memory
and no more time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Final, TypeAlias, final

from lowtide.analysis.dataflow import dataflow
from lowtide.analysis.memory_profile import peak_bytes
from lowtide.analysis.module_graphs import module_graphs
from lowtide.compiler.in_parts import in_parts, is_worth_parts
from lowtide.compiler.options import DEFAULT_PLAN, PlanOptions
from lowtide.compiler.stages import (
    CHOOSING,
    SHARING,
    UNITING,
    is_fused,
    merging,
    order_of_kernels,
    pipeline,
    with_time,
)
from lowtide.cost.machine import Machine
from lowtide.cost.module_times import run_seconds
from lowtide.fusion.kernel_choices import Choice, KernelChoices
from lowtide.fusion.peak_lowering import Allowance
from lowtide.fusion.target_record import CPU_TARGET
from lowtide.ir import Instruction, Module, Opcode
from lowtide.ir.clone import clone_module
from lowtide.passes import Observer, Step, run_pipeline
from lowtide.records import dataclass

Look: TypeAlias = Callable[[Module, Module | None], None]
"""What sees the module that fusion is given, and `ChosenKernels.on_chip`; it changes neither."""

_BEFORE: Final = "layout"


def look_away(module: Module, on_chip: Module | None) -> None:
    """Do nothing."""


def optimize(
    module: Module,
    options: PlanOptions = DEFAULT_PLAN,
    observers: Sequence[Observer] = (),
    look: Look = look_away,
) -> int:
    """Take a module, which is changed, to a stage; return the number of changes.

    Kernels may take longer by the part `options.memory_priority` of their estimated time where the
    peak is lower then, which is sought until the deadline. `observers` see the passes that led to
    what the module becomes, and `look` sees the module that fusion is given. Instructions of fused
    modules are others than those given. Raises LowtideError for an unknown stage.
    """
    stage = options.stage
    options = options.begun()
    if not is_fused(stage):
        return run_pipeline(module, pipeline(stage), observers)
    started = clone_module(module) if observers else module
    changes = run_pipeline(started, pipeline(_BEFORE))
    chosen = chosen_kernels(started, options)
    look(chosen.given or started, chosen.on_chip)
    if observers:
        was_late = iter(chosen.was_late)
        allowance = Allowance(chosen.allowed, lambda: next(was_late, True))
        left, target = chosen.time_left, options.target
        last = pipeline(stage, after=_BEFORE, allowance=allowance, time_share=left, target=target)
        return run_pipeline(module, (*pipeline(_BEFORE), *chosen.first, *last), observers)
    chosen = chosen.united()
    module.become(chosen.module)
    return changes + chosen.changes


@dataclass(frozen=True, eq=False, slots=True)
class ChosenKernels:
    """A module with its kernels, before these are united, and with which allowance they were made.

    `choice` are the clusters they were made of, in a copy of the module that was given. `rest` are
    the steps that unite them; `time_left` is the part of a run that these may spend on memory.
    `was_late` is what was answered, in turn, to whether the deadline had passed; `first` are the
    steps before those of the stage. `given` is the module that fusion was given, where it runs in
    parts and is not the one before. `on_chip` is the same with what a CPU runs on chip as one
    kernel, where clusters were made of that.
    """

    module: Module
    changes: int
    allowed: float
    choice: Choice
    was_late: Sequence[bool]
    rest: tuple[Step, ...]
    time_left: float = 0.0
    first: tuple[Step, ...] = ()
    given: Module | None = None
    on_chip: Module | None = None

    def united(self, *, sharing: bool = True) -> ChosenKernels:
        """Return the same after the rest of the steps, which change the module.

        Without `sharing` kernels that compute the same have bodies of their own.
        """
        steps = [x for x in self.rest if sharing or x.name != SHARING]
        steps = with_time(steps, self.time_left)
        changes = self.changes + run_pipeline(self.module, steps, keeps=True)
        return replace(self, changes=changes, rest=())


def chosen_kernels(module: Module, options: PlanOptions) -> ChosenKernels:
    """Return a module as it is, without barriers or in parts, where that takes less memory."""
    found = _proposed(module, options)
    if options.deadline.passed:
        return found
    if has_barriers(module):
        return _without_barriers(module, found, options)
    if not is_worth_parts(module, options):
        return found
    machine = options.target.machine

    def propose(other: Module) -> tuple[ChosenKernels, tuple[int, float]]:
        kernels = _proposed(other, options)
        return kernels, needs(kernels.module, machine)

    split = in_parts(module, needs(found.module, machine), options, propose)
    if split is None:
        return found
    kernels, given, steps = split
    return replace(kernels, first=steps, given=given)


def given_to_fusion(module: Module, options: PlanOptions) -> Module:
    """Return a module at the stage "layout", or the same in parts where it is compiled so."""
    if has_barriers(module) or not is_worth_parts(module, options):
        return module
    return chosen_kernels(module, options.begun()).given or module


def _without_barriers(module: Module, found: ChosenKernels, options: PlanOptions) -> ChosenKernels:
    """The kernels without barriers where these take no more memory and time, or those found."""
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
    return replace(other, changes=changes + other.changes, first=steps, on_chip=None)


_NEARLY_ALL: Final = 0.85
"""The largest part of the instructions left without barriers at which their removal is tried."""


def _contracted_bytes(module: Module) -> int:
    """The bytes of all contractions: what is no longer computed twice is held in between."""
    return sum([x.shape.nbytes for x in _all_of(module, {Opcode.CONVOLUTION, Opcode.DOT})])


def has_barriers(module: Module) -> bool:
    """Whether a module has barriers, which a compilation may leave out."""
    return bool(_all_of(module, {Opcode.OPTIMIZATION_BARRIER}))


def _all_of(module: Module, opcodes: Collection[Opcode]) -> list[Instruction]:
    computations = module.computations.values()
    return [y for x in computations for y in x.instructions.values() if y.opcode in opcodes]


_FACTOR: Final = 1.8
"""Fusion is allowed so many times the time at first: it knows what kernels take only roughly."""
_ROUNDS: Final = 2
_INSTANT: Final = 1e-12
_SHORTER: Final = 0.9
"""What part is allowed next of the time that would have been right."""


def _proposed(module: Module, options: PlanOptions) -> ChosenKernels:
    """The first proposal that lowers the peak and takes no more time than it may, else none."""
    machine, priority = options.target.machine, options.memory_priority
    kernels = _Kernels(module, options)
    plain: ChosenKernels | None = None
    factor = _FACTOR
    for _ in range(_ROUNDS):
        if options.deadline.passed:
            break
        proposal, spent = kernels.within(factor * priority)
        if not spent:
            return replace(proposal, time_left=priority)
        if plain is None:
            plain, _ = kernels.within(0.0)
            before = needs(plain.module, machine)
        after = needs(proposal.module, machine)
        if _pays(before, after, priority):
            return replace(proposal, time_left=1 + priority - after[1] / before[1])
        if after[0] >= before[0]:
            break  # What fusion expects is not so, with less time neither.
        if _pays(before, after, _DOUBTFUL * priority):
            plain, proposal = plain.united(), proposal.united()
            if _pays(needs(plain.module, machine), needs(proposal.module, machine), priority):
                return proposal
        factor *= _SHORTER * priority * before[1] / max(after[1] - before[1], _INSTANT)
    left = 0.0 if options.deadline.passed else priority
    return replace(plain or kernels.within(0.0)[0], time_left=left)


_DOUBTFUL: Final = 1.5
"""Up to so many times the time allowed, uniting kernels may still make good what is too much."""


def _pays(before: tuple[int, float], after: tuple[int, float], priority: float) -> bool:
    """Whether less lives at the peak, and the time is longer by no more than a part."""
    return after[0] < before[0] and after[1] <= before[1] * (1 + priority)


@final
class _Kernels:
    """The kernels that a module may have; the module stays as it is."""

    def __init__(self, module: Module, options: PlanOptions) -> None:
        self._deadline = options.deadline
        steps = pipeline(options.stage, after=_BEFORE, target=options.target)
        names = [x.name for x in steps]
        choosing, uniting = names.index(CHOOSING), names.index(UNITING)
        self._between, self._rest = steps[choosing + 1 : uniting], steps[uniting:]
        copy = clone_module(module)
        self._changes = run_pipeline(copy, steps[:choosing], keeps=True)
        self._on_chip = copy if options.target is CPU_TARGET else None
        self._choices = KernelChoices(copy, order_of_kernels, options.target)

    def within(self, allowed: float) -> tuple[ChosenKernels, bool]:
        """Return the module with kernels within an allowance, and whether time is spent then."""
        was_late: list[bool] = []

        def is_late() -> bool:
            was_late.append(self._deadline.passed)
            return was_late[-1]

        allowance = Allowance(allowed, is_late)
        choice = self._choices.within(allowance)
        module, made = self._choices.written(choice)
        changes = self._changes + made + run_pipeline(module, self._between, keeps=True)
        found = ChosenKernels(
            module, changes, allowed, choice, was_late, self._rest, on_chip=self._on_chip
        )
        return found, allowance.spent > 0


def needs(module: Module, machine: Machine) -> tuple[int, float]:
    """Return the bytes live at the peak, in the order that kernels will have, and the seconds.

    Both are estimates: of a module before it has the copies of values that its order needs.
    """
    flows = dataflow(module.entry)
    peaks: list[int] = []
    for row in module_graphs(module, flows):
        graph = row.holding(peaks)
        peaks.append(peak_bytes(graph, order_of_kernels(graph)))
    return peaks[-1], run_seconds(module.entry, machine)
