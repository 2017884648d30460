"""From a module to an executable: from the cache, from bytes, or compiled anew."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

from lowtide import compiler
from lowtide.backends.build import build
from lowtide.backends.cpu import cpu_backend, kept
from lowtide.backends.interface import Progress, Tell
from lowtide.client.errors import OverMemoryError
from lowtide.client.executable.executable import (
    NOT_KEPT,
    CheckedModules,
    Executable,
    Making,
    spells_constants,
)
from lowtide.client.executable.keys import program_key
from lowtide.client.executable.stored import StoredProgram, open_program, read_program
from lowtide.compiler.reporting import was_cut_short
from lowtide.files.signing import signing_key
from lowtide.ir import Module
from lowtide.ir.clone import clone_module
from lowtide.ir.errors import InputError
from lowtide.ir.garbage_collection import without_collection
from lowtide.ir.printer import CANONICAL, COMPLETE, to_text
from lowtide.options import BUDGET_SECONDS, Options, cache_folder
from lowtide.passes import Observer
from lowtide.records import dataclass
from lowtide.runtime.cpu.program import NativeProgram


def deserialize_executable(
    source: bytes | bytearray | memoryview | str | os.PathLike[str],
    options: Options | None = None,
    *,
    trust: bool = False,
) -> Executable:
    """Return the executable that `serialize` made bytes of, from these or from a file of them.

    It is machine code, which may do anything once it runs: with `trust` it may be of anyone. Raises
    UntrustedProgramError for one that is not known to be this user's, InputError for anything else,
    and for one that this processor cannot run; OverMemoryError as `compile_module` does.
    """
    start = perf_counter()
    options = options or Options()
    key = None if trust else signing_key(cache_folder())
    if isinstance(source, bytes | bytearray | memoryview):
        stored = open_program(bytes(source), key)
    else:
        stored = read_program(Path(source), key)
    making = Making({"reading": perf_counter() - start})
    return _within_memory(_executable(stored, options, making), options)


def _executable(
    stored: StoredProgram,
    options: Options,
    making: Making,
    checked: CheckedModules = NOT_KEPT,
) -> Executable:
    parts = stored.program, stored.text, stored.memory, options, making, stored.base
    return Executable(*parts, checked)


@without_collection()
def compile_module(
    module: Module,
    options: Options | None = None,
    progress: Progress | None = None,
    tell: Tell | None = None,
) -> Executable:
    """Return a module, which is not changed, as a program in native code.

    It is taken from the cache where it was compiled before, without a deadline of its own. Where it
    needs more than `options.memory`, instructions run again to fit; `tell` gets plans for that. One
    with shardings is partitioned, and the program takes whole arrays.
    Raises UnsupportedOpError for an operation without native code, OverMemoryError where no plan is
    known to fit, and what `compiler.plan` raises.
    """
    options = _for_devices(options or Options(), module)
    if module.num_partitions > 1:
        from lowtide.client.executable.device_parts import device_parts

        parts = device_parts(module)
        if parts.has_whole_arrays:
            own = compile_module(parts.module, options, progress, tell)
            return own.for_whole_arrays(parts)
    start = perf_counter()
    programs, environment = kept("programs", options), cpu_backend(options).environment
    given = None if options.check == "never" else clone_module(module)
    for wanted in dict.fromkeys((replace(options, memory=None), options)):
        known = _known(programs.get(program_key(module, wanted, environment)))
        if given is not None and known is not None and not spells_constants(known.program):
            known = None
        if known is not None and _does(known.memory, options):
            making = Making({"cache": perf_counter() - start}, was_cached=True)
            return _executable(known, options, making, CheckedModules(given=given))
    made = executable_of(compile_anew(module, options, progress, tell=tell), options, given)
    if options.deadline is None and not made.program.python_call:
        programs.put(program_key(module, options, environment), made.serialize())
    return _within_memory(made, options)


def _for_devices(options: Options, module: Module) -> Options:
    """Options for a module of several devices: one thread for each, unless they say otherwise."""
    if module.replica_count * module.num_partitions == 1:
        return options
    if options.check != "never":
        raise InputError(
            f"{module.name} runs on several devices, and calls are checked on one only: leave out "
            "check; `lowtide run --sanitize` checks each step on all devices"
        )
    return options if options.threads else replace(options, threads=1)


def _known(data: bytes | None) -> StoredProgram | None:
    """What a cache has, which sees to it that it is ours; None for nothing or what is damaged."""
    if data is None:
        return None
    try:
        return open_program(data, None)
    except InputError:
        return None


def _does(memory: Any, options: Options) -> bool:
    """Whether the program of a report fits, and no longer search for a better one is asked for."""
    most, seconds = options.memory, options.deadline
    if most is not None and int(memory["ladder"]["arena_bytes"]) > most:
        return False
    is_longer = seconds is not None and seconds > BUDGET_SECONDS
    return not (is_longer and was_cut_short(memory))


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
    options = _for_devices(options or Options(), module)
    start = perf_counter()
    wanted, observed = compiler.PlanOptions.of(options).begun(), 0.0
    if observers and not module.is_scheduled:
        watched = clone_module(module)
        compiler.optimize(watched, wanted, observers)
        observed = perf_counter() - start
        if options.memory is None:
            module, wanted = watched, wanted.at_stage("input")
    found = build(module, cpu_backend(options), wanted, options.memory, progress, tell)
    seconds = dict(found.plan.report.seconds)
    seconds["passes"] = seconds.get("passes", 0.0) + observed
    if found.budget_seconds:
        seconds["budget"] = found.budget_seconds
    seconds["kernels"] = perf_counter() - start - sum(seconds.values())
    return PlannedProgram(found.program, found.plan, seconds, found.budget, found.base)


def executable_of(
    compiled: PlannedProgram, options: Options | None = None, given: Module | None = None
) -> Executable:
    """Return what is compiled as an executable, however much memory it needs.

    `given` is the module it was made of, which it is checked with where `options` say so.
    """
    plan = compiled.plan
    form = COMPLETE if spells_constants(compiled.program) else CANONICAL
    text = to_text(plan.module, form)
    base = "" if compiled.base is None else to_text(compiled.base, form)
    making = Making(compiled.seconds)
    budget = {} if compiled.budget is None else {"budget": dict(compiled.budget)}
    memory = {**plan.report.to_json(), **budget}
    options = options or Options()
    checked = NOT_KEPT if options.check == "never" else CheckedModules(plan.module, given)
    return Executable(compiled.program, text, memory, options, making, base, checked)


def _within_memory(executable: Executable, options: Options) -> Executable:
    check_memory(executable.name, executable.arena_bytes, options.memory)
    return executable


def check_memory(name: str, needed: int, most: int | None) -> None:
    """Raise OverMemoryError where a program needs more bytes than `most`, None for any number."""
    if most is not None and needed > most:
        raise OverMemoryError(
            f"{name} needs {needed:,} bytes beyond its arguments, more than the {most:,} that it "
            "may use; nothing was run"
        )
