"""Communication hidden behind computation, within a cap on memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from lowtide import compiler
from lowtide.analysis.memory_profile import peak_bytes
from lowtide.compiler import ModulePlan, PlanOptions
from lowtide.compiler.options import DEFAULT_PLAN
from lowtide.cost.devices import DEVICES, DeviceRecord
from lowtide.ir import Module, Schedule
from lowtide.ir.clone import clone_module
from lowtide.overlap.module_step import ModuleStep, module_step, shortest_schedule
from lowtide.overlap.pairs import make_pairs
from lowtide.overlap.step_graph import StepModel
from lowtide.records import dataclass

USUAL_DEVICE: Final = next(iter(DEVICES.values()))

SLACK: Final = 1.1
"""The cap where none is given: so many times the arena of the order of the least memory."""

_ATTEMPTS: Final = 4
"""How often the limit of live bytes is lowered until the arena is within the cap."""


@dataclass(frozen=True, eq=False, slots=True)
class HiddenStep:
    """A plan whose collectives are in two halves, and its step beside the one without.

    `plan` has the order of the shortest step found whose arena is at most `cap_bytes`. Where there
    is none, `is_given`: then it is the order of the least memory, each second half right behind the
    first. `first` is the plan in that one, `given` its step, `limit` the most live bytes of orders
    that are sought, and `tried` how many were.
    """

    plan: ModulePlan
    first: ModulePlan
    step: ModuleStep
    given: ModuleStep
    cap_bytes: int
    limit: int
    is_given: bool
    tried: int

    @property
    def arena_bytes(self) -> int:
        """The bytes of the arena of the plan."""
        return self.plan.report.ladder.arena_bytes

    @property
    def needed_bytes(self) -> int:
        """The bytes of the arena, arguments and constants."""
        return self.arena_bytes + fixed_bytes(self.plan)

    @property
    def fits(self) -> bool:
        """Whether the arena is within the cap."""
        return self.arena_bytes <= self.cap_bytes


def hide_communication(
    planned: ModulePlan,
    memory_bytes: int | None = None,
    device: DeviceRecord = USUAL_DEVICE,
    options: PlanOptions = DEFAULT_PLAN,
) -> HiddenStep:
    """Return the plan of the shortest step of a program of one device, given its plan.

    With `memory_bytes` that is what the arena, arguments and constants may take together; a plan
    that takes more in the order of the least memory stays in that order.
    """
    options = replace(options.begun(), proves=False)
    module = clone_module(planned.module)
    make_pairs(module)
    first = compiler.plan(module, options)
    model = StepModel(first.module, device)
    given = module_step(model)
    arena = first.report.ladder.arena_bytes
    cap = round(arena * SLACK) if memory_bytes is None else memory_bytes - fixed_bytes(first)
    least = _entry_peak(model)
    limit = least + cap - arena
    tried = 0
    for attempt in range(_ATTEMPTS if cap >= arena else 0):
        schedule, count = shortest_schedule(model, limit, options.deadline)
        tried += count
        if not count:
            break
        found = _planned_in(first.module, schedule, options)
        step = module_step(StepModel(found.module, device))
        excess = found.report.ladder.arena_bytes - cap
        if excess <= 0 and step.step.seconds < given.step.seconds:
            return HiddenStep(found, first, step, given, cap, limit, is_given=False, tried=tried)
        if options.deadline.passed or limit <= least:
            break
        # Copies that another order needs are in no limit: at last there is none above the least.
        is_last = attempt == _ATTEMPTS - 2
        limit = least if is_last else max(least, limit - max(excess, (limit - least) // 2))
    return HiddenStep(first, first, given, given, cap, limit, is_given=True, tried=tried)


def _planned_in(module: Module, schedule: Schedule, options: PlanOptions) -> ModulePlan:
    """The plan of a module in another order; the module gets its own one back."""
    own = module.schedule
    module.schedule = schedule
    try:
        return compiler.plan(module, options)
    finally:
        module.schedule = own


def fixed_bytes(planned: ModulePlan) -> int:
    """Return what a device holds beside the arena: arguments and constants."""
    return planned.report.argument_bytes + planned.report.constant_bytes


def _entry_peak(model: StepModel) -> int:
    peaks: list[int] = []
    for found in model.graphs:
        peaks.append(peak_bytes(found.holding(peaks), np.array(found.order, np.int64)))
    return peaks[-1]
