"""`lowtide run` in native code: timed, profiled, traced, sanitized."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lowtide.cli.runs import Runs, duration, timed
from lowtide.records import dataclass

if TYPE_CHECKING:
    from lowtide.cli.programs import NamedProgram
    from lowtide.client.executable import Executable
    from lowtide.inspection.profile import Profile
    from lowtide.options import Options


@dataclass(frozen=True, slots=True)
class NativeRequest:
    """How often to run, and what to tell of the runs."""

    repeat: int = 1
    profile: bool = False
    trace: Path | None = None


def native_runs(
    program: NamedProgram, arguments: Any, options: Options, wanted: NativeRequest
) -> Runs:
    """Compile a program if it is not yet, and run it."""
    from lowtide.cli.programs import executable_of
    from lowtide.cli.progress import progress

    executable = executable_of(program, options)
    with progress(f"running {executable.name}"), warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        result, first, seconds = timed(lambda: executable(*arguments), wanted.repeat)
    checked = _CHECKED[options.check]
    threads = executable.program.threads
    document: dict[str, object] = {
        "threads": threads,
        "arena_bytes": executable.arena_bytes,
        "compiling": {
            "was_cached": executable.making.was_cached,
            "seconds": dict(executable.making.seconds),
        },
    }
    tables: list[str] = []
    if wanted.profile or wanted.trace is not None:
        tables += _profiled(executable, arguments, wanted, document)
    return Runs(
        "native",
        result,
        seconds,
        f"native code, {_threads(threads)}, arena of {executable.arena_bytes:,} bytes",
        first if wanted.repeat > 1 else None,
        remarks=[_made(executable), *checked, *[str(x.message) for x in said]],
        tables=tables,
        document=document,
    )


_CHECKED: Final[Mapping[str, Sequence[str]]] = {
    "never": (),
    "first": ("the first call was checked: it computes what the evaluator does",),
    "always": ("each call was checked: it computes what the evaluator does",),
}
"""What is told of runs that were compared with the evaluator, by `Options.check`."""


def _threads(count: int) -> str:
    return f"{count} thread{'' if count == 1 else 's'}"


def _made(executable: Executable) -> str:
    """How the executable came about."""
    making = executable.making
    total = duration(sum(making.seconds.values()))
    if making.was_cached:
        return f"taken from the cache in {total}"
    return f"read in {total}" if "reading" in making.seconds else f"compiled in {total}"


def _profiled(
    executable: Executable, arguments: Any, wanted: NativeRequest, document: dict[str, object]
) -> list[str]:
    """Profile, write the trace, add to the document; return the table's lines."""
    from lowtide.cli import console
    from lowtide.cli.profile_text import profile_json, profile_table
    from lowtide.cli.trace import trace_json
    from lowtide.inspection.peaks import peaks
    from lowtide.inspection.profile import profile

    found: Profile = profile(executable, arguments, wanted.repeat)
    if wanted.trace is not None:
        content = trace_json(executable, found).encode()
        console.write_file(wanted.trace, lambda stream: stream.write(content))
    if not wanted.profile:
        return []
    measured = peaks(executable.program.threads, executable.program.target)
    document["profile"] = profile_json(found, measured)
    return profile_table(found, measured)


# -- sanitized -----------------------------------------------------------------------------------


def sanitized_runs(
    program: NamedProgram, arguments: Any, options: Options, reproducer: Path | None
) -> Runs:
    """Run thunk by thunk under watch.

    Raises SanitizerError at the first fault; before that, a test of it is written to `reproducer`.
    """
    from lowtide.cli.programs import while_compiling
    from lowtide.cli.progress import progress
    from lowtide.client.errors import SanitizerError
    from lowtide.client.executable import check_memory
    from lowtide.client.executable.anew import compile_anew
    from lowtide.inspection.sanitizer import check_program

    if program.executable is not None:
        native, module = program.executable.program, program.module
        needed = program.executable.arena_bytes
    else:
        made = while_compiling(
            program.module, lambda progress: compile_anew(program.module, options, progress)
        )
        native, module = made.program, made.plan.module
        needed = made.plan.report.ladder.arena_bytes
    check_memory(module.name, needed, options.memory)
    try:
        with progress(f"checking {module.name}"):
            found = check_program(native, module, arguments)
    except SanitizerError as error:
        if reproducer is not None:
            _write_reproducer(error, program, native.threads, module, reproducer)
        raise
    skipped = f"; not compared: {', '.join(found.not_compared)}" if found.not_compared else ""
    return Runs(
        "sanitizer",
        found.result,
        [found.seconds],
        f"native code thunk by thunk in an arena of {needed:,} bytes",
        remarks=[
            f"{found.thunks:,} thunks wrote what they must, nothing else, and what the evaluator "
            f"computes{skipped}"
        ],
        document={
            "arena_bytes": needed,
            "thunks": found.thunks,
            "not_compared": list(found.not_compared),
        },
    )


def _write_reproducer(
    error: Any, program: NamedProgram, threads: int, module: Any, path: Path
) -> None:
    from lowtide.cli import console
    from lowtide.cli.progress import progress
    from lowtide.inspection.reproducer import reproducer

    if not error.thunk:
        console.note("no single instruction is at fault: there is no test to write")
        return
    with progress(f"shrinking %{error.thunk}"):
        text, fails = reproducer(module, error.thunk, threads)
    console.write_file(path, lambda stream: stream.write(text.encode()))
    shows = (
        "shows the fault" if fails else "has the instruction; its arguments do not show the fault"
    )
    console.note(f"the test in {path} {shows}")
