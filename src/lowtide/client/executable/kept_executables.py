"""Executables that the cache has, by their keys: no module and no compiler is loaded."""

from __future__ import annotations

from time import perf_counter

from lowtide.backends.kept import kept
from lowtide.client.executable.executable import Executable, Making
from lowtide.client.executable.stored import StoredProgram, open_program
from lowtide.ir.errors import InputError
from lowtide.options import Options


def kept_executable(key: str, options: Options) -> Executable | None:
    """Return the program of a key, whose calls are not checked; None where there is none."""
    start = perf_counter()
    found = opened(kept("programs", options).get(key))
    if found is None:
        return None
    making = Making({"cache": perf_counter() - start}, was_cached=True, key=key)
    return Executable(found.program, found.text, found.memory, options, making, found.base)


def opened(data: bytes | None) -> StoredProgram | None:
    """Return what a cache has, which sees to it that it is ours; None for nothing, or damaged."""
    if data is None:
        return None
    try:
        return open_program(data, None)
    except InputError:
        return None
