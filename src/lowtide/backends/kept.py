"""Stores kept between processes, and programs out of them made ready: no compiler is loaded."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from lowtide.files.object_cache import ObjectCache
from lowtide.llvm.host import are_facts_kept, keep_facts
from lowtide.llvm.objects import environment, unit_object
from lowtide.llvm.target import Target, host_target, restricted
from lowtide.native import NativeUnit
from lowtide.options import Options, cache_folder, is_cache_off
from lowtide.runtime.cpu.call import CallOptions, LinkedExecutable
from lowtide.runtime.cpu.program import NativeProgram


def target_of(options: Options) -> Target:
    """Return the processor that options ask for."""
    return restricted(host_target(), options.target)


def environment_of(options: Options) -> str:
    """Return what besides a module and its options decides about a program."""
    return environment(target_of(options))


def is_environment_known() -> bool:
    """Whether `environment_of` tells without that LLVM is loaded."""
    return are_facts_kept()


def kept(kind: str, options: Options) -> ObjectCache:
    """Return what is kept between processes of one kind; nothing where the cache is off."""
    is_on = options.cache and not is_cache_off()
    return _kept_in(cache_folder() if is_on else None, kind)


@cache
def _kept_in(folder: Path | None, kind: str) -> ObjectCache:
    return ObjectCache(folder and folder / kind)


keep_facts(lambda: kept("hosts", Options()))


def linked(program: NativeProgram, options: Options) -> LinkedExecutable:
    """Return a program in memory, ready to be called; the runtime's own code may be compiled."""
    how = CallOptions(options.huge_pages, without_denormals=options.denormals == "zero")
    return LinkedExecutable(program, _unit_object, how)


def _unit_object(unit: NativeUnit) -> bytes:
    """The object of the runtime itself, which is the same for all programs."""
    return unit_object(unit, host_target(), kept("objects", Options()))
