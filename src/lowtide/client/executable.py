"""Compiled programs as users hold them: callable, with their memory report and scheduled HLO."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, final

from lowtide import native
from lowtide.ir import LowtideError, Module
from lowtide.ir.errors import InputError
from lowtide.ir.printer import COMPLETE, to_text
from lowtide.llvm.cache import ObjectCache
from lowtide.llvm.objects import environment
from lowtide.llvm.target import Target, host_target, restricted
from lowtide.options import Options, cache_folder
from lowtide.planning.search import SearchOptions, effort_named
from lowtide.runtime.call import CallOptions
from lowtide.runtime.call import Executable as Callee
from lowtide.runtime.profile import Span
from lowtide.runtime.program import NativeProgram
from lowtide.runtime.serial import deserialize, serialize

MAGIC: Final = b"lowtide executable 1\n"

Progress = Callable[[int, int], None]
"""Is told how many kernels are compiled, and of how many."""


class OverMemoryError(LowtideError):
    """A program needs more memory than it may; nothing was run."""


@final
class Executable:
    """A program in native code, which several threads may call at once."""

    def __init__(
        self, program: NativeProgram, text: str, memory: Mapping[str, Any], options: Options
    ) -> None:
        self._program = program
        self._text = text
        self._memory = memory
        self._callee = Callee(program, _compile_object, CallOptions(huge_pages=options.huge_pages))

    def __call__(self, *arrays: Any, consume: bool = False) -> Any:
        """Return the results for the leaves of the parameters, depth first, as new arrays.

        They are nested as the root's shape is. No argument is written to, but with `consume` those
        that the module aliases to results are overwritten, and become these. Raises InputError
        where an argument does not fit, and OutOfMemoryError where the system has no memory left.
        """
        return self._callee(*arrays, consume=consume)

    execute = __call__

    @property
    def memory(self) -> dict[str, Any]:
        """What a call needs, in the schema "lowtide.memory/1"; sizes in bytes."""
        found: dict[str, Any] = json.loads(json.dumps(self._memory))
        return found

    @property
    def name(self) -> str:
        """The name of the module."""
        return self._program.name

    @property
    def program(self) -> NativeProgram:
        """The thunks, kernels and machine code."""
        return self._program

    def as_text(self) -> str:
        """Return the scheduled HLO that runs."""
        return self._text

    def profile(self, *arrays: Any) -> tuple[Any, tuple[Span, ...]]:
        """Return the results, and when each thunk ran; they run one after the other then."""
        return self._callee.profile(*arrays)

    def release_memory(self) -> None:
        """Give the memory that is kept for later calls back to the system."""
        self._callee.empty()

    def serialize(self) -> bytes:
        """Return the executable as bytes, for `deserialize` on a processor of the same kind."""
        header = json.dumps({"text": self._text, "memory": self._memory}).encode()
        return b"".join([MAGIC, struct.pack("<Q", len(header)), header, serialize(self._program)])


def deserialize_executable(data: bytes, options: Options | None = None) -> Executable:
    """Return the executable that `serialize` made bytes of.

    Raises InputError for anything else, and for one that this processor cannot run.
    """
    if not data.startswith(MAGIC):
        raise InputError("is no executable of this version of lowtide")
    start = len(MAGIC) + 8
    try:
        (length,) = struct.unpack_from("<Q", data, len(MAGIC))
        header = json.loads(data[start : start + length])
        text, memory = header["text"], header["memory"]
    except (struct.error, ValueError, KeyError, TypeError):
        raise InputError("is a damaged executable: its header cannot be read") from None
    program = deserialize(data[start + length :])
    return Executable(program, text, memory, options or Options())


def compile_module(
    module: Module, options: Options | None = None, progress: Progress | None = None
) -> Executable:
    """Return a module, which is not changed, as a program in native code.

    Raises UnsupportedOpError for an operation without native code, OverMemoryError where a call
    would need more than `options.memory`, and what `compiler.plan` raises.
    """
    options = options or Options()
    found = _compiled(module, options, progress)
    needed = found.memory["ladder"]["arena_bytes"]
    if options.memory is not None and needed > options.memory:
        raise OverMemoryError(
            f"{module.name} needs {needed:,} bytes beyond its arguments, more than the "
            f"{options.memory:,} that it may use; nothing was run"
        )
    return found


def _compiled(module: Module, options: Options, progress: Progress | None) -> Executable:
    folder = cache_folder() if options.cache else None
    programs = ObjectCache(None if folder is None else folder / "programs")
    target = restricted(host_target(), options.target)
    key = _key(module, options, target)
    known = programs.get(key)
    if known is not None:
        try:
            return deserialize_executable(known, options)
        except InputError:
            known = None
    compiled = native.compile_module(
        module,
        options.stage,
        threads=options.thread_count,
        target=target,
        cached=_objects(options.cache),
        search=SearchOptions(effort_named(options.effort)),
        progress=progress,
    )
    plan = compiled.plan
    text = to_text(plan.module, COMPLETE)
    made = Executable(compiled.program, text, plan.report.to_json(), options)
    programs.put(key, made.serialize())
    return made


@cache
def _objects(is_kept: bool) -> ObjectCache:
    return ObjectCache(cache_folder() / "objects" if is_kept else None)


def _compile_object(text: str) -> bytes:
    """The object of the runtime itself, which is the same for all programs."""
    from lowtide.llvm.objects import compile_modules

    (code,) = compile_modules([text], host_target(), _objects(True), 1)
    return code


def _key(module: Module, options: Options, target: Target) -> str:
    """What decides about a program: the module, what is asked for, and who compiles."""
    parts = (
        to_text(module, COMPLETE),
        f"{options.stage} {options.effort} {options.thread_count}",
        environment(target),
        _code_version(),
    )
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:40]


@cache
def _code_version() -> str:
    """A fingerprint of this package: another version may compile otherwise."""
    root = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        status = path.stat()
        digest.update(f"{path.relative_to(root)} {status.st_size} {status.st_mtime_ns}\n".encode())
    return digest.hexdigest()
