"""`lowtide explain`: what the peak of a module is made of, or of a plan that another one made."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from lowtide.cli.arguments import (
    DeadlineOption,
    EffortOption,
    JsonOption,
    ReoptimizeOption,
    StageOption,
)
from lowtide.options import DEFAULT_STAGE

if TYPE_CHECKING:
    from lowtide.search.effort import Effort


def explain(
    module: Annotated[
        str | None,
        typer.Argument(
            metavar="MODULE",
            help="HLO text (.hlo, .txt), protobuf (.pb), either with .xz or .gz, an XLA dump "
            "directory, or - for standard input. Not needed where --plan has the module in it.",
            show_default=False,
        ),
    ] = None,
    json: JsonOption = False,
    limit: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Rows of the table, instead of what fits."),
    ] = None,
    stage: StageOption = DEFAULT_STAGE,
    reoptimize: ReoptimizeOption = False,
    effort: EffortOption = "default",
    deadline: DeadlineOption = None,
    plan: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Take this plan of the module apart: a BufferAssignmentProto or HloProto of XLA, "
            "or what `lowtide plan -o` wrote.",
        ),
    ] = None,
    no_compile: Annotated[
        bool,
        typer.Option(
            "--no-compile",
            help="With --plan: only predict what would lower it, also where jax is installed.",
        ),
    ] = False,
) -> None:
    """Show what the memory peak is made of and what bounds it.

    A scheduled module is taken as it is, any other one is optimized and scheduled first; the stage
    `input` only schedules it. With --plan, the report is
    on that plan: how far it is from what other plans of the same program need, why, and what would
    lower it. All sizes are proved or counted, not measured: nothing is run.
    """
    from lowtide.cli.exit_codes import UsageError
    from lowtide.cli.plan_request import effort_named

    request = _Request(stage, effort_named(effort), deadline, reoptimize)
    if plan is not None:
        if request != _Request(DEFAULT_STAGE, effort_named("default"), None, False):
            raise UsageError(
                "--stage, --reoptimize, --effort and --deadline are for a plan that is to be made; "
                "leave out --plan"
            )
        _explain_plan(module, plan, json=json, limit=limit, compile_again=not no_compile)
    elif module is None:
        raise UsageError("Missing argument 'MODULE'. See 'lowtide explain --help'.")
    else:
        _explain_module(module, request, json=json, limit=limit)


@dataclass(frozen=True, slots=True)
class _Request:
    """How a module is to be planned."""

    stage: str
    effort: Effort
    deadline: float | None
    reoptimize: bool


def _explain_module(path: str, request: _Request, *, json: bool, limit: int | None) -> None:
    from lowtide import compiler
    from lowtide.cli import console
    from lowtide.cli.interrupts import ending_at
    from lowtide.cli.modules import load
    from lowtide.cli.progress import progress
    from lowtide.options import display_for
    from lowtide.report.text import explain_text
    from lowtide.search.effort import SearchOptions

    found = load(path, reoptimize=request.reoptimize)
    with progress(f"planning {found.module.name}"), ending_at(request.deadline) as ends:
        search = SearchOptions(request.effort, ends)
        report = compiler.explain(found.module, compiler.PlanOptions(request.stage, search=search))
    if json:
        console.write_json(report.to_json())
    else:
        display = display_for(sys.stdout)
        console.write(explain_text(report, width=display.width, color=display.color, limit=limit))
    if ends.was_interrupted:
        raise KeyboardInterrupt


def _explain_plan(
    path: str | None, plan: str, *, json: bool, limit: int | None, compile_again: bool
) -> None:
    from lowtide.autopsy.autopsy import explain_plan
    from lowtide.autopsy.screen import autopsy_text
    from lowtide.cli import console
    from lowtide.cli.modules import load
    from lowtide.cli.progress import progress
    from lowtide.frontend.plan_files import read_plan
    from lowtide.options import display_for
    from lowtide.verifier import verify

    given = None if path is None else load(path).module
    with progress(f"reading {plan}"):
        found = read_plan(plan, given)
        verify(found.module)
    with progress(f"taking apart the plan of {found.module.name}"):
        report = explain_plan(
            found.module,
            found.assignment,
            made_by_xla_cpu=found.made_by_xla,
            compile_again=compile_again,
        )
    if json:
        console.write_json(report.to_json())
        return
    display = display_for(sys.stdout)
    console.write(autopsy_text(report, width=display.width, color=display.color, limit=limit))
