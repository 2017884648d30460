"""A plan that is in a file as `lowtide explain` shows it, and the form of what is shown."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lowtide.records import dataclass

if TYPE_CHECKING:
    from lowtide.ir import Module
    from lowtide.report.plan_page import PlanPicture


@dataclass(frozen=True, slots=True)
class ExplainView:
    """What is shown of a report, and in which form."""

    json: bool
    limit: int | None
    by: str
    frames: str
    html: Path | None = None


def explain_plan(path: str | None, plan: str, view: ExplainView, *, compile_again: bool) -> None:
    """Report on a plan in a file, of the module in a file or of the one that it holds."""
    from lowtide.cli.modules import load

    given = None if path is None else load(path).module
    take_apart(plan, given, view, compile_again=compile_again)


def take_apart(plan: str, given: Module | None, view: ExplainView, *, compile_again: bool) -> None:
    """Report on a plan in a file, of the module given or of the one that it holds."""
    from pathlib import PurePath

    from lowtide.autopsy.autopsy import examine_plan
    from lowtide.autopsy.screen import autopsy_text
    from lowtide.cli import console
    from lowtide.cli.progress import progress
    from lowtide.frontend.plan_files import read_plan
    from lowtide.options import display_for
    from lowtide.verifier import verify

    with progress(f"reading {plan}"):
        found = read_plan(plan, given)
        verify(found.module)
    with progress(f"taking apart the plan of {found.module.name}"):
        examined = examine_plan(
            found.module,
            found.assignment,
            made_by_xla_cpu=found.made_by_xla and _is_for_cpu(PurePath(plan).name),
            compile_again=compile_again,
        )
    report = examined.report
    if view.html is not None:
        write_pictures(examined.pictures(), report.memory.module, autopsy_text(report), view.html)
    if view.frames == "all":
        report = report.in_all_frames()
    if view.json:
        console.write_json(report.to_json())
        return
    display = display_for(sys.stdout)
    text = autopsy_text(
        report, width=display.width, color=display.color, limit=view.limit, by=view.by
    )
    console.write(text)


def _is_for_cpu(name: str) -> bool:
    """Whether the name of a plan's file admits that it is one for CPUs: dumps name other targets.

    XLA's names of stages begin with that of the target, as in `cpu_after_optimizations`.
    """
    stage = name.partition("after_optimizations")[0].rpartition(".")[2]
    return stage in ("", "cpu_") or "after_optimizations" not in name


def write_pictures(pictures: Sequence[PlanPicture], title: str, summary: str, path: Path) -> None:
    """Draw plans side by side on a page."""
    from lowtide.cli import console
    from lowtide.report.plan_page import plan_html

    page = plan_html(pictures, title, summary).encode()
    console.write_file(path, lambda stream: stream.write(page))
