"""`lowtide passes`: the passes that `lowtide opt --passes` takes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from lowtide.cli.arguments import JsonOption

if TYPE_CHECKING:
    from lowtide.passes import Pass


def passes(
    names: Annotated[
        str,
        typer.Argument(
            metavar="[PASSES]", help="Show only these, with their examples; a list as `a,b`."
        ),
    ] = "",
    json: JsonOption = False,
) -> None:
    """List the passes, or show some with HLO before and after."""
    from lowtide.cli import console
    from lowtide.options import display_for
    from lowtide.passes.registry import parse_passes
    from lowtide.passes.registry import passes as all_passes

    found = list(parse_passes(names)) if names else list(all_passes().values())
    if json:
        rows = [_row(step) for step in found]
        console.write_json({"schema": "lowtide.passes/1", "passes": rows})
        return
    display = display_for(sys.stdout)
    if not names:
        console.write("\n".join(_table(found, color=display.color)))
        return
    shown = ["\n".join([*_table([x], color=display.color), *_example(x)]) for x in found]
    console.write("\n\n\n".join(shown))


def _row(step: Pass) -> dict[str, object]:
    return {
        "name": step.name,
        "sentence": step.sentence,
        "options": dict(step.defaults),
        "meanings": dict(step.meanings),
        "before": step.before.strip(),
        "after": _after(step),
    }


def _table(found: list[Pass], *, color: bool) -> list[str]:
    from lowtide.passes.interface import value_text
    from lowtide.report.drawing import Paint

    paint = Paint(color=color)
    width = max([len(step.name) for step in found])
    lines = []
    for step in found:
        lines.append(f"{paint('title', f'{step.name:<{width}}')}  {step.sentence}")
        meanings = dict(step.meanings)
        for option, default in step.defaults.items():
            text = f"{option}={value_text(default)}  {meanings.get(option, '')}"
            lines.append(paint("dim", f"{'':<{width}}  {text.rstrip()}"))
    return lines


def _example(step: Pass) -> list[str]:
    """The lines of HLO before and after; none for a pass of another package without an example."""
    if not step.before:
        return []
    lines = ["", *step.before.strip().split("\n"), "", "becomes", ""]
    return [*lines, *_after(step).split("\n")]


def _after(step: Pass) -> str:
    """The HLO after a pass: as its example has it, otherwise what it makes of the HLO before."""
    if step.after or not step.before:
        return step.after.strip()
    from lowtide.frontend.hlo_text import parse_hlo

    module = parse_hlo(step.before)
    step.run(module)
    return str(module).strip()
