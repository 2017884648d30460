"""The memory report as Markdown, for the page of a CI or an issue."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Final

from lowtide.report.diff_text import escaped
from lowtide.report.grouping import groups_of
from lowtide.report.memory import MemoryReport
from lowtide.report.peak_table import place_text, step_text
from lowtide.report.units import percentage, unit_for
from lowtide.report.what_if import what_if_rows

_ROWS: Final = 8


def memory_markdown(report: MemoryReport, limit: int = _ROWS) -> str:
    """Return the report as Markdown, with `limit` rows of the peak; names from files are escaped.

    It ends with a newline.
    """
    unit, ladder = unit_for(report.total_bytes), report.ladder
    proof = "optimal" if ladder.optimal else f"bound {unit.text(ladder.bound_bytes)}"
    need = f"{unit.text(ladder.arena_bytes)} beyond its arguments ({proof})"
    lines = [f"**{escaped(report.module)}**: {unit.text(report.total_bytes)} in all, {need}", ""]
    causes = [
        [x.kind.value, unit.number(x.nbytes), percentage(x.nbytes, report.total_bytes)]
        for x in report.causes
    ]
    lines += [*_table(["cause", unit.name, "share"], causes), ""]
    peak = report.peak
    lines += [f"At the peak, step {step_text(peak.position)} of {report.steps:,}:", ""]
    groups = [
        [
            unit.number(x.nbytes),
            f"{len(x.buffers):,} x {x.buffers[0].shape}",
            x.label if x.source is None else place_text(x.source),
        ]
        for x in islice(groups_of(peak.buffers), limit)
    ]
    lines += _table([unit.name, "buffers", "made at"], groups)
    if report.what_if is not None and report.what_if.changes:
        heads = ["change", "bytes less", "peak", "bound", "time", "write", "where"]
        lines += ["", "What if:", "", *_table(heads, what_if_rows(report.what_if))]
    return "\n".join(lines) + "\n"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    found = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    return [*found, *[f"| {' | '.join(map(escaped, row))} |" for row in rows]]
