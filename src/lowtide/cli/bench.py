"""`lowtide bench`: native code beside XLA:CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lowtide.cli.arguments import JsonOption, ModuleArgument, TargetOption, ThreadsOption
from lowtide.cli.shapes import ShapesOption, SizesOption

if TYPE_CHECKING:
    from lowtide.inspection.side_by_side import CompilerSide, SideBySide
    from lowtide.ir import Module


def bench(
    module: ModuleArgument,
    threads: ThreadsOption = None,
    target: TargetOption = "cpu",
    seconds: Annotated[
        float, typer.Option(min=0.0, metavar="S", help="How long both sides run, in turns.")
    ] = 3.0,
    seed: Annotated[
        int | None,
        typer.Option(
            min=0, metavar="N", help="Seed of the arguments; else CRC-32 of the module name."
        ),
    ] = None,
    sizes: SizesOption = None,
    shapes: ShapesOption = None,
    json: JsonOption = False,
) -> None:
    """Time native code beside XLA:CPU, in one process.

    XLA is that of the installed jaxlib. Both get the same arguments, in their own memory, and the
    module without aliases; calls take turns. Compile times are cold: nothing is taken from caches.
    Memory is what each plans beyond the arguments. On a GPU, ours are alone, with the copies of
    arguments and results. Exit status 4 where results differ by more than
    rounding explains. Without jaxlib there are our figures alone.
    """
    from lowtide.cli import console
    from lowtide.cli.exit_codes import VerificationError
    from lowtide.cli.inputs import default_seed, generated
    from lowtide.cli.modules import load
    from lowtide.cli.progress import progress
    from lowtide.cli.targets import for_gpu, for_processor
    from lowtide.evaluator.evaluate import parameter_leaves
    from lowtide.inspection.side_by_side import alone_on_gpu, compare
    from lowtide.ir.gpu_names import is_gpu_target
    from lowtide.options import Options

    options = Options(threads=threads or 0)
    is_gpu = is_gpu_target(target)
    options = for_gpu(options, target) if is_gpu else for_processor(options, target)
    found = load(module)
    arguments = found.arguments
    if arguments is None:
        chosen = default_seed(found.module) if seed is None else seed
        arguments = generated(list(parameter_leaves(found.module)), chosen)
    with progress(f"timing {found.module.name}"):
        measure = alone_on_gpu if is_gpu else compare
        result = measure(found.module, arguments, options, seconds)
    if json:
        console.write_json(_document(found.module, result))
    else:
        console.write("\n".join(_lines(found.module, result)))
    if result.agreement.wrong:
        raise VerificationError(f"{found.module.name}: results differ: {result.agreement.wrong}")


def _lines(module: Module, result: SideBySide) -> list[str]:
    count = f"{result.threads} thread{'' if result.threads == 1 else 's'}"
    lines = [
        f"{module.name}   {result.device or count}",
        _row("", "compile", "median", "least", "memory"),
    ]
    sides = [("lowtide", result.ours), ("XLA:CPU", result.theirs)]
    lines += [_side(name, side) for name, side in sides if side is not None]
    theirs = result.theirs
    if theirs is None:
        return [*lines, f"nothing to compare with: {result.missing}"]
    ratios = [
        f"{a / b:.2f}x" if b else "-"
        for a, b in (
            (theirs.compile_seconds, result.ours.compile_seconds),
            (theirs.median, result.ours.median),
            (theirs.least, result.ours.least),
            (theirs.needed_bytes, result.ours.needed_bytes),
        )
    ]
    lines.append(_row("ratio", *ratios))
    lines.append(f"largest difference of results, relative: {result.agreement.difference:.2g}")
    if result.agreement.sensitive:
        lines.append("XLA's own move as far when arguments move by their last bit")
    return lines


def _side(name: str, side: CompilerSide) -> str:
    from lowtide.cli.runs import duration

    times = [duration(x) for x in (side.compile_seconds, side.median, side.least)]
    return _row(name, *times, f"{side.needed_bytes:,}")


def _row(name: str, *cells: str) -> str:
    return f"  {name:<8}" + "".join([f"{cell:>16}" for cell in cells])


def _document(module: Module, result: SideBySide) -> dict[str, object]:
    theirs = result.theirs
    return {
        "schema": "lowtide.bench/1",
        "module": module.name,
        "threads": result.threads,
        "device": result.device or None,
        "lowtide": _side_json(result.ours),
        "xla_cpu": None if theirs is None else _side_json(theirs),
        "missing": result.missing or None,
        "speedup": None if theirs is None else theirs.least / result.ours.least,
        "largest_difference": None if theirs is None else result.agreement.difference,
        "wrong": result.agreement.wrong or None,
        "sensitive": result.agreement.sensitive,
    }


def _side_json(side: CompilerSide) -> dict[str, object]:
    return {
        "compile_seconds": side.compile_seconds,
        "median_seconds": side.median,
        "least_seconds": side.least,
        "needed_bytes": side.needed_bytes,
    }
