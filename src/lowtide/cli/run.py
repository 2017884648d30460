"""`lowtide run`: execute a module."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lowtide.cli.arguments import (
    DeadlineOption,
    JsonOption,
    MemoryOption,
    ModuleArgument,
    TargetOption,
    ThreadsOption,
    taking,
)
from lowtide.cli.run_shown import show_runs
from lowtide.cli.shapes import ShapesOption, SignatureOption, SizesOption
from lowtide.records import dataclass

if TYPE_CHECKING:
    from lowtide.cli.programs import NamedProgram
    from lowtide.cli.run_devices import ProgramOnDevices
    from lowtide.cli.runs import Runs
    from lowtide.frontend.files import ModuleInput
    from lowtide.ir import Module
    from lowtide.options import Options


@dataclass(frozen=True, slots=True)
class _RunArguments:
    """The arguments and options of `lowtide run`."""

    module: ModuleArgument
    inputs: Annotated[
        Path | None,
        typer.Option(metavar="FILE.npz", help="Arguments in_0, in_1, ... of the parameters."),
    ] = None
    outputs: Annotated[
        Path | None, typer.Option(metavar="FILE.npz", help="Save the results out_0, out_1, ...")
    ] = None
    seed: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Seed of generated arguments.")
    ] = None
    reference: Annotated[
        bool, typer.Option("--reference", help="Use the reference evaluator in NumPy.")
    ] = False
    arena: Annotated[
        bool,
        typer.Option("--arena", help="Run the evaluator inside the plan, and compare."),
    ] = False
    sanitize: Annotated[
        bool,
        typer.Option("--sanitize", help="Check what each step reads, writes, computes."),
    ] = False
    reproducer: Annotated[
        Path | None,
        typer.Option(metavar="FILE.py", help="Write a test of the fault that --sanitize finds."),
    ] = None
    plan: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Run the evaluator in this plan, ours or XLA's."),
    ] = None
    order: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Overlap: sequential, launch or dependency order."),
    ] = None
    memory: MemoryOption = None
    deadline: DeadlineOption = None
    threads: ThreadsOption = None
    target: TargetOption = "cpu"
    emulate: Annotated[
        bool, typer.Option("--emulate", help="Run the kernels of a GPU on this host.")
    ] = False
    repeat: Annotated[
        int, typer.Option(min=1, metavar="N", help="Time N calls after the first.")
    ] = 1
    profile: Annotated[
        bool, typer.Option("--profile", help="Show the time of each step and its rates.")
    ] = False
    trace: Annotated[
        Path | None,
        typer.Option(metavar="FILE.json", help="Write when each step ran, for Perfetto."),
    ] = None
    check: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Compare calls: never, first, always."),
    ] = None
    trust: Annotated[bool, typer.Option("--trust", help="Run what somebody else compiled.")] = False
    timeout: Annotated[
        float,
        typer.Option(min=0.0, metavar="SECONDS", hidden=True),
    ] = 300.0
    sizes: SizesOption = None
    shapes: ShapesOption = None
    signature: SignatureOption = None
    json: JsonOption = False


@taking(_RunArguments)
def run(given: _RunArguments) -> None:
    """Execute a module, or an executable, and show its results.

    Exit status: 2 over --memory, 3 no native code, 4 a check failed.
    """
    from lowtide.cli import console
    from lowtide.cli.exit_codes import UsageError
    from lowtide.cli.programs import load_program
    from lowtide.cli.run_devices import device_program, joined_results
    from lowtide.cli.run_gpu import check_gpu_usage, gpu_runs
    from lowtide.cli.runs import results_of
    from lowtide.cli.targets import for_gpu, for_processor
    from lowtide.ir.gpu_names import EMULATED, is_gpu_target
    from lowtide.options import CHECKS, Options, started_ranks

    evaluated = given.reference or given.arena or given.plan is not None or given.order is not None
    _check_usage(
        evaluated,
        {
            "--profile": given.profile,
            "--trace": given.trace,
            "--threads": given.threads,
            "--check": given.check,
        },
        {
            "--profile": given.profile,
            "--trace": given.trace,
            "--repeat": given.repeat > 1,
            "--check": given.check,
        }
        if given.sanitize and not evaluated
        else {},
        given.reproducer if evaluated or not given.sanitize else None,
    )
    check_gpu_usage(
        given.target,
        is_emulated=given.emulate,
        others={
            "--reference, --arena, --plan or --order": evaluated,
            "--sanitize": given.sanitize,
            "--profile": given.profile,
            "--trace": given.trace,
            "--threads": given.threads,
            "--check": given.check,
        },
    )
    if given.check is not None and given.check not in CHECKS:
        raise UsageError(f"--check takes {', '.join(CHECKS)}; found {given.check!r}")
    if given.deadline is not None and (
        given.reference or given.plan is not None or given.order is not None
    ):
        raise UsageError(
            "--deadline limits the search for a plan; leave out --reference, --plan and --order"
        )
    console.check_outputs(given.outputs, given.trace, given.reproducer)
    options = Options(
        threads=given.threads or 0,
        memory=given.memory,
        deadline=given.deadline,
        check=given.check or "never",
    )
    if is_gpu_target(given.target):
        options = for_gpu(options, EMULATED if given.emulate else given.target)
    else:
        options = for_processor(options, given.target)
    wanted = _Wanted(
        given.seed or 0,
        given.repeat,
        given.sanitize,
        given.reproducer,
        given.plan,
        given.order,
        given.profile,
        given.trace,
    )
    if started_ranks() > 1:
        others = {
            "--reference": given.reference,
            "--arena": given.arena,
            "--check": given.check is not None,
        }
        _on_ranks(
            given.module,
            _Given(given.inputs, given.seed),
            options,
            wanted,
            others,
            given.timeout,
            given.outputs,
            given.json,
        )
        return
    program = load_program(given.module, options, trust=given.trust)
    elided = _elided(program.module)
    if program.executable is None and elided:
        console.note(f"note: the text leaves out the values of {elided} constants; XLA's stand in")
    _check_executable(
        program,
        given.threads,
        given.deadline,
        must_have_values=elided > 0 and (given.sanitize or evaluated),
    )
    several = device_program(program)
    if several is not None:
        _refuse_on_devices(wanted, {"--arena": given.arena, "--check": given.check is not None})
        own, origin = _dealt(program, several, _Given(given.inputs, given.seed))
        if is_gpu_target(given.target):
            count = several.devices
            runs = gpu_runs(several.program, given.target, own, options, given.repeat, count)
        else:
            runs = _on_devices(several, own, options, wanted, reference=given.reference)
        results = joined_results(several, program.module, runs.result)
        show_runs(program.module, origin, runs, results, given.outputs, json=given.json)
        return
    arguments, origin = _arguments(program.found, given.inputs, given.seed)
    if is_gpu_target(given.target):
        runs = gpu_runs(program, given.target, arguments, options, given.repeat)
    elif (
        given.arena
        or given.plan is not None
        or given.order is not None
        or (given.reference and given.sanitize)
    ):
        runs = _in_arena(program, arguments, options, wanted)
    elif given.reference:
        runs = _reference(program, arguments, options, wanted)
    else:
        runs = _native(program, arguments, options, wanted)
    results = results_of(program.module, runs.result)
    show_runs(program.module, origin, runs, results, given.outputs, json=given.json)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What the command line says of the runs."""

    seed: int
    repeat: int
    sanitize: bool
    reproducer: Path | None
    plan: Path | None
    order: str | None
    profile: bool
    trace: Path | None


def _check_usage(
    evaluated: bool,
    native_only: dict[str, Any],
    not_sanitized: dict[str, Any],
    reproducer: Path | None,
) -> None:
    """Raise UsageError for options that exclude each other."""
    from lowtide.cli.exit_codes import UsageError

    for name, value in native_only.items():
        if evaluated and value:
            raise UsageError(
                f"{name} is about native code; leave out --reference, --arena, --plan and --order"
            )
    for name, value in not_sanitized.items():
        if value:
            raise UsageError(f"{name} is about plain runs; leave out --sanitize")
    if reproducer is not None:
        raise UsageError("--reproducer needs --sanitize on native code")


def _check_executable(
    program: NamedProgram, threads: int | None, deadline: float | None, *, must_have_values: bool
) -> None:
    """Raise UsageError for what an executable, if the program is one, cannot do."""
    from lowtide.cli.exit_codes import UsageError

    if program.executable is None:
        return
    made_for = program.executable.program.threads
    if threads is not None and threads != made_for:
        raise UsageError(f"the executable was compiled for --threads {made_for}")
    if deadline is not None:
        raise UsageError("the executable has its plan; leave out --deadline")
    if must_have_values:
        raise UsageError(
            "the executable's HLO has no values of its large constants; give the module"
        )


def _elided(module: Module) -> int:
    """How many constants have no values."""
    from lowtide.ir.attributes import Constant

    count = 0
    for computation in module.computations.values():
        for instruction in computation.instructions.values():
            attributes = instruction.attributes
            count += isinstance(attributes, Constant) and attributes.literal.elided
    return count


def _arguments(found: ModuleInput, inputs: Path | None, seed: int | None) -> tuple[Any, str]:
    """Return the arguments, and in words where they come from."""
    from lowtide.cli.inputs import default_seed, from_npz, generated
    from lowtide.evaluator.evaluate import parameter_leaves

    leaves = list(parameter_leaves(found.module))
    if inputs is not None:
        return from_npz(inputs, leaves), str(inputs)
    if found.arguments is not None:
        return found.arguments, "snapshot"
    seed = default_seed(found.module) if seed is None else seed
    arguments = list(generated(leaves, seed))
    for number, value in found.initial.items():
        arguments[number] = value
    return arguments, f"seed {seed}" if leaves else "none"


# -- engines -------------------------------------------------------------------------------------


def _native(program: NamedProgram, arguments: Any, options: Options, wanted: _Wanted) -> Runs:
    from lowtide.cli.run_native import NativeRequest, native_runs, sanitized_runs

    if wanted.sanitize:
        return sanitized_runs(program, arguments, options, wanted.reproducer)
    request = NativeRequest(wanted.repeat, wanted.profile, wanted.trace)
    return native_runs(program, arguments, options, request)


def _in_arena(program: NamedProgram, arguments: Any, options: Options, wanted: _Wanted) -> Runs:
    from lowtide.cli.progress import progress
    from lowtide.cli.run_arena import runs_in_arena, target_of
    from lowtide.client.executable import check_memory

    module = program.module
    with progress(f"running {module.name}"):
        target = target_of(module, wanted.plan, wanted.order, options)
        check_memory(module.name, target.arena_bytes, options.memory)
        return runs_in_arena(
            target, arguments, wanted.seed, wanted.repeat, sanitize=wanted.sanitize
        )


def _reference(program: NamedProgram, arguments: Any, options: Options, wanted: _Wanted) -> Runs:
    from lowtide.cli.exit_codes import UsageError
    from lowtide.cli.progress import progress
    from lowtide.cli.runs import Runs, timed
    from lowtide.evaluator import evaluate

    if options.memory is not None:
        raise UsageError("the evaluator has no memory plan; --memory needs native code or --arena")
    module = program.module
    with progress(f"running {module.name}"):
        result, first, seconds = timed(
            lambda: evaluate(module, arguments, seed=wanted.seed), wanted.repeat
        )
    apart = first if wanted.repeat > 1 else None
    return Runs("reference", result, seconds, "reference evaluator", apart)


def _refuse_on_devices(wanted: _Wanted, others: dict[str, bool]) -> None:
    """Raise UsageError for options about one device."""
    from lowtide.cli.exit_codes import UsageError

    given = {
        **others,
        "--plan": wanted.plan is not None,
        "--order": wanted.order is not None,
        "--profile": wanted.profile,
        "--trace": wanted.trace is not None,
        "--reproducer": wanted.reproducer is not None,
    }
    for name, is_given in given.items():
        if is_given:
            raise UsageError(
                f"the module runs on several devices; {name} is about one: leave it out"
            )


@dataclass(frozen=True, slots=True)
class _Given:
    """Where arguments come from: a file, or a seed."""

    inputs: Path | None
    seed: int | None


def _dealt(
    program: NamedProgram, several: ProgramOnDevices, given: _Given
) -> tuple[list[list[Any]], str]:
    """Return the arguments of each device, and in words where they come from."""
    from lowtide.cli.inputs import default_seed
    from lowtide.cli.run_devices import dealt, generated_for
    from lowtide.evaluator.evaluate import parameter_leaves

    leaves = list(parameter_leaves(program.module))
    if given.inputs is None and program.found.arguments is None:
        seed = default_seed(program.module) if given.seed is None else given.seed
        arguments = generated_for(several, leaves, seed)
        origin = f"seed {seed}" if leaves else "none"
    else:
        arguments, origin = _arguments(program.found, given.inputs, given.seed)
    return dealt(several, leaves, arguments), origin


def _on_devices(
    several: ProgramOnDevices,
    own: list[list[Any]],
    options: Options,
    wanted: _Wanted,
    *,
    reference: bool,
) -> Runs:
    """Run on all devices, with the arguments of each."""
    from lowtide.cli import run_devices
    from lowtide.cli.exit_codes import UsageError

    if reference and (wanted.sanitize or options.memory is not None):
        raise UsageError("--sanitize and --memory are about native code; leave out --reference")
    if reference:
        return run_devices.reference_on_devices(several, own, wanted.seed, wanted.repeat)
    if wanted.sanitize:
        return run_devices.sanitized_on_devices(several, own, options)
    return run_devices.runs_on_devices(several, own, options, wanted.repeat)


def _on_ranks(
    path: str,
    given: _Given,
    options: Options,
    wanted: _Wanted,
    others: dict[str, bool],
    timeout: float,
    outputs: Path | None,
    json: bool,
) -> None:
    """Run the own device of a module, each rank another one; rank 0 shows the results."""
    from lowtide.cli.exit_codes import UsageError
    from lowtide.cli.programs import load_program
    from lowtide.cli.run_devices import device_program, joined_results
    from lowtide.cli.run_ranks import rank_runs, together

    with together() as world:
        _refuse_on_devices(wanted, {**others, "--sanitize": wanted.sanitize})
        program = load_program(path, options, trust=False)
        if program.executable is not None:
            raise UsageError("ranks compile the program themselves: give the module")
        if _elided(program.module):
            raise UsageError("the text leaves out the values of constants: give the whole module")
        several = device_program(program)
        if several is None:
            raise UsageError(
                f"{program.module.name} is no program of several devices: run it without mpiexec"
            )
        own, origin = _dealt(program, several, given)
        runs = rank_runs(world, several.module, own, options, wanted.repeat, timeout or None)
        if not world.rank:
            results = joined_results(several, program.module, runs.result)
            show_runs(program.module, origin, runs, results, outputs, json=json)
