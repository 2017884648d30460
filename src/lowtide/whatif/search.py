"""The search for changes that pay: each is made, planned again, and compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import zip_longest
from time import perf_counter, process_time
from typing import Final

from lowtide import compiler
from lowtide.compiler import DEFAULT_PLAN, ModulePlan, PlanOptions
from lowtide.cost.module_times import run_seconds
from lowtide.ir import LowtideError, Module
from lowtide.report.what_if import ChangeOutcome, LeftOut, WhatIf
from lowtide.suggestions import nearest
from lowtide.whatif.arguments import argument_changes
from lowtide.whatif.baseline import Baseline
from lowtide.whatif.batching import batch_changes, batch_question, named_batch
from lowtide.whatif.change import LEAST_SHARE, ImpossibleChangeError, ProgramChange, Weight
from lowtide.whatif.checkpointing import checkpoint_changes
from lowtide.whatif.donating import donation_changes
from lowtide.whatif.narrowing import narrowing_changes
from lowtide.whatif.programs import budget_changes, variant_changes

_LONGEST: Final = 1.0
"""A change that takes longer than so many further runs of the program does not pay."""
_WORK: Final = 192
"""All changes together may weigh so many orders of the program."""
_LEAST_WORK: Final = 160_000
"""Or as many as order so many instructions, if those are more."""
_TIMES: Final = 10.0
"""Their plans end after so many times the CPU time of the plan before them, should they hang."""
_LEAST_SECONDS: Final = 120.0
"""Or after so many seconds of CPU time, if those are more."""
_NEXT_BUDGET: Final = 0.5
"""The part of the time of a budget that the next one is expected to take."""

Progress = Callable[[str], None]


def what_if(
    module: Module,
    options: PlanOptions = DEFAULT_PLAN,
    progress: Progress | None = None,
    batch_axis: str | None = None,
) -> ModulePlan:
    """Return the plan of a module, whose report has the changes that pay as its `what_if`.

    `batch_axis` names the batch, such as "images:0", for a program that does not tell it.

    Where the options have no deadline, the work of all changes together is limited, so that equal
    modules have equal findings on any machine; with one, time decides. A change for which too
    little is left is not planned, and named in `left_out`. Raises what `compiler.plan` raises.
    """
    start, started = perf_counter(), process_time()
    base = _baseline(module, options, batch_axis)
    seconds = perf_counter() - start
    base.deadline.guard(max(_LEAST_SECONDS, _TIMES * (process_time() - started)))
    search = _Search(base, seconds, progress or (lambda text: None))
    with base.deadline.held():
        found = search.run(changes_of(base))
    return base.plan.with_report(replace(base.report, what_if=found))


def after_change(
    module: Module, name: str, options: PlanOptions = DEFAULT_PLAN, batch_axis: str | None = None
) -> ModulePlan:
    """Return the plan after the change of a name, such as `donate:params`.

    Raises LowtideError for a name that is not one of the module's changes, and where the change
    cannot be made.
    """
    base = _baseline(module, options, batch_axis)
    known = {x.name: x for x in changes_of(base)}
    if name not in known:
        listed = ", ".join(known) or "none"
        text = f"no change {name!r}{nearest(name, known)}; there are: {listed}. "
        raise LowtideError((text + batch_question(base)).rstrip(". "))
    change, reason = known[name], ""
    for plan in (change.written, change.plan):
        try:
            if plan is not None:
                return plan(base)
        except ImpossibleChangeError as error:
            reason = str(error)
    raise LowtideError(f"{name} cannot be made: {reason}")


def changes_of(base: Baseline) -> list[ProgramChange]:
    """Return the changes that may lower the peak of a program, the first of each kind first."""
    kinds = [
        donation_changes(base),
        checkpoint_changes(base),
        narrowing_changes(base),
        argument_changes(base),
    ]
    quick = [x for row in zip_longest(*kinds) for x in row if x is not None]
    other = [batch_changes(base), budget_changes(base), variant_changes(base)]
    slow = [x for row in zip_longest(*other) for x in row]
    return [*quick, *[x for x in slow if x is not None]]


def _baseline(module: Module, options: PlanOptions, batch_axis: str | None) -> Baseline:
    if batch_axis is not None:
        named_batch(module, batch_axis)  # What is wrong with it is said before a plan is made.
    options = options.begun()
    return Baseline(module, compiler.plan(module, options), options, batch_axis)


class _Search:
    """The changes as they are planned, one after the other, while there is work or time left."""

    def __init__(self, base: Baseline, plan_seconds: float, progress: Progress) -> None:
        self.base = base
        self.progress = progress
        order = plan_seconds - base.report.seconds.get("passes", 0.0)
        self.longest = {
            Weight.ORDER: order,
            Weight.PASSES: 2 * plan_seconds,
            Weight.BUDGET: 4 * plan_seconds,
        }
        """The longest that a change of each weight took so far, in seconds."""
        self.left = max(_WORK, _LEAST_WORK // base.given.instruction_count)
        """The weight of further changes where no deadline was given."""

    def run(self, changes: Sequence[ProgramChange]) -> WhatIf:
        found: list[tuple[ProgramChange, ChangeOutcome]] = []
        useless, impossible = list[str](), list[str]()
        left_out: list[ProgramChange] = []
        for number, change in enumerate(changes):
            if not self.has_room(change):
                left_out.append(change)
                continue
            self.left -= change.weight
            self.progress(f"what if {change.name} ({number + 1} of {len(changes)})")
            try:
                outcome = self.outcome(change)
            except ImpossibleChangeError as error:
                impossible.append(f"{change.name} ({error})")
                continue
            if outcome is None:
                left_out.append(change)
            elif self.is_promising(change, outcome):
                found.append((change, outcome))
            else:
                useless.append(change.name)
        outcomes = []
        tightest = _tightest_budgets(found)
        # The roughest figures first: there may not be room to plan all changes as written.
        for change, outcome in sorted(found, key=lambda x: (x[0].least_share, x[1].rank)):
            if _is_budget(change) and tightest[_figures(outcome)] is not change:
                useless.append(change.name)
                continue
            checked = self.as_written(change, outcome)
            if self.pays(change, checked):
                outcomes.append(checked)
            else:
                useless.append(change.name)
        outcomes.sort(key=lambda x: x.rank)
        left_out.sort(key=lambda x: -(x.estimate or 0))
        return WhatIf(
            self.base.seconds,
            tuple(outcomes),
            tuple(useless),
            tuple([LeftOut(x.name, x.estimate) for x in left_out]),
            tuple(impossible),
            batch_question(self.base),
        )

    def has_room(self, change: ProgramChange) -> bool:
        """Whether enough time is left for a change, or work where time does not decide."""
        if self.base.deadline.is_timed:
            return self.base.deadline.leaves(self.longest[change.weight])
        return not self.base.deadline.passed and change.weight <= self.left

    def outcome(self, change: ProgramChange) -> ChangeOutcome | None:
        """What a change leads to; None where Ctrl-C ends its plan."""
        start = perf_counter()
        plan: ModulePlan | None = None
        with self.base.deadline.until_interrupted():
            plan = change.plan(self.base)
        took = perf_counter() - start
        if change.weight is Weight.BUDGET:  # Further budgets choose among the plans of the first.
            self.longest[change.weight] = took * _NEXT_BUDGET
        else:
            self.longest[change.weight] = max(self.longest[change.weight], took)
        return None if plan is None else _outcome(self.base, change, plan)

    def as_written(self, change: ProgramChange, outcome: ChangeOutcome) -> ChangeOutcome:
        """What a change leads to once it is written in the program, if there is room to plan it."""
        if change.written is None:
            return outcome
        is_about = change.is_written_about
        written = replace(change, plan=change.written, weight=Weight.PASSES, is_about=is_about)
        if not self.has_room(written):
            return outcome
        self.left -= written.weight
        self.progress(f"what if {change.name}, as written")
        try:
            return self.outcome(written) or outcome
        except ImpossibleChangeError:
            return outcome

    def pays(self, change: ProgramChange, outcome: ChangeOutcome) -> bool:
        """Whether a change saves enough, for a time that is not beyond all measure."""
        share = change.least_share if outcome.is_about else LEAST_SHARE
        if outcome.saved_bytes * share < self.base.report.total_bytes:
            return False
        return outcome.saved_bytes > 0 and outcome.extra_seconds <= _LONGEST * self.base.seconds

    def is_promising(self, change: ProgramChange, outcome: ChangeOutcome) -> bool:
        """Whether a change pays, or may well pay once it is planned as it is written."""
        rough = change if change.written is None else replace(change, least_share=LEAST_SHARE)
        return self.pays(rough, outcome)


def _is_budget(change: ProgramChange) -> bool:
    return change.weight is Weight.BUDGET


def _figures(outcome: ChangeOutcome) -> tuple[int, float]:
    return outcome.arena_bytes, outcome.extra_seconds


def _tightest_budgets(
    found: Sequence[tuple[ProgramChange, ChangeOutcome]],
) -> dict[tuple[int, float], ProgramChange]:
    """Return the smallest budget of those that one plan keeps to, by the figures of the plan."""
    budgets = [(change, outcome) for change, outcome in found if _is_budget(change)]
    budgets.sort(key=lambda x: x[0].estimate or 0)
    return {_figures(outcome): change for change, outcome in budgets}


def _outcome(base: Baseline, change: ProgramChange, plan: ModulePlan) -> ChangeOutcome:
    before, after = base.report, plan.report
    seconds = change.runs * run_seconds(plan.module.entry, base.options.target.machine)
    ladder = after.ladder
    return ChangeOutcome(
        change.name,
        change.what,
        change.code,
        change.source,
        after.total_bytes,
        after.total_bytes - ladder.arena_bytes + ladder.bound_bytes,
        ladder.arena_bytes,
        before.total_bytes - after.total_bytes,
        max(0.0, seconds - base.seconds),
        change.remark,
        change.is_about,
    )
