"""`lowtide compile`: a module to native code."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lowtide.cli.arguments import (
    DeadlineOption,
    DumpPassOption,
    JsonOption,
    MemoryOption,
    ModuleArgument,
    ThreadsOption,
    option,
    taking,
)
from lowtide.cli.shapes import ShapesOption, SizesOption
from lowtide.records import dataclass

if TYPE_CHECKING:
    from lowtide.cli.arguments import Budget
    from lowtide.cli.dumps import Dumps
    from lowtide.client.executable import Executable
    from lowtide.ir import Module
    from lowtide.options import Options


@dataclass(frozen=True, slots=True)
class _CompileArguments:
    """The arguments and options of `lowtide compile`."""

    module: ModuleArgument
    output: Annotated[
        Path | None, option("FILE", "Write the executable, which `run` takes.", "-o", "--output")
    ] = None
    memory: MemoryOption = None
    deadline: DeadlineOption = None
    threads: ThreadsOption = None
    dump_to: Annotated[
        Path | None,
        option(
            "DIR",
            "Write the module before and after all passes, buffer assignment and memory "
            "usage report into files that have the names of XLA's dumps, and LLVM IR for "
            "each kernel.",
        ),
    ] = None
    dump_pass_re: DumpPassOption = ""
    target: Annotated[
        str,
        option("NAME", "cpu (default), cpu:avx2, cuda:sm_90, ...; --aot has more: docs/aot.md."),
    ] = "cpu"
    aot: Annotated[
        Path | None, option("DIR", "Write an object for C programs instead, and its headers.")
    ] = None
    name: Annotated[
        str | None, option("NAME", "With --aot: the prefix of all names; else `model`.")
    ] = None
    weights_file: Annotated[
        bool, option(None, "With --aot: constants in a file to be mapped.", "--weights-file")
    ] = False
    sizes: SizesOption = None
    shapes: ShapesOption = None
    json: JsonOption = False


@taking(_CompileArguments)
def compile(given: _CompileArguments) -> None:
    """Compile a module to native code, and say what it came to.

    What was compiled before is taken from the cache, unless --dump-to is given. With --memory parts
    of it run again to fit; where that does not do (exit status 2), nothing is written.
    An executable runs on such a processor. A GPU's is code only: `run --target` emulates it.
    """
    if given.aot is not None:
        if given.output is not None or given.dump_to is not None or given.threads is not None:
            raise typer.BadParameter("--aot goes with neither -o, --dump-to nor --threads")
        _compile_aot(
            given.module,
            given.aot,
            (given.target, given.name or "model", given.weights_file),
            given.memory,
            given.deadline,
            given.json,
        )
        return
    if given.name is not None or given.weights_file:
        raise typer.BadParameter("--name and --weights-file need --aot")
    from lowtide.cli import console
    from lowtide.cli.exit_codes import UsageError
    from lowtide.cli.modules import load
    from lowtide.cli.targets import for_processor
    from lowtide.files.signing import signing_key
    from lowtide.ir.gpu_names import is_gpu_target
    from lowtide.options import Options, cache_folder

    if given.dump_pass_re and given.dump_to is None:
        raise UsageError("--dump-pass-re needs --dump-to")
    console.check_outputs(given.output)
    options = Options(threads=given.threads or 0, memory=given.memory, deadline=given.deadline)
    if is_gpu_target(given.target):
        from lowtide.cli.compile_gpu import compile_gpu

        if given.threads is not None or given.dump_to is not None:
            raise UsageError("--threads and --dump-to are about processors; leave out --target")
        compile_gpu(load(given.module).module, given.target, options, given.output, json=given.json)
        return
    options = for_processor(options, given.target)
    found = load(given.module).module
    executable = _compiled(found, options, given.dump_to, given.dump_pass_re)
    if given.output is not None:
        content = executable.serialize()
        console.write_file(given.output, lambda stream: stream.write(content))
        if why := signing_key(cache_folder()).obstacle:
            console.note(f"note: {given.output} is not signed, and to be run with --trust: {why}")
    account = Account.of(executable)
    if given.json:
        console.write_json(account.to_json(executable))
        return
    console.write("\n".join(account.lines(executable)))


def _compile_aot(
    module: str,
    folder: Path,
    wanted: tuple[str, str, bool],
    memory: Budget | None,
    deadline: float | None,
    json: bool,
) -> None:
    from lowtide.cli.compile_aot import compile_to_folder
    from lowtide.cli.modules import load
    from lowtide.client.aot import AotRequest
    from lowtide.options import Options

    target, name, weights_file = wanted
    request = AotRequest(target, name, weights_file)
    options = Options(memory=memory, deadline=deadline)
    compile_to_folder(load(module).module, folder, request, options, json=json)


def _compiled(module: Module, options: Options, directory: Path | None, pattern: str) -> Executable:
    from lowtide.cli.dumps import Dumps
    from lowtide.cli.programs import while_compiling
    from lowtide.client.executable import compile_module

    if directory is not None:
        return _dumped(module, options, Dumps(directory, pattern))
    return while_compiling(module, lambda told: compile_module(module, options, told))


def _dumped(module: Module, options: Options, dumps: Dumps) -> Executable:
    from lowtide.cli.programs import while_compiling
    from lowtide.client.executable import check_memory
    from lowtide.client.executable.anew import compile_anew, executable_of
    from lowtide.inspection.kernel_texts import kernel_texts

    compiled = while_compiling(
        module, lambda told: compile_anew(module, options, told, [dumps.observer])
    )
    dumps.note_unmatched()
    dumps.write_plan(compiled.plan)
    dumps.write_kernels(compiled.plan.module, kernel_texts(compiled))
    executable = executable_of(compiled, options)
    check_memory(executable.name, executable.arena_bytes, options.memory)
    return executable


@dataclass(frozen=True, slots=True)
class Account:
    """What a program consists of: runs of kernels and copies, kernels, bytes of machine code."""

    runs: int
    copies: int
    loops: int
    kernels: int
    objects: int
    code_bytes: int
    constant_bytes: int

    @classmethod
    def of(cls, executable: Executable) -> Account:
        """Count."""
        from lowtide.inspection.profile import numbered
        from lowtide.ir.thunk import CopyThunk, KernelThunk

        program = executable.program
        thunks = list(numbered(program.thunks))
        runs = sum([isinstance(x, KernelThunk) for x in thunks])
        copies = sum([isinstance(x, CopyThunk) for x in thunks])
        return cls(
            runs,
            copies,
            len(thunks) - runs - copies,
            len(program.kernels),
            len({tuple([phase.function for phase in x.phases]) for x in program.kernels}),
            sum(map(len, program.objects)),
            sum([values.nbytes for _, values in program.constants]),
        )

    def lines(self, executable: Executable) -> list[str]:
        """Return the account for people."""
        from lowtide.cli.runs import duration

        making, ladder = executable.making, executable.memory["ladder"]
        took = duration(sum(making.seconds.values()))
        parts = [f"{name} {duration(x)}" for name, x in making.seconds.items() if x >= 1e-3]
        how = "taken from the cache" if making.was_cached else "compiled"
        equal = ladder["bound_bytes"] == ladder["arena_bytes"]
        program = executable.program
        return [
            f"{executable.name}   {how} in {took}"
            + (f" ({', '.join(parts)})" if parts and not making.was_cached else ""),
            f"  steps    {self.runs:,} runs of {self.kernels:,} kernels ({self.objects:,} "
            f"distinct), {self.copies:,} copies, {self.loops:,} loops and branches",
            f"  code     {self.code_bytes:,} bytes for {program.target.cpu}, constants "
            f"{self.constant_bytes:,} bytes, {program.threads} threads",
            f"  memory   bound {ladder['bound_bytes']:,}  <=  live {ladder['live_bytes']:,}  <=  "
            f"arena {ladder['arena_bytes']:,} bytes beyond the arguments"
            + (", optimal" if equal else ""),
        ]

    def to_json(self, executable: Executable) -> dict[str, object]:
        """Return the JSON document."""
        program = executable.program
        return {
            "schema": "lowtide.compile/1",
            "module": executable.name,
            "target": {
                "triple": program.target.triple,
                "cpu": program.target.cpu,
                "vector_bytes": program.target.vector_bytes,
            },
            "threads": program.threads,
            "kernel_runs": self.runs,
            "copies": self.copies,
            "loops_and_branches": self.loops,
            "kernels": self.kernels,
            "distinct_kernels": self.objects,
            "code_bytes": self.code_bytes,
            "constant_bytes": self.constant_bytes,
            "memory": executable.memory,
            "was_cached": executable.making.was_cached,
            "seconds": dict(executable.making.seconds),
        }
