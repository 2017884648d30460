"""`lowtide opt`: HLO to HLO text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lowtide.cli.arguments import (
    DumpPassOption,
    JsonOption,
    ModuleArgument,
    StageOption,
    option,
    taking,
)
from lowtide.cli.shapes import ShapesOption, SizesOption
from lowtide.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lowtide.cli.dumps import Dumps
    from lowtide.ir import Module
    from lowtide.passes import Step


@dataclass(frozen=True, slots=True)
class _OptArguments:
    """The arguments and options of `lowtide opt`."""

    module: ModuleArgument
    passes: Annotated[
        str,
        typer.Option(
            metavar="LIST",
            help="The passes to run in turn, as `a,b{option=value}`; `lowtide passes` lists them.",
        ),
    ] = ""
    passes_until: Annotated[
        int | None, option("N", "Run the first N passes only, to find a wrong one.", min=0)
    ] = None
    stage: StageOption = "input"
    verify: Annotated[
        bool,
        option(
            None, "Verify the module after each pass, and read the printed text back.", "--verify"
        ),
    ] = False
    dump_to: Annotated[
        Path | None,
        option(
            "DIR",
            "Write the module before and after all passes, buffer assignment and memory "
            "usage report into files that have the names of XLA's dumps.",
        ),
    ] = None
    dump_pass_re: DumpPassOption = ""
    dot: Annotated[
        Path | None, option("FILE", "Draw the graph, for Graphviz; - puts it in place of the text.")
    ] = None
    sizes: SizesOption = None
    shapes: ShapesOption = None
    json: JsonOption = False


@taking(_OptArguments)
def opt(given: _OptArguments) -> None:
    """Print a module as HLO text, after passes or up to a stage.

    Protobuf becomes text too; constants are printed in full. The module is verified first. Passes
    leave no schedule, which the stage `scheduled` makes anew. With --json the seconds, runs and
    changes of each pass stand beside the text. Exit status 4 says that the result is not valid.
    """
    from lowtide.cli import console
    from lowtide.cli.exit_codes import UsageError
    from lowtide.cli.modules import load
    from lowtide.cli.progress import progress
    from lowtide.compiler.planned_passes import with_planner
    from lowtide.compiler.stages import pipeline
    from lowtide.ir.printer import COMPLETE, to_text
    from lowtide.passes.registry import parse_passes

    if given.passes and given.stage != "input":
        raise UsageError("--passes and --stage exclude each other")
    if given.json and str(given.dot) == "-":
        raise UsageError("--json and --dot - exclude each other: both write to standard output")
    steps = with_planner(parse_passes(given.passes)) if given.passes else pipeline(given.stage)
    dumps = _dumps(given.dump_to, given.dump_pass_re)
    found = load(given.module)
    with progress(f"optimizing {found.module.name}"):
        times = _run(found.module, steps, given.passes_until, dumps, verify=given.verify)
        optimized = _ordered(found.module) if given.stage == "scheduled" else found.module
    text = to_text(optimized, COMPLETE)
    if given.verify:
        _check(optimized, text)
    if given.dot is not None:
        text = _draw(optimized, given.dot, text)
    if given.json:
        count = optimized.instruction_count
        document = {"module": optimized.name, "instructions": count, "passes": times}
        console.write_json({**document, "text": text})
        return
    console.write_exact(text.removesuffix("\n"))


def _ordered(module: Module) -> Module:
    """The module with the copies that it needs and its order."""
    from lowtide import compiler

    return compiler.scheduled(module, compiler.PlanOptions("input"))


def _dumps(directory: Path | None, pattern: str) -> Dumps | None:
    from lowtide.cli.dumps import Dumps
    from lowtide.cli.exit_codes import UsageError

    if directory is not None:
        return Dumps(directory, pattern)
    if pattern:
        raise UsageError("--dump-pass-re needs --dump-to")
    return None


def _draw(module: Module, path: Path, text: str) -> str:
    """Write the graph of a module to a file; return what is to be printed."""
    from lowtide.cli import console
    from lowtide.report.dot import dot_text

    drawn = dot_text(module)
    if str(path) == "-":
        return drawn
    console.write_file(path, lambda stream: stream.write(drawn.encode()))
    return text


def _run(
    module: Module, steps: Sequence[Step], until: int | None, dumps: Dumps | None, *, verify: bool
) -> list[dict[str, object]]:
    """Run passes over a module, and return a row of figures for each."""
    from lowtide.cli.exit_codes import VerificationError
    from lowtide.passes import run_pipeline
    from lowtide.passes.instrumentation import BrokenPassError, Checking, PassesUntil, Timing
    from lowtide.passes.pipeline import Observer
    from lowtide.verifier import verify as verify_module

    if steps:
        module.schedule = None
    dumping = None if dumps is None else dumps.observer
    timing = Timing()
    observers: list[Observer] = [timing]
    if until is not None:
        observers.insert(0, PassesUntil(until))
    if verify and steps:
        observers.append(Checking(verify_module, dumping))
    if dumping is not None:
        observers.append(dumping)
    try:
        run_pipeline(module, steps, observers)
    except BrokenPassError as error:
        raise VerificationError(str(error)) from error
    if steps and not verify:
        _verify(module)
    if dumps is not None:
        dumps.finish(module)
    return [
        {"pass": name, "runs": x.runs, "changes": x.changes, "seconds": round(x.seconds, 6)}
        for name, x in timing.passes.items()
    ]


def _verify(module: Module) -> None:
    """Raise VerificationError where passes left a module that is not valid."""
    from lowtide.cli.exit_codes import VerificationError
    from lowtide.ir import LowtideError
    from lowtide.verifier import verify

    try:
        verify(module)
    except LowtideError as error:
        raise VerificationError(
            f"a pass left a module that is not valid: {error}; --verify says which"
        ) from error


def _check(module: Module, text: str) -> None:
    """Raise VerificationError unless a text is a valid module that computes the same."""
    from lowtide.cli.exit_codes import VerificationError
    from lowtide.frontend.hlo_text import parse_hlo
    from lowtide.ir import LowtideError
    from lowtide.ir.printer import fingerprint
    from lowtide.verifier import verify

    try:
        again = parse_hlo(text, "<printed>")
        verify(again)
    except LowtideError as error:
        raise VerificationError(f"the printed module is not valid: {error}") from error
    if fingerprint(again) != fingerprint(module):
        raise VerificationError("the printed module differs from the one that was read")
