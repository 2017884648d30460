"""`lowtide passes`: the passes that `lowtide opt --passes` takes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from lowtide.cli.arguments import JsonOption

if TYPE_CHECKING:
    from lowtide.passes import Pass


def passes(
    name: Annotated[
        str, typer.Argument(metavar="[PASS]", help="Show this pass with its example only.")
    ] = "",
    json: JsonOption = False,
) -> None:
    """List the passes, or show one with HLO before and after."""
    from lowtide.cli import console
    from lowtide.options import display_for
    from lowtide.passes.registry import parse_passes
    from lowtide.passes.registry import passes as all_passes

    found = list(parse_passes(name)) if name else list(all_passes().values())
    if json:
        rows = [_row(step) for step in found]
        console.write_json({"schema": "lowtide.passes/1", "passes": rows})
        return
    display = display_for(sys.stdout)
    lines = _example(found[0]) if name else _table(found, color=display.color)
    console.write("\n".join(lines))


def _row(step: Pass) -> dict[str, object]:
    return {
        "name": step.name,
        "sentence": step.sentence,
        "options": dict(step.defaults),
        "before": step.before.strip(),
        "after": step.after.strip(),
    }


def _table(found: list[Pass], *, color: bool) -> list[str]:
    from lowtide.report.drawing import Paint

    paint = Paint(color=color)
    width = max([len(step.name) for step in found])
    lines = []
    for step in found:
        lines.append(f"{paint('title', f'{step.name:<{width}}')}  {step.sentence}")
        for option, default in step.defaults.items():
            lines.append(paint("dim", f"{'':<{width}}  {option}={default}"))
    return lines


def _example(step: Pass) -> list[str]:
    return [
        step.sentence,
        "",
        *step.before.strip().split("\n"),
        "",
        "becomes",
        "",
        *step.after.strip().split("\n"),
    ]
