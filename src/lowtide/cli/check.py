"""`lowtide check`: a gate for CI, which fails where a peak rose."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from lowtide.cli.arguments import JsonOption


def check(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE.toml", help="A table [peaks.NAME] per program.", show_default=False
        ),
    ],
    update: Annotated[
        bool, typer.Option("--update", help="Lock the peaks of this run, in FILE.lock.json.")
    ] = False,
    json: JsonOption = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Write Markdown, for the page of a CI.")
    ] = False,
) -> None:
    """Compare the peaks of programs with limits and locked ones.

    A table has `module = "FILE"` or `python = "FILE.py:FUNCTION"`, and may have a `limit` such as
    "512MiB" and a `tolerance` such as "1%". A peak counts all memory of one call: arguments,
    outputs, constants, temporaries. The exit status is 2 where one is over its limit, or higher
    than the locked one by more than the tolerance; the diff then says what made it.
    """
    from lowtide.cli import console
    from lowtide.cli.exit_codes import OverBudgetError, UsageError
    from lowtide.cli.progress import progress
    from lowtide.comparison.gate import check as checked
    from lowtide.comparison.gate_text import gate_markdown, gate_text
    from lowtide.options import display_for

    if json and markdown:
        raise UsageError("--json and --markdown are two forms; give one of them")
    with progress(f"planning the programs of {file}"):
        result = checked(file, update=update)
    if json:
        console.write_json(result.to_json())
    elif markdown:
        console.write(gate_markdown(result))
    else:
        display = display_for(sys.stdout)
        console.write(gate_text(result, width=display.width, color=display.color))
    bad = [x for x in result.checks if not x.passes]
    if result.was_updated:
        bad = []
    elif update:
        console.note("nothing is locked")
    if bad:
        names = ", ".join([f"{x.name} {x.verdict.value}" for x in bad[:3]])
        more = f" and {len(bad) - 3} more" if len(bad) > 3 else ""
        raise OverBudgetError(f"{file}: {names}{more}")
