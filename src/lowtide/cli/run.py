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
    option,
    taking,
)
from lowtide.cli.run_shown import show_runs
from lowtide.cli.shapes import (
    InputsOption,
    ShapesOption,
    SignatureOption,
    SizesOption,
    given_inputs,
)
from lowtide.records import dataclass

if TYPE_CHECKING:
    from lowtide.cli.programs import NamedProgram
    from lowtide.cli.run_devices import ProgramOnDevices
    from lowtide.cli.runs import Runs
    from lowtide.frontend.files import ModuleInput
    from lowtide.options import Options


@dataclass(frozen=True, slots=True)
class _RunArguments:
    """The arguments and options of `lowtide run`."""

    module: ModuleArgument
    inputs: Annotated[
        Path | None, option("FILE.npz", "Arguments in_0, in_1, ... of the parameters.")
    ] = None
    input: InputsOption = None
    outputs: Annotated[Path | None, option("FILE.npz", "Save the results out_0, out_1, ...")] = None
    seed: Annotated[int | None, option("N", "Seed of generated arguments.", min=0)] = None
    reference: Annotated[
        bool, option(None, "Use the reference evaluator in NumPy.", "--reference")
    ] = False
    arena: Annotated[
        bool, option(None, "Run the evaluator inside the plan, and compare.", "--arena")
    ] = False
    sanitize: Annotated[
        bool, option(None, "Check what each step reads, writes, computes.", "--sanitize")
    ] = False
    reproducer: Annotated[
        Path | None, option("FILE.py", "Write a test of the fault that --sanitize finds.")
    ] = None
    plan: Annotated[
        Path | None, option("FILE", "Run the evaluator in this plan, ours or XLA's.")
    ] = None
    order: Annotated[
        str | None, option("NAME", "Overlap: sequential, launch or dependency order.")
    ] = None
    memory: MemoryOption = None
    deadline: DeadlineOption = None
    threads: ThreadsOption = None
    target: TargetOption = "cpu"
    emulate: Annotated[
        bool, option(None, "Run the kernels of a GPU on this host.", "--emulate")
    ] = False
    repeat: Annotated[
        int,
        typer.Option(min=1, max=1_000_000_000, metavar="N", help="Time N calls after the first."),
    ] = 1
    profile: Annotated[
        bool, option(None, "Show the time of each step and its rates.", "--profile")
    ] = False
    trace: Annotated[
        Path | None, option("FILE.json", "Write when each step ran, for Perfetto.")
    ] = None
    check: Annotated[str | None, option("NAME", "Compare calls: never, first, always.")] = None
    trust: Annotated[bool, option(None, "Run what somebody else compiled.", "--trust")] = False
    timeout: Annotated[float, typer.Option(min=0.0, metavar="SECONDS", hidden=True)] = 300.0
    sizes: SizesOption = None
    shapes: ShapesOption = None
    signature: SignatureOption = None
    json: JsonOption = False

    @property
    def is_evaluated(self) -> bool:
        """Whether the evaluator runs it: alone, or in the memory of a plan."""
        return self.reference or self.is_in_plan

    @property
    def is_in_plan(self) -> bool:
        """Whether the evaluator runs it in the memory of a plan."""
        return self.arena or self.plan is not None or self.order is not None


@taking(_RunArguments)
def run(given: _RunArguments) -> None:
    """Execute a module, or an executable, and show its results.

    Exit status: 2 over --memory, 3 no native code, 4 a check failed.
    """
    from lowtide.cli import console
    from lowtide.cli.programs import load_program
    from lowtide.cli.run_devices import device_program
    from lowtide.ir.traversal import told_left_out, values_left_out
    from lowtide.options import started_ranks

    _check_together(given)
    console.check_outputs(given.outputs, given.trace, given.reproducer)
    options, wanted = _options(given), _wanted(given)
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
    elided = values_left_out(program.module)
    if program.executable is None and elided:
        console.note(f"note: {told_left_out(elided)}")
    _check_executable(
        program,
        given.threads,
        given.deadline,
        must_have_values=elided > 0 and (given.sanitize or given.is_evaluated),
    )
    several = device_program(program)
    if several is None:
        _run_alone(given, program, options, wanted)
    else:
        _run_on_devices(given, program, several, options, wanted)


def _run_alone(
    given: _RunArguments, program: NamedProgram, options: Options, wanted: _Wanted
) -> None:
    """Run what is for one device, by the engine that is asked for, and show its results."""
    from lowtide.cli.run_gpu import gpu_runs
    from lowtide.cli.runs import results_of
    from lowtide.ir.gpu_names import is_gpu_target

    arguments, origin = _arguments(program.found, given.inputs, given.seed)
    if is_gpu_target(given.target):
        runs = gpu_runs(program, given.target, arguments, options, given.repeat)
    elif given.is_in_plan or (given.reference and given.sanitize):
        runs = _in_arena(program, arguments, options, wanted)
    elif given.reference:
        runs = _reference(program, arguments, options, wanted)
    else:
        runs = _native(program, arguments, options, wanted)
    results = results_of(program.module, runs.result)
    show_runs(program.module, origin, runs, results, given.outputs, json=given.json)


def _run_on_devices(
    given: _RunArguments,
    program: NamedProgram,
    several: ProgramOnDevices,
    options: Options,
    wanted: _Wanted,
) -> None:
    """Run what is for several devices, each a thread or emulated, and show the joined results."""
    from lowtide.cli.run_devices import joined_results
    from lowtide.cli.run_gpu import gpu_runs
    from lowtide.ir.gpu_names import is_gpu_target

    _refuse_on_devices(wanted, {"--arena": given.arena, "--check": given.check is not None})
    own, origin = _dealt(program, several, _Given(given.inputs, given.seed))
    if is_gpu_target(given.target):
        count = several.devices
        runs = gpu_runs(several.program, given.target, own, options, given.repeat, count)
    else:
        runs = _on_devices(several, own, options, wanted, reference=given.reference)
    results = joined_results(several, program.module, runs.result)
    show_runs(program.module, origin, runs, results, given.outputs, json=given.json)


def _options(given: _RunArguments) -> Options:
    """Return the options of the compilation."""
    from lowtide.cli.targets import for_gpu, for_processor
    from lowtide.ir.gpu_names import EMULATED, is_gpu_target
    from lowtide.options import Options

    options = Options(
        threads=given.threads or 0,
        memory=given.memory,
        deadline=given.deadline,
        check=given.check or "never",
    )
    if is_gpu_target(given.target):
        return for_gpu(options, EMULATED if given.emulate else given.target)
    return for_processor(options, given.target)


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


def _wanted(given: _RunArguments) -> _Wanted:
    return _Wanted(
        given.seed or 0,
        given.repeat,
        given.sanitize,
        given.reproducer,
        given.plan,
        given.order,
        given.profile,
        given.trace,
    )


def _check_together(given: _RunArguments) -> None:
    """Raise UsageError for options that exclude each other."""
    from lowtide.cli.exit_codes import UsageError
    from lowtide.cli.run_gpu import check_gpu_usage
    from lowtide.options import CHECKS

    if given.input and given.inputs is not None:
        raise UsageError("--input and --inputs both give arguments: leave one out")
    evaluated = given.is_evaluated
    shown = {"--profile": given.profile, "--trace": given.trace}
    native = {**shown, "--threads": given.threads, "--check": given.check}
    for name, value in native.items():
        if evaluated and value:
            raise UsageError(
                f"{name} is about native code; leave out --reference, --arena, --plan and --order"
            )
    plain = {**shown, "--repeat": given.repeat > 1, "--check": given.check}
    for name, value in plain.items():
        if given.sanitize and not evaluated and value:
            raise UsageError(f"{name} is about plain runs; leave out --sanitize")
    if given.reproducer is not None and (evaluated or not given.sanitize):
        raise UsageError("--reproducer needs --sanitize on native code")
    others = {
        "--reference, --arena, --plan or --order": evaluated,
        "--sanitize": given.sanitize,
        **native,
    }
    check_gpu_usage(given.target, is_emulated=given.emulate, others=others)
    if given.check is not None and given.check not in CHECKS:
        raise UsageError(f"--check takes {', '.join(CHECKS)}; found {given.check!r}")
    on_evaluator = given.reference or given.plan is not None or given.order is not None
    if given.deadline is not None and on_evaluator:
        raise UsageError(
            "--deadline limits the search for a plan; leave out --reference, --plan and --order"
        )


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


def _arguments(found: ModuleInput, inputs: Path | None, seed: int | None) -> tuple[Any, str]:
    """Return the arguments, and in words where they come from."""
    from lowtide.cli.inputs import default_seed, from_files, from_npz, generated
    from lowtide.evaluator.evaluate import parameter_leaves

    leaves = list(parameter_leaves(found.module))
    if inputs is not None:
        return from_npz(inputs, leaves), str(inputs)
    if files := given_inputs():
        return from_files(files, leaves, found.initial), ", ".join(map(str, files.values()))
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
    if given.inputs is None and not given_inputs() and program.found.arguments is None:
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
    from lowtide.ir.traversal import values_left_out

    with together() as world:
        _refuse_on_devices(wanted, {**others, "--sanitize": wanted.sanitize})
        program = load_program(path, options, trust=False)
        if program.executable is not None:
            raise UsageError("ranks compile the program themselves: give the module")
        if values_left_out(program.module):
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
