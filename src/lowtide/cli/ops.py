"""`lowtide ops`: the operations of HLO and what is known about them."""

from __future__ import annotations

import sys

from lowtide.cli.arguments import JsonOption

_COLUMNS = ("opcode", "family", "operands", "summary")


def ops(json: JsonOption = False) -> None:
    """List the operations of HLO: their families, operands and meaning.

    With --json also their attributes, called computations, and whether the result shape follows
    from the operands.
    """
    from lowtide.cli import console
    from lowtide.options import display_for
    from lowtide.ops.table import describe_table

    rows = describe_table()
    if json:
        console.write_json({"schema": "lowtide.ops/1", "ops": rows})
        return
    display = display_for(sys.stdout)
    console.write("\n".join(_table(rows, display.width, color=display.color)))


def _table(rows: list[dict[str, str]], width: int, *, color: bool) -> list[str]:
    from lowtide.report.drawing import Paint, elide_end

    paint = Paint(color=color)
    widths = {name: max([len(name), *[len(row[name]) for row in rows]]) for name in _COLUMNS}
    widths["summary"] = width - sum([widths[name] + 2 for name in _COLUMNS[:-1]])
    header = "  ".join([f"{name:<{widths[name]}}" for name in _COLUMNS]).rstrip()
    lines = [paint("dim", header)]
    for row in rows:
        cells = [f"{row[name]:<{widths[name]}}" for name in _COLUMNS[:-1]]
        cells.append(elide_end(row["summary"], widths["summary"]))
        lines.append("  ".join(cells).rstrip())
    return lines
