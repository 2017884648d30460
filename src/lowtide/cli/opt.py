"""`lowtide opt`: HLO to HLO text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lowtide.cli.arguments import JsonOption, ModuleArgument, StageOption

if TYPE_CHECKING:
    from lowtide.ir import Module


def opt(
    module: ModuleArgument,
    passes: Annotated[
        str, typer.Option(metavar="LIST", help="The passes to run; there are none so far.")
    ] = "",
    stage: StageOption = "input",
    verify: Annotated[
        bool, typer.Option("--verify", help="Read the text back and check that it says the same.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Print a module as canonical HLO text.

    Protobuf becomes text too; constants are printed in full. The module is verified first. Exit
    status 4 says that --verify failed.
    """
    from lowtide.cli import console
    from lowtide.cli.exit_codes import UsageError
    from lowtide.cli.modules import load
    from lowtide.compiler import STAGES
    from lowtide.ir.printer import COMPLETE, to_text

    if passes:
        raise UsageError(f"no pass {passes.split(',')[0]!r}: there are no passes yet")
    if stage not in STAGES:
        raise UsageError(f"no stage {stage!r}; there are: {', '.join(STAGES)}")
    found = load(module)
    text = to_text(found.module, COMPLETE)
    if verify:
        _check(found.module, text)
    if json:
        count = found.module.instruction_count
        console.write_json({"module": found.module.name, "instructions": count, "text": text})
        return
    console.write(text.removesuffix("\n"))


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
