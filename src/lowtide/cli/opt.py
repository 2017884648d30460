"""`lowtide opt`: HLO to HLO text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lowtide.cli.arguments import JsonOption, ModuleArgument, StageOption

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lowtide.ir import Module
    from lowtide.passes import Step


def opt(
    module: ModuleArgument,
    passes: Annotated[
        str,
        typer.Option(
            metavar="LIST",
            help="The passes to run in turn, as `a,b{option=value}`; `lowtide passes` lists them.",
        ),
    ] = "",
    passes_until: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="Run the first N passes only, to find a wrong one."),
    ] = None,
    stage: StageOption = "input",
    verify: Annotated[
        bool,
        typer.Option(
            "--verify",
            help="Verify the module after each pass, and read the printed text back.",
        ),
    ] = False,
    json: JsonOption = False,
) -> None:
    """Print a module as HLO text, after passes or up to a stage.

    Protobuf becomes text too; constants are printed in full. The module is verified first. Passes
    leave no schedule. With --json the seconds, runs and changes of each pass stand beside the text.
    Exit status 4 says that --verify failed.
    """
    from lowtide.cli import console
    from lowtide.cli.exit_codes import UsageError
    from lowtide.cli.modules import load
    from lowtide.ir.printer import COMPLETE, to_text
    from lowtide.passes.registry import parse_passes
    from lowtide.pipelines import pipeline

    if passes and stage != "input":
        raise UsageError("--passes and --stage exclude each other")
    steps = parse_passes(passes) if passes else pipeline(stage)
    found = load(module)
    times = _run(found.module, steps, passes_until, verify=verify)
    text = to_text(found.module, COMPLETE)
    if verify:
        _check(found.module, text)
    if json:
        count = found.module.instruction_count
        document = {"module": found.module.name, "instructions": count, "passes": times}
        console.write_json({**document, "text": text})
        return
    console.write(text.removesuffix("\n"))


def _run(
    module: Module, steps: Sequence[Step], until: int | None, *, verify: bool
) -> list[dict[str, object]]:
    """Run passes over a module, and return a row of figures for each."""
    from lowtide.cli.exit_codes import VerificationError
    from lowtide.passes import run_pipeline
    from lowtide.passes.instrumentation import BrokenPassError, Checking, PassesUntil, Timing
    from lowtide.passes.pipeline import Observer
    from lowtide.verifier import verify as verify_module

    if not steps:
        return []
    module.schedule = None
    timing = Timing()
    observers: list[Observer] = [timing]
    if until is not None:
        observers.insert(0, PassesUntil(until))
    if verify:
        observers.append(Checking(verify_module))
    try:
        run_pipeline(module, steps, observers)
    except BrokenPassError as error:
        raise VerificationError(str(error)) from error
    return [
        {"pass": name, "runs": x.runs, "changes": x.changes, "seconds": round(x.seconds, 6)}
        for name, x in timing.passes.items()
    ]


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
