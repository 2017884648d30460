"""Objects of many modules: each distinct text compiled once, on several threads, and cached."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Final, TypeAlias

from lowtide.files.object_cache import ObjectCache
from lowtide.llvm.host import host_facts
from lowtide.llvm.machine import (
    CODE_LEVEL,
    COUNTERS,
    PASSES,
    PIPELINE_LEVEL,
    RUNTIME_LEVEL,
    WHOLE_PASSES,
    KernelCompiler,
)
from lowtide.llvm.shipped import shipped_object
from lowtide.llvm.target import Target

if TYPE_CHECKING:
    from lowtide.llvm.isolated import IsolatedCompiler
    from lowtide.native import NativeUnit

    Compiler: TypeAlias = KernelCompiler | IsolatedCompiler

COMMON: Final = "common."
"""What the name of a symbol begins with that is the same in all modules that define it."""

_DEFINITION: Final = re.compile(r"\n(?:define [^@]*)?@([\w.]+)(?:\(| = )")
"""A function or constant that begins a line; ten times as fast as with "^" in its place."""

_SYMBOL: Final = re.compile(r"@([\w.]+)")


def with_unique_names(text: str, separator: str = ".") -> tuple[str, str]:
    """Return a module whose symbols end with a fingerprint of its text, and that ending.

    Equal modules stay equal, and symbols of different ones never clash; `COMMON` ones are left as
    they are. The ending begins with the separator.
    """
    digest = separator + hashlib.sha256(text.encode()).hexdigest()[:16]
    names = {x for x in _DEFINITION.findall(f"\n{text}") if not x.startswith(COMMON)}

    def renamed(match: re.Match[str]) -> str:
        name = match[1]
        return f"@{name}{digest}" if name in names else match[0]

    return _SYMBOL.sub(renamed, text), digest


def compile_modules(
    texts: Sequence[str],
    target: Target,
    cached: ObjectCache,
    threads: int = 0,
    progress: Callable[[int, int], None] | None = None,
    *,
    whole: bool = False,
    isolated: bool = False,
) -> list[bytes]:
    """Return the object of each module; `threads` is how many compile at once, 0 for all cores.

    `progress` is told how many of the modules that had to be compiled are done. With `whole` each
    is optimized as a whole, as `KernelCompiler.object_code` does. Raises CodeError; with `isolated`
    CompilerEndedError where LLVM would end this process.
    """
    keys = [fingerprint(f"; whole\n{text}" if whole else text, target) for text in texts]
    found: dict[str, bytes] = {}
    missing: dict[str, str] = {}
    for key, text in zip(keys, texts, strict=True):
        if key in found or key in missing:
            continue
        known = cached.get(key)
        if known is None:
            missing[key] = text
        else:
            found[key] = known
    if missing:
        idle = _idle_machines(target, isolated)
        _compile(missing, idle, cached, threads, found, progress, whole)
    return [found[key] for key in keys]


@cache
def common_object(text: str, target: Target, cached: ObjectCache, isolated: bool) -> bytes:
    """Return the object of a module that many programs have; a process keeps each."""
    return compile_modules([text], target, cached, isolated=isolated)[0]


def unit_object(unit: NativeUnit, target: Target, cached: ObjectCache) -> bytes:
    """Return the object of a unit of native code: as it was shipped, kept, or made anew."""
    sources = unit.sources
    shipped = shipped_object(unit, target, sources)
    if shipped is not None:
        return shipped
    key = fingerprint(f"; unit, level {RUNTIME_LEVEL}\n{sources}", target)
    code = cached.get(key)
    if code is None:
        code = compiled_unit(unit, target)
        cached.put(key, code)
    return code


def compiled_unit(unit: NativeUnit, target: Target) -> bytes:
    """Return the object of a unit of native code, made anew."""
    return KernelCompiler(target, RUNTIME_LEVEL).object_code(unit.text(target.triple))


def _compile(
    missing: dict[str, str],
    idle: _IdleMachines,
    cached: ObjectCache,
    threads: int,
    found: dict[str, bytes],
    progress: Callable[[int, int], None] | None,
    whole: bool,
) -> None:
    queue = sorted(missing.items(), key=lambda item: (len(item[1]), item[0]))

    def work(machine: Compiler) -> None:
        while queue:
            try:
                key, text = queue.pop()
            except IndexError:
                return
            code = machine.object_code(text, whole=whole)
            cached.put(key, code)
            found[key] = code
            if progress is not None:
                progress(len(missing) - len(queue), len(missing))

    count = min(threads or len(os.sched_getaffinity(0)), len(queue))
    machines = [idle.taken() for _ in range(count)]
    try:
        if count == 1:
            work(machines[0])
            return
        from concurrent.futures import ThreadPoolExecutor  # What a cache has loads nothing.

        with ThreadPoolExecutor(count) as pool:
            for done in [pool.submit(work, machine) for machine in machines]:
                done.result()
    finally:
        idle.machines += machines


class _IdleMachines:
    """The machines that no compilation uses; several threads of Python may compile at once."""

    def __init__(self, target: Target, kind: Callable[[Target], Compiler]) -> None:
        self._target, self._kind = target, kind
        self.machines: list[Compiler] = []

    def taken(self) -> Compiler:
        try:
            return self.machines.pop()
        except IndexError:
            return self._kind(self._target)


@cache
def _idle_machines(target: Target, isolated: bool) -> _IdleMachines:
    if not isolated:
        return _IdleMachines(target, KernelCompiler)
    from lowtide.llvm.isolated import IsolatedCompiler  # Other programs load nothing.

    return _IdleMachines(target, IsolatedCompiler)


def fingerprint(text: str, target: Target) -> str:
    """Return the key of a module's object: text, target, versions and passes."""
    return hashlib.sha256(f"{environment(target)}\n{text}".encode()).hexdigest()[:40]


@cache
def environment(target: Target) -> str:
    """Return what besides a module's text decides about its object."""
    machine = f"{target.triple} {target.cpu} {target.feature_string}"
    passes = f"{PASSES} {WHOLE_PASSES} {PIPELINE_LEVEL} {CODE_LEVEL} {COUNTERS}"
    return f"{host_facts().versions} {machine} {passes}"
