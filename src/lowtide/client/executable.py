"""Compiled programs as users hold them: callable, with their memory report and scheduled HLO."""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from time import perf_counter
from typing import Any, Final, final

from lowtide import compiler
from lowtide.backends.build import build
from lowtide.backends.cpu import CpuBackend
from lowtide.client.errors import OverMemoryError
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import Module, Opcode
from lowtide.ir.attributes import Constant
from lowtide.ir.clone import clone_module
from lowtide.ir.errors import InputError
from lowtide.ir.literal import Literal
from lowtide.ir.printer import CANONICAL, COMPLETE, to_text
from lowtide.llvm.cache import ObjectCache
from lowtide.llvm.objects import environment
from lowtide.llvm.target import Target, host_target, restricted
from lowtide.options import Options, cache_folder
from lowtide.passes import Observer
from lowtide.runtime.cpu.call import CallOptions
from lowtide.runtime.cpu.call import LinkedExecutable as Callee
from lowtide.runtime.cpu.profile import Span
from lowtide.runtime.cpu.program import NativeProgram
from lowtide.runtime.cpu.serial import deserialize, serialize
from lowtide.tuning.tuner import Tuner

MAGIC: Final = b"lowtide executable 3\n"
"""What the bytes of an executable begin with: then a SHA-256 of the length of the header and the
header, these two, and the program, which has a sum of its own."""

_SUM_BYTES: Final = 32

Progress = Callable[[int, int], None]
"""Is told how many kernels are compiled, and of how many."""


@dataclass(frozen=True, slots=True)
class Making:
    """How an executable came about: wall seconds by stage, in order, and whether from the cache."""

    seconds: Mapping[str, float] = field(default_factory=dict)
    was_cached: bool = False


@final
class Executable:
    """A program in native code, which several threads may call at once."""

    def __init__(
        self,
        program: NativeProgram,
        text: str,
        memory: Mapping[str, Any],
        options: Options,
        making: Making | None = None,
        base: str = "",
    ) -> None:
        self._program = program
        self._text = text
        self._base = base  # the module within whose budget this one is, if there is a bound for it
        self._memory = memory
        start = perf_counter()
        self._callee = Callee(program, _compile_object, CallOptions(huge_pages=options.huge_pages))
        making = making or Making()
        linked = {"linking": perf_counter() - start}
        self.making = Making({**making.seconds, **linked}, making.was_cached)
        """How it came about in this process."""

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
        """What a call needs, in the schema "lowtide.memory/1"; sizes in bytes.

        Its `seconds` are those of `making`.
        """
        found: dict[str, Any] = json.loads(json.dumps(self._memory))
        return {**found, "seconds": dict(self.making.seconds)}

    @property
    def arena_bytes(self) -> int:
        """The bytes that a call needs beyond its arguments."""
        return int(self._memory["ladder"]["arena_bytes"])

    @property
    def name(self) -> str:
        """The name of the module."""
        return self._program.name

    @property
    def program(self) -> NativeProgram:
        """The thunks, kernels and machine code."""
        return self._program

    @cached_property
    def module(self) -> Module:
        """The scheduled module that runs, read back from its text."""
        return parse_hlo(self._text)

    @property
    def certificate(self) -> dict[str, Any]:
        """What is proved about the order of `module` and an arena for it, made anew each time.

        It is of schema "lowtide.certificate/2", and counts no memory that kernels need while they
        run: `memory` does, in `scratch_bytes`. Where instructions run again to keep to a budget, it
        is also proved how long that takes at least; not for variants.
        """
        from lowtide.budgeting.certificates import certify_within
        from lowtide.compiler.certificates import certify

        if not self._base:
            return certify(self.module)
        return certify_within(parse_hlo(self._base), self.module, self._memory["budget"]["bytes"])

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
        """Return the executable as bytes, for `deserialize` on a processor of the same kind.

        Equal programs give equal bytes: times are not in them.
        """
        memory = {**self._memory, "seconds": {}}
        known = {"text": self._text, "memory": memory, "base": self._base}
        header = json.dumps(known).encode()
        counted = struct.pack("<Q", len(header)) + header
        return b"".join([MAGIC, _sum(counted), counted, serialize(self._program)])


def _sum(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def deserialize_executable(
    source: bytes | bytearray | memoryview | str | os.PathLike[str], options: Options | None = None
) -> Executable:
    """Return the executable that `serialize` made bytes of, from these or from a file of them.

    It is machine code, to be taken from whom one trusts. Raises InputError for anything else, and
    for one that this processor cannot run; OverMemoryError as `compile_module` does.
    """
    start = perf_counter()
    options = options or Options()
    if isinstance(source, bytes | bytearray | memoryview):
        stored = _opened(bytes(source))
    else:
        stored = _read(Path(source))
    making = Making({"reading": perf_counter() - start})
    return _within_memory(stored.executable(options, making), options)


@dataclass(frozen=True, slots=True)
class _Stored:
    """What an executable is stored as."""

    program: NativeProgram
    text: str
    memory: Any
    base: str

    def executable(self, options: Options, making: Making) -> Executable:
        return Executable(self.program, self.text, self.memory, options, making, self.base)


def _read(path: Path) -> _Stored:
    try:
        return _opened(path.read_bytes())
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(f"cannot be read: {reason}", file=str(path)) from error
    except InputError as error:
        raise InputError(error.message, file=str(path)) from None


def _opened(data: bytes) -> _Stored:
    """The program, the text of its module, its memory, and the text of what bounds are about."""
    if not data.startswith(MAGIC):
        raise InputError("is no executable of this version of lowtide")
    begin = len(MAGIC) + _SUM_BYTES
    start = begin + 8
    try:
        (length,) = struct.unpack_from("<Q", data, begin)
        if _sum(data[begin : start + length]) != data[len(MAGIC) : begin]:
            raise ValueError
        header = json.loads(data[start : start + length])
        text, memory, base = str(header["text"]), header["memory"], str(header["base"])
        int(memory["ladder"]["arena_bytes"])
    except (struct.error, ValueError, KeyError, TypeError):
        raise InputError("is a damaged executable: its header cannot be read") from None
    program = deserialize(memoryview(data)[start + length :])
    program.check_host()
    return _Stored(program, text, memory, base)


def compile_module(
    module: Module, options: Options | None = None, progress: Progress | None = None
) -> Executable:
    """Return a module, which is not changed, as a program in native code.

    It is taken from the cache where it was compiled before, without a deadline. Where it needs more
    than `options.memory`, instructions run again to fit. Raises UnsupportedOpError for an operation
    without native code, OverMemoryError where no plan is known to fit, and what `compiler.plan`
    raises.
    """
    options = options or Options()
    start = perf_counter()
    programs = _cache("programs", options)
    for wanted in dict.fromkeys((replace(options, memory=None), options)):
        known = _known(programs.get(_key(module, wanted, _target(options))))
        if known is not None and _fits(known.memory, options.memory):
            making = Making({"cache": perf_counter() - start}, was_cached=True)
            return known.executable(options, making)
    made = executable_of(compile_anew(module, options, progress), options)
    if options.deadline is None:
        programs.put(_key(module, options, _target(options)), made.serialize())
    return _within_memory(made, options)


def _known(data: bytes | None) -> _Stored | None:
    """What a cache has, None for nothing or something damaged."""
    if data is None:
        return None
    try:
        return _opened(data)
    except InputError:
        return None


def _fits(memory: Any, most: int | None) -> bool:
    return most is None or int(memory["ladder"]["arena_bytes"]) <= most


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
) -> PlannedProgram:
    """Return the native program of a module, which is not changed, with all that is known of it.

    It is compiled also where a cache has the program; kernels come from the cache. `observers` look
    on while passes run. Raises what `compile_module` raises.
    """
    options = options or Options()
    start = perf_counter()
    wanted, observed = compiler.PlanOptions.of(options).begun(), 0.0
    if observers and not module.is_scheduled:
        watched = clone_module(module)
        compiler.optimize(watched, wanted, observers)
        observed = perf_counter() - start
        if options.memory is None:
            module, wanted = watched, wanted.at_stage("input")
    backend = CpuBackend(
        options.thread_count, _target(options), _cache("objects", options), _tuner(options)
    )
    found = build(module, backend, wanted, options.memory, progress)
    seconds = dict(found.plan.report.seconds)
    seconds["passes"] = seconds.get("passes", 0.0) + observed
    if found.budget_seconds:
        seconds["budget"] = found.budget_seconds
    seconds["kernels"] = perf_counter() - start - sum(seconds.values())
    return PlannedProgram(found.program, found.plan, seconds, found.budget, found.base)


def executable_of(compiled: PlannedProgram, options: Options | None = None) -> Executable:
    """Return what is compiled as an executable, however much memory it needs."""
    plan = compiled.plan
    complete = sum([values.nbytes for _, values in compiled.program.constants]) <= _SPELLED_BYTES
    form = COMPLETE if complete else CANONICAL
    text = to_text(plan.module, form)
    base = "" if compiled.base is None else to_text(compiled.base, form)
    making = Making(compiled.seconds)
    budget = {} if compiled.budget is None else {"budget": dict(compiled.budget)}
    memory = {**plan.report.to_json(), **budget}
    return Executable(compiled.program, text, memory, options or Options(), making, base)


_SPELLED_BYTES: Final = 1 << 20
"""The text of a module with more bytes of constants leaves the values of large ones out."""


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


# -- what is kept --------------------------------------------------------------------------------


def _target(options: Options) -> Target:
    return restricted(host_target(), options.target)


def _tuner(options: Options) -> Tuner | None:
    if not options.autotune:
        return None
    objects, times = _cache("objects", options), _cache("times", options)
    return Tuner(_target(options), options.thread_count, objects, times)


def _cache(kind: str, options: Options) -> ObjectCache:
    return _cache_in(cache_folder() / kind if options.cache else None)


@cache
def _cache_in(folder: Path | None) -> ObjectCache:
    return ObjectCache(folder)


def _compile_object(text: str) -> bytes:
    """The object of the runtime itself, which is the same for all programs."""
    from lowtide.llvm.objects import compile_modules

    (code,) = compile_modules([text], host_target(), _cache("objects", Options()), 1)
    return code


def _key(module: Module, options: Options, target: Target) -> str:
    """What decides about a program: the module, what is asked for, and who compiles."""
    digest = hashlib.sha256()
    for part in (
        to_text(module),
        f"{options.stage} {options.effort} {options.thread_count}",
        f"tuned {options.autotune} within {options.memory} for {options.memory_priority}",
        environment(target),
        _code_version(),
    ):
        digest.update(f"{part}\n".encode())
    for computation in module.computations.values():
        for x in computation.instructions.values():
            if x.opcode is Opcode.CONSTANT:
                digest.update(_constant_bytes(x.attributes_as(Constant).literal))
    return digest.hexdigest()[:40]


def _constant_bytes(literal: Literal) -> bytes:
    if literal.shape.is_array:
        return literal.array.tobytes()
    return literal.text(large=True).encode()


@cache
def _code_version() -> str:
    """A fingerprint of this package: another version may compile otherwise."""
    root = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        status = path.stat()
        digest.update(f"{path.relative_to(root)} {status.st_size} {status.st_mtime_ns}\n".encode())
    return digest.hexdigest()
