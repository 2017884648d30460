"""`lowtide run`: execute a module."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lowtide.cli.arguments import JsonOption, ModuleArgument

if TYPE_CHECKING:
    from lowtide.cli.outputs import Output
    from lowtide.frontend.files import ModuleInput
    from lowtide.ir import Module

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
    repeat: Annotated[int, typer.Option(min=1, metavar="N", help="Run N times.")] = 1,
    json: JsonOption = False,
) -> None:
    """Execute a module and show its results.

    Native code comes later: for now every run uses the evaluator in NumPy, which is slow and
    exact. Parameters that are tuples take one argument per leaf, depth first. Without --inputs,
    arguments come from the snapshot, or are generated: integers 0 to 3, booleans, and floating
    point numbers from -1 to 1.
    """
    from lowtide.cli import console
    from lowtide.cli.modules import load
    from lowtide.cli.outputs import output_table, save_npz
    from lowtide.cli.progress import progress

    found = load(module)
    _note_elided(found.module)
    arguments, origin = _arguments(found, inputs, seed)
    with progress(f"running {found.module.name}"):
        results, seconds = _execute(found.module, arguments, seed or 0, repeat)
    if outputs is not None:
        save_npz(outputs, results)
    if json:
        console.write_json(_document(found.module, origin, results, seconds))
        return
    console.write(_headline(found.module, origin, len(results), seconds))
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


def _execute(
    module: Module, arguments: Any, seed: int, repeat: int
) -> tuple[list[Output], list[float]]:
    from lowtide.cli.outputs import Output
    from lowtide.evaluator import Token, evaluate, value_leaves

    seconds = []
    result: Any = None
    for _ in range(repeat):
        start = perf_counter()
        result = evaluate(module, arguments, seed=seed)
        seconds.append(perf_counter() - start)
    leaves = module.entry.root.shape.leaves()
    outputs = []
    for (index, shape), value in zip(leaves, value_leaves(result), strict=True):
        if not isinstance(value, Token):
            outputs.append(Output(index, shape, value))
    return outputs, seconds


def _headline(module: Module, origin: str, count: int, seconds: list[float]) -> str:
    return (
        f"{module.name}   {count} output{'' if count == 1 else 's'} in {_time(seconds)}   "
        f"reference evaluator, arguments: {origin}"
    )


def _time(seconds: list[float]) -> str:
    best = min(seconds)
    shown = f"{best:.2f} s" if best >= 1 else f"{best * 1000:.1f} ms"
    return f"{shown} (best of {len(seconds)})" if len(seconds) > 1 else shown


def _document(
    module: Module, origin: str, results: list[Output], seconds: list[float]
) -> dict[str, object]:
    return {
        "schema": "lowtide.run/1",
        "module": module.name,
        "engine": "reference",
        "arguments": origin,
        "outputs": [output.to_json() for output in results],
        "seconds": seconds,
    }
