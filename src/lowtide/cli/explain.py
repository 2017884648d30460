"""`lowtide explain`: what the peak of a module is made of."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from lowtide.cli.arguments import JsonOption, ModuleArgument, StageOption


def explain(
    module: ModuleArgument,
    json: JsonOption = False,
    limit: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Rows of the table, instead of what fits."),
    ] = None,
    stage: StageOption = "input",
) -> None:
    """Show what the memory peak is made of and what bounds it.

    A scheduled module keeps its order, any other one is scheduled first. All sizes are proved
    or counted, not measured: nothing is run.
    """
    from lowtide import compiler
    from lowtide.cli import console
    from lowtide.cli.modules import load
    from lowtide.cli.progress import progress
    from lowtide.options import display_for
    from lowtide.report.text import explain_text

    found = load(module)
    with progress(f"planning {found.module.name}"):
        report = compiler.explain(found.module, stage)
    if json:
        console.write_json(report.to_json())
        return
    display = display_for(sys.stdout)
    console.write(explain_text(report, width=display.width, color=display.color, limit=limit))
