"""`lowtide diff`: what the peak of a program differs in from that of another one."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from lowtide.cli.arguments import EffortOption, JsonOption, StageOption
from lowtide.options import DEFAULT_STAGE


def diff(
    before: Annotated[
        str,
        typer.Argument(
            metavar="A",
            help="MODULE, XLA dump directory, plan, or what `explain --json` wrote.",
            show_default=False,
        ),
    ],
    after: Annotated[
        str,
        typer.Argument(metavar="B", help="The same of the other program.", show_default=False),
    ],
    json: JsonOption = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Write Markdown, for the page of a CI.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="Parts that are listed.")] = 16,
    stage: StageOption = DEFAULT_STAGE,
    effort: EffortOption = "default",
) -> None:
    """Show what changed at the memory peak, and which line did it.

    Buffers are matched by the names and lines that they come from, never by number. The first line
    says how much the peak changed, and what made most of it; the parts sum to the difference.
    Modules are planned by lowtide; dump directories with a plan of XLA's count with that.
    """
    from lowtide.cli import console
    from lowtide.cli.exit_codes import UsageError
    from lowtide.cli.plan_request import effort_named
    from lowtide.cli.progress import progress
    from lowtide.comparison.sides import side_of
    from lowtide.compiler import PlanOptions
    from lowtide.options import display_for
    from lowtide.report.diff import diff_of
    from lowtide.report.diff_text import diff_markdown, diff_text
    from lowtide.search.effort import SearchOptions

    if json and markdown:
        raise UsageError("--json and --markdown are two forms; give one of them")
    options = PlanOptions(stage, search=SearchOptions(effort_named(effort)))
    sides = []
    for path in (before, after):
        with progress(f"planning {path}"):
            sides.append(side_of(path, path, options))
    found = diff_of(*sides)
    if json:
        console.write_json(found.to_json())
    elif markdown:
        console.write(diff_markdown(found, limit))
    else:
        display = display_for(sys.stdout)
        console.write(diff_text(found, width=display.width, color=display.color, limit=limit))
