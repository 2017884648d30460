"""`lowtide run`: execute a module."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lowtide.cli.arguments import JsonOption, ModuleArgument

if TYPE_CHECKING:
    from lowtide.cli.outputs import Output
    from lowtide.frontend.files import ModuleInput
    from lowtide.ir import Module
    from lowtide.ir.buffer import BufferAssignment
    from lowtide.ir.schedule import PartialOrder

_ROWS = 40


def run(
    module: ModuleArgument,
    inputs: Annotated[
        Path | None,
        typer.Option(metavar="FILE.npz", help="Arguments in_0, in_1, ... of the parameters."),
    ] = None,
    outputs: Annotated[
        Path | None, typer.Option(metavar="FILE.npz", help="Save the results out_0, out_1, ...")
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            min=0, metavar="N", help="Seed of generated arguments; else CRC-32 of the module name."
        ),
    ] = None,
    reference: Annotated[
        bool, typer.Option("--reference", help="Use the reference evaluator, as every run does.")
    ] = False,
    arena: Annotated[
        bool, typer.Option("--arena", help="Run inside the memory plan, and compare.")
    ] = False,
    sanitize: Annotated[
        bool,
        typer.Option("--sanitize", help="Check each byte that is read."),
    ] = False,
    plan: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The plan to use: of `lowtide plan -o`, or XLA's own.",
        ),
    ] = None,
    order: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Let instructions overlap at random, as far as sequential, launch (GPU streams) "
            "or dependency order allow; planned for that.",
        ),
    ] = None,
    repeat: Annotated[int, typer.Option(min=1, metavar="N", help="Run N times.")] = 1,
    json: JsonOption = False,
) -> None:
    """Execute a module and show its results.

    Native code comes later: for now every run uses the evaluator in NumPy, slow and exact.
    Parameters that are tuples take one argument per leaf, depth first. Without --inputs, arguments
    come from the snapshot, or are generated: integers 0 to 3, booleans, floating point numbers from
    -1 to 1. With --arena each value lies where the plan puts it, and the results have to be the
    evaluator's, bit for bit. --sanitize, --plan and --order imply --arena.
    """
    from lowtide.cli import console
    from lowtide.cli.modules import load
    from lowtide.cli.outputs import output_table, save_npz
    from lowtide.cli.progress import progress

    found = load(module)
    _note_elided(found.module)
    arguments, origin = _arguments(found, inputs, seed)
    with progress(f"running {found.module.name}"):
        if arena or sanitize or plan is not None or order is not None:
            target = _target(found.module, plan, order)
            runs = _runs_in_arena(target, arguments, seed or 0, repeat, sanitize=sanitize)
        else:
            runs = _runs(found.module, arguments, seed or 0, repeat)
    results = _results(found.module, runs.result)
    if outputs is not None:
        save_npz(outputs, results)
    if json:
        console.write_json(_document(found.module, origin, results, runs))
        return
    console.write(_headline(found.module, origin, len(results), runs))
    lines = output_table(results[:_ROWS])
    if len(results) > _ROWS:
        lines.append(f"and {len(results) - _ROWS:,} more; --json or --outputs has all")
    if results:
        console.write("\n" + "\n".join(lines))


def _note_elided(module: Module) -> None:
    from lowtide.cli import console
    from lowtide.ir.attributes import Constant

    count = 0
    for computation in module.computations.values():
        for instruction in computation.instructions.values():
            attributes = instruction.attributes
            count += isinstance(attributes, Constant) and attributes.literal.elided
    if count:
        console.note(f"note: the text leaves out the values of {count} constants; 0 is used")


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
    return generated(leaves, seed), f"seed {seed}" if leaves else "none"


@dataclass(frozen=True, slots=True)
class _Runs:
    """The result, the wall time of each run, and the bytes of the arena, None without one.

    `order` names what is fixed of the order of the instructions, where they overlapped.
    """

    result: Any
    seconds: list[float]
    arena_bytes: int | None = None
    sanitized: bool = False
    order: str | None = None


def _runs(module: Module, arguments: Any, seed: int, repeat: int) -> _Runs:
    from lowtide.evaluator import evaluate

    seconds = []
    result: Any = None
    for _ in range(repeat):
        start = perf_counter()
        result = evaluate(module, arguments, seed=seed)
        seconds.append(perf_counter() - start)
    return _Runs(result, seconds)


@dataclass(frozen=True, slots=True)
class _Target:
    """A module to run inside a plan, and the order that instructions keep, None for one of all.

    The plan was in `file`, and is said to be one of `program`.
    """

    module: Module
    assignment: BufferAssignment
    order: PartialOrder | None = None
    order_name: str | None = None
    program: Module | None = None
    file: str = ""

    @property
    def arena_bytes(self) -> int:
        """What the plan takes beyond arguments, also where outputs lie by themselves."""
        from lowtide.ir.buffer import AllocationKind

        kinds = (AllocationKind.ARENA, AllocationKind.OUTPUT)
        return sum([x.nbytes for x in self.assignment.allocations if x.kind in kinds])


def _target(module: Module, plan: Path | None, order: str | None) -> _Target:
    from lowtide import compiler
    from lowtide.cli.exit_codes import UsageError
    from lowtide.client.assigners import plan_for_order

    if order is None:
        if plan is None:
            planned = compiler.plan(module)
            module, assignment = planned.module, planned.assignment
        else:
            planned_module, assignment = _plan_in(plan, module)
            return _Target(planned_module, assignment, program=module, file=str(plan))
        return _Target(module, assignment)
    if plan is not None:
        raise UsageError("--order makes a plan of its own; leave out --plan")
    made = plan_for_order(module, order)
    return _Target(made.module, made.assignment, made.order, order)


def _runs_in_arena(
    target: _Target, arguments: Any, seed: int, repeat: int, *, sanitize: bool
) -> _Runs:
    from lowtide.cli.exit_codes import VerificationError
    from lowtide.client.arena import run_planned
    from lowtide.evaluator.in_arena import ArenaError
    from lowtide.ir.errors import InputError

    try:
        runs = [
            run_planned(
                target.module,
                arguments,
                target.assignment,
                order=target.order,
                sanitize=sanitize,
                seed=seed,
                program=target.program,
            )
            for _ in range(repeat)
        ]
    except ArenaError as error:
        raise VerificationError(str(error)) from None
    except InputError as error:
        raise InputError(error.message, file=target.file) from None
    seconds = [run.seconds for run in runs]
    return _Runs(runs[0].result, seconds, target.arena_bytes, sanitize, target.order_name)


def _plan_in(plan: Path, module: Module) -> tuple[Module, BufferAssignment]:
    """The plan in a file, and the scheduled module that it is for.

    That is the one in the file, where it has one: planning adds an order and copies to a module.
    """
    from lowtide.client.plan_files import needs_module, plan_from, read_plan_bytes
    from lowtide.ir.errors import InputError
    from lowtide.ir.shape import Shape

    data = read_plan_bytes(str(plan))
    found = plan_from(data, str(plan), module if needs_module(data) else None)
    ours = [parameter.shape for parameter in module.entry.parameters]
    theirs = [parameter.shape for parameter in found.module.entry.parameters]
    if len(ours) != len(theirs) or not all(map(Shape.compatible, ours, theirs)):
        raise InputError("is the plan of another module: its parameters differ", file=str(plan))
    return found.module, found.assignment


def _results(module: Module, result: Any) -> list[Output]:
    from lowtide.cli.outputs import Output
    from lowtide.evaluator import Token, value_leaves

    leaves = module.entry.root.shape.leaves()
    outputs = []
    for (index, shape), value in zip(leaves, value_leaves(result), strict=True):
        if not isinstance(value, Token):
            outputs.append(Output(index, shape, value))
    return outputs


def _headline(module: Module, origin: str, count: int, runs: _Runs) -> str:
    line = f"{module.name}   {count} output{'' if count == 1 else 's'} in {_time(runs.seconds)}   "
    if runs.arena_bytes is None:
        return f"{line}reference evaluator, arguments: {origin}"
    checked = ", each byte read was checked" if runs.sanitized else ""
    overlapping = "" if runs.order is None else f", overlapping as {runs.order} allows"
    return (
        f"{line}inside an arena of {runs.arena_bytes:,} bytes, arguments: {origin}\n"
        f"equal to the reference evaluator bit for bit{checked}{overlapping}"
    )


def _time(seconds: list[float]) -> str:
    best = min(seconds)
    shown = f"{best:.2f} s" if best >= 1 else f"{best * 1000:.1f} ms"
    return f"{shown} (best of {len(seconds)})" if len(seconds) > 1 else shown


def _document(module: Module, origin: str, results: list[Output], runs: _Runs) -> dict[str, object]:
    arena = {
        "arena_bytes": runs.arena_bytes,
        "sanitized": runs.sanitized,
        "order": runs.order,
    }
    return {
        "schema": "lowtide.run/1",
        "module": module.name,
        "engine": "reference" if runs.arena_bytes is None else "arena",
        "arguments": origin,
        "outputs": [output.to_json() for output in results],
        **({} if runs.arena_bytes is None else arena),
        "seconds": runs.seconds,
    }
