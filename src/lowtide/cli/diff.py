"""`lowtide diff`: what the peak of a program differs in from that of another one."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lowtide.cli.arguments import EffortOption, JsonOption, StageOption, option, taking
from lowtide.cli.shapes import ShapesOption, SizesOption
from lowtide.options import DEFAULT_STAGE
from lowtide.records import dataclass

if TYPE_CHECKING:
    from lowtide.report.plan_page import PlanPicture


@dataclass(frozen=True, slots=True)
class _DiffArguments:
    """The arguments and options of `lowtide diff`."""

    before: Annotated[
        str,
        typer.Argument(
            metavar="A",
            help="MODULE, XLA dump directory, plan, or what `explain --json` wrote.",
            show_default=False,
        ),
    ]
    after: Annotated[
        str, typer.Argument(metavar="B", help="The same of the other program.", show_default=False)
    ]
    sizes: SizesOption = None
    shapes: ShapesOption = None
    json: JsonOption = False
    markdown: Annotated[
        bool, option(None, "Write Markdown, for the page of a CI.", "--markdown")
    ] = False
    html: Annotated[Path | None, option("FILE", "Draw both plans on a page, side by side.")] = None
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="Parts that are listed.")] = 16
    stage: StageOption = DEFAULT_STAGE
    effort: EffortOption = "default"


@taking(_DiffArguments)
def diff(given: _DiffArguments) -> None:
    """Show what changed at the memory peak, and which line did it.

    Buffers are matched by the names and lines that they come from, never by number. The first line
    says how much the peak changed, and what made most of it; the parts sum to the difference.
    Modules are planned by lowtide; dump directories with a plan of XLA's count with that.
    """
    from lowtide.cli import console
    from lowtide.cli.exit_codes import UsageError
    from lowtide.cli.plan_request import effort_named
    from lowtide.cli.progress import progress
    from lowtide.cli.shapes import given_shapes, named_sizes
    from lowtide.comparison.sides import FreeSizes, drawn_side_of, side_of
    from lowtide.compiler import PlanOptions
    from lowtide.frontend.files import is_onnx
    from lowtide.options import display_for
    from lowtide.report.diff import diff_of
    from lowtide.report.diff_text import diff_markdown, diff_text
    from lowtide.search.effort import SearchOptions

    if given.json and given.markdown:
        raise UsageError("--json and --markdown are two forms; give one of them")
    free = FreeSizes(named_sizes(), given_shapes())
    if free != FreeSizes() and not (is_onnx(given.before) or is_onnx(given.after)):
        raise UsageError("--dim and --shape are for ONNX models; neither file is one")
    console.check_outputs(given.html)
    options = PlanOptions(given.stage, search=SearchOptions(effort_named(given.effort)))
    sides, pictures = [], []
    for path in (given.before, given.after):
        with progress(f"planning {path}"):
            if given.html is None:
                sides.append(side_of(path, path, options, free))
            else:
                side, picture = drawn_side_of(path, options, free)
                sides.append(side)
                pictures.append(picture)
    found = diff_of(*sides)
    if given.html is not None:
        _write_page(pictures, diff_text(found, limit=given.limit), given.html)
    if given.json:
        console.write_json(found.to_json())
    elif given.markdown:
        console.write(diff_markdown(found, given.limit))
    else:
        display = display_for(sys.stdout)
        console.write(diff_text(found, width=display.width, color=display.color, limit=given.limit))


def _write_page(pictures: Sequence[PlanPicture], text: str, path: Path) -> None:
    """Draw two plans side by side, under the text of their difference."""
    from lowtide.cli import console
    from lowtide.report.plan_page import plan_html

    names = " and ".join([x.title for x in pictures])
    page = plan_html(pictures, names, text).encode()
    console.write_file(path, lambda stream: stream.write(page))
