"""`lowtide ops`: the operations of HLO and what is known about them."""

from __future__ import annotations

import sys
from textwrap import wrap

from lowtide.cli.arguments import JsonOption


def ops(json: JsonOption = False) -> None:
    """List the operations of HLO, with operands and meaning.

    With --json also their attributes, called computations, and whether the result shape follows
    from the operands.
    """
    from lowtide.cli import console
    from lowtide.evaluator.custom_call import CUSTOM_CALL_TARGETS
    from lowtide.ops.table import describe_table
    from lowtide.options import display_for
    from lowtide.report.drawing import Paint

    rows = describe_table()
    targets = sorted(CUSTOM_CALL_TARGETS)
    if json:
        document = {"schema": "lowtide.ops/1", "ops": rows, "custom_call_targets": targets}
        console.write_json(document)
        return
    display = display_for(sys.stdout)
    lines = _table(rows, display.width, color=display.color)
    title = Paint(color=display.color)("title", "custom-call targets that run")
    names = wrap(", ".join(targets), display.width - 2)
    console.write("\n".join([*lines, title, *[f"  {line}" for line in names]]))


def _table(rows: list[dict[str, str]], width: int, *, color: bool) -> list[str]:
    """The operations by family: opcode, number of operands, and meaning."""
    from lowtide.report.drawing import Paint, elide_end

    paint = Paint(color=color)
    names = max([len(row["opcode"]) for row in rows])
    operands = max([len("operands"), *[len(row["operands"]) for row in rows]])
    families = dict.fromkeys([row["family"] for row in rows])
    lines = [paint("dim", f"  {'':<{names}}  {'operands':<{operands}}  result")]
    for family in families:
        lines.append(paint("title", family))
        for row in rows:
            if row["family"] == family:
                summary = elide_end(row["summary"], width - names - operands - 6)
                lines.append(
                    f"  {row['opcode']:<{names}}  {row['operands']:<{operands}}  {summary}"
                )
    return lines
