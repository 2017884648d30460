"""From a module to an executable: from the cache, from bytes, or compiled anew.

A program that the cache has is ready without a compiler: no pass and no LLVM is loaded.
"""

from __future__ import annotations

import os
from dataclasses import replace
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from lowtide.backends.kept import environment_of, kept
from lowtide.client.errors import OverMemoryError
from lowtide.client.executable.executable import (
    NOT_KEPT,
    CheckedModules,
    Executable,
    Making,
    described,
    spells_constants,
)
from lowtide.client.executable.keys import module_digest, program_key
from lowtide.client.executable.stored import StoredProgram, open_program, opened, read_program
from lowtide.files.module_files import keep_together, read_together
from lowtide.files.signing import signing_key
from lowtide.ir import Module
from lowtide.ir.clone import clone_module
from lowtide.ir.errors import InputError, LowtideError, check_class
from lowtide.ir.garbage_collection import count_as_lasting, without_collection
from lowtide.ir.gpu_names import is_gpu_target
from lowtide.options import BUDGET_SECONDS, Options, cache_folder

if TYPE_CHECKING:
    from lowtide.backends.interface import Progress, Tell
    from lowtide.ir.sizes import Budget


def deserialize_executable(
    source: bytes | bytearray | memoryview | str | os.PathLike[str],
    options: Options | None = None,
    *,
    trust: bool = False,
) -> Executable:
    """Return the executable that `serialize` made bytes of, from these or from a file of them.

    It is machine code, which may do anything once it runs: with `trust` it may be of anyone. Raises
    UntrustedProgramError for one that is not known to be this user's, InputError for anything else,
    and for one that this processor cannot run; OverMemoryError as `compile_module` does. A
    memory is given in bytes: what a share is one of is not known any more.
    """
    start = perf_counter()
    options = Options() if options is None else options
    check_class(options, Options)
    if options.memory is not None and not isinstance(options.memory, int):
        raise InputError(
            f"a memory of {options.memory} is a share of the plan without a budget, which is not "
            "known of a compiled program; give it in bytes, such as 512MiB"
        )
    key = None if trust else signing_key(cache_folder())
    if isinstance(source, bytes | bytearray | memoryview):
        stored = open_program(bytes(source), key)
    else:
        stored = read_program(Path(source), key)
    making = Making({"reading": perf_counter() - start})
    return _within_memory(_executable(stored, options, making), options)


def _executable(
    stored: StoredProgram, options: Options, making: Making, checked: CheckedModules = NOT_KEPT
) -> Executable:
    told = described(stored.text, stored.memory, stored.base)
    return Executable(stored.program, told, options, making, checked)


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
    options = for_devices(options or Options(), module)
    if is_gpu_target(options.target):
        raise LowtideError(
            f"{options.target}: programs of a GPU are made by lowtide.compile, lowtide.jit and "
            "lowtide run; all else runs on processors"
        )
    if module.num_partitions > 1:
        from lowtide.client.executable.device_parts import device_parts

        parts = device_parts(module)
        if parts.has_whole_arrays:
            own = compile_module(parts.module, options, progress, tell)
            return own.for_whole_arrays(parts)
    given = None if options.check == "never" else clone_module(module)
    programs = kept("programs", options)
    is_kept = programs.folder is not None
    digest = module_digest(module) if is_kept else ""
    known = known_program(digest, options, given) if is_kept else None
    if known is not None:
        keep_together("lowtide")
        return known
    _load_compiler()
    from lowtide.client.executable.anew import compile_anew, executable_of

    made = executable_of(compile_anew(module, options, progress, tell=tell), options, given)
    if is_kept and options.deadline is None and not made.program.python_call:
        key = program_key(digest, options, environment_of(options))
        programs.put(key, made.serialize())
        made.making = Making(made.making.seconds, key=key)
    keep_together("lowtide")
    return _within_memory(made, options)


@cache
def _load_compiler() -> None:
    """Load what compiles, which stays loaded."""
    read_together("lowtide", "compiling")
    import lowtide.client.executable.anew  # noqa: F401

    count_as_lasting()


def known_program(module: str, options: Options, given: Module | None = None) -> Executable | None:
    """Return a module for one device as the cache has it by its digest, None where it has not.

    `given` is the module that calls are checked with.
    """
    start = perf_counter()
    programs, environment = kept("programs", options), environment_of(options)
    for wanted in dict.fromkeys((replace(options, memory=None), options)):
        key = program_key(module, wanted, environment)
        known = opened(programs.get(key))
        if given is not None and known is not None and not spells_constants(known.program):
            known = None
        if known is not None and _does(known.memory, options):
            making = Making({"cache": perf_counter() - start}, was_cached=True, key=key)
            return _executable(known, options, making, CheckedModules(given=given))
    return None


def executable_of_bytes(data: bytes, options: Options, making: Making) -> Executable:
    """Return the executable that a process of this one's has compiled within its options."""
    return _executable(open_program(data, None), options, making)


def _does(memory: Any, options: Options) -> bool:
    """Whether the program of a report fits, and no longer search for a better one is asked for."""
    arena, seconds = int(memory["ladder"]["arena_bytes"]), options.deadline
    most = options.memory
    if most is not None and not isinstance(most, int):
        most = int(memory["budget"]["bytes"]) if "budget" in memory else most.of(arena)
    if most is not None and arena > most:
        return False
    if seconds is None or seconds <= BUDGET_SECONDS:
        return True
    from lowtide.compiler.reporting import was_cut_short

    return not was_cut_short(memory)


def _within_memory(executable: Executable, options: Options) -> Executable:
    check_memory(executable.name, executable.arena_bytes, options.memory)
    return executable


def check_memory(name: str, needed: int, most: Budget | None) -> None:
    """Raise OverMemoryError where a program needs more bytes than `most`, None for any number.

    Whoever compiles for a share has made sure of that: it is no number of bytes by itself.
    """
    if isinstance(most, int) and needed > most:
        raise OverMemoryError(
            f"{name} needs {needed:,} bytes beyond its arguments, more than the {most:,} that it "
            "may use; nothing was run"
        )


def for_devices(options: Options, module: Module) -> Options:
    """Return options for a module: one thread a device of several, unless they say otherwise.

    Raises InputError where calls on several devices are to be checked.
    """
    if module.replica_count * module.num_partitions == 1:
        return options
    if options.check != "never":
        raise InputError(
            f"{module.name} runs on several devices, and calls are checked on one only: leave out "
            "check; `lowtide run --sanitize` checks each step on all devices"
        )
    return options if options.threads else replace(options, threads=1)
