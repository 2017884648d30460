"""From a module to an executable that is compiled anew: what a cache has loads none of this."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any

from lowtide import compiler
from lowtide.backends.build import build, options_of
from lowtide.backends.cpu import cpu_backend
from lowtide.backends.interface import Progress, Tell
from lowtide.client.executable.compiling import for_devices
from lowtide.client.executable.executable import (
    NOT_KEPT,
    CheckedModules,
    Description,
    Executable,
    Making,
    spells_constants,
)
from lowtide.ir import Module
from lowtide.ir.clone import clone_module
from lowtide.ir.gpu_names import is_gpu_target
from lowtide.ir.printer import CANONICAL, COMPLETE, to_text
from lowtide.options import Options
from lowtide.passes import Observer
from lowtide.records import dataclass
from lowtide.runtime.cpu.program import NativeProgram


@dataclass(frozen=True, slots=True)
class PlannedProgram:
    """A native program with the plan that it runs in; `seconds` by stage until here.

    `budget` is what keeping to `Options.memory` came to, None without one, and `base` the module
    that the bound on its extra time is about, where there is such a bound.
    """

    program: NativeProgram
    plan: compiler.ModulePlan
    seconds: Mapping[str, float]
    budget: Mapping[str, Any] | None = None
    base: Module | None = None


def compile_anew(
    module: Module,
    options: Options | None = None,
    progress: Progress | None = None,
    observers: Sequence[Observer] = (),
    tell: Tell | None = None,
) -> PlannedProgram:
    """Return the native program of a module, which is not changed, with all that is known of it.

    It is compiled also where a cache has the program; kernels come from the cache. `observers` look
    on while passes run, `tell` gets the plans for a limited memory. Raises what `compile_module`
    raises.
    """
    options = for_devices(options or Options(), module)
    start = perf_counter()
    wanted, observed = compiler.PlanOptions.of(options).begun(), 0.0
    if observers and not module.is_scheduled:
        watched = clone_module(module)
        compiler.optimize(watched, wanted, observers)
        observed = perf_counter() - start
        if options.memory is None:
            module, wanted = watched, wanted.at_stage("input")
    found = build(module, cpu_backend(options), wanted, options.memory, progress, tell)
    seconds = dict(found.plan.seconds)
    seconds["passes"] = seconds.get("passes", 0.0) + observed
    if found.budget_seconds:
        seconds["budget"] = found.budget_seconds
    seconds["kernels"] = perf_counter() - start - sum(seconds.values())
    return PlannedProgram(found.program, found.plan, seconds, found.budget, found.base)


def options_of_each_device(options: Options | None = None) -> compiler.PlanOptions:
    """Return the options by which the program of one of several devices is planned.

    What kernels of a processor need while they run is in such plans.
    """
    options = options or Options()
    wanted = compiler.PlanOptions.of(options)
    if is_gpu_target(options.target):
        return wanted
    backend = cpu_backend(options if options.threads else replace(options, threads=1))
    return options_of(backend, backend.kernels(), wanted)


def executable_of(
    compiled: PlannedProgram, options: Options | None = None, given: Module | None = None
) -> Executable:
    """Return what is compiled as an executable, however much memory it needs.

    `given` is the module it was made of, which it is checked with where `options` say so.
    """
    plan = compiled.plan
    form = COMPLETE if spells_constants(compiled.program) else CANONICAL
    base = "" if compiled.base is None else to_text(compiled.base, form)
    making = Making(compiled.seconds)
    budget = {} if compiled.budget is None else {"budget": dict(compiled.budget)}
    told = Description(
        lambda: to_text(plan.module, form),
        lambda: {**plan.report.to_json(), **budget},
        plan.packed.arena_bytes,
        base,
    )
    if plan.late_report.is_made:
        told.complete()
    options = options or Options()
    checked = NOT_KEPT if options.check == "never" else CheckedModules(plan.module, given)
    return Executable(compiled.program, told, options, making, checked)
