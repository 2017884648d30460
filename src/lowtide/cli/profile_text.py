"""`lowtide run --profile`: the time per thunk, with what it achieves, as a table and as JSON."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from lowtide.cli.runs import duration

if TYPE_CHECKING:
    from lowtide.inspection.peaks import Peaks
    from lowtide.inspection.profile import Profile, ThunkTime

_ROWS: Final = 30
_NAME: Final = 36
_SOURCE: Final = 20
_HEADER: Final = ("thunk", "source", "calls", "total", "share", "GFLOP/s", "GB/s", "of peak")


def profile_table(found: Profile, measured: Peaks) -> list[str]:
    """Return a line on the peaks, and the table of the thunks that take most time."""
    rows = [_HEADER, *[_cells(x, found.seconds, measured) for x in found.rows[:_ROWS]]]
    widths = [max([len(row[i]) for row in rows]) for i in range(len(_HEADER))]
    lines = [
        f"{duration(found.seconds)} in thunks, one after the other; peaks measured with "
        f"{measured.threads} threads: {measured.flops / 1e9:,.0f} GFLOP/s (f32 multiply-add), "
        f"{measured.copied_bytes / 1e9:,.1f} GB/s (copy)"
    ]
    if found.bundled:
        lines.append(
            f"{found.bundled:,} of the thunks run in bundles in an ordinary call, and take less "
            "time there than here, where each is timed by itself"
        )
    for row in rows:
        left = [f"{cell:<{width}}" for cell, width in zip(row[:2], widths[:2], strict=True)]
        right = [f"{cell:>{width}}" for cell, width in zip(row[2:], widths[2:], strict=True)]
        lines.append("  ".join([*left, *right]).rstrip())
    if len(found.rows) > _ROWS:
        rest = sum([x.seconds for x in found.rows[_ROWS:]])
        more = len(found.rows) - _ROWS
        lines.append(f"and {more:,} more in {duration(rest)}; --json or --trace has all")
    return lines


def _cells(row: ThunkTime, total: float, measured: Peaks) -> tuple[str, ...]:
    from lowtide.report.drawing import elide, elide_start

    source = "" if row.source is None else f"{PurePath(row.source.file).name}:{row.source.line}"
    flops, nbytes = _rates(row)
    of_peak = max(flops / measured.flops, nbytes / measured.copied_bytes)
    name = row.name if row.kind == "kernel" else f"{row.name} ({row.kind})"
    return (
        elide(name, _NAME),
        elide_start(source, _SOURCE),
        f"{row.calls:,.0f}",
        duration(row.seconds),
        f"{row.seconds / total:.1%}" if total else "-",
        f"{flops / 1e9:,.1f}" if flops else "-",
        f"{nbytes / 1e9:,.1f}" if nbytes else "-",
        f"{of_peak:.0%}" if of_peak else "-",
    )


def _rates(row: ThunkTime) -> tuple[float, float]:
    """Arithmetic operations and bytes per second."""
    if not row.seconds:
        return 0.0, 0.0
    return row.flops / row.seconds, row.nbytes / row.seconds


def profile_json(found: Profile, measured: Peaks) -> dict[str, object]:
    """Return the entry of the JSON document."""
    from lowtide.report.schema import source_json

    return {
        "runs": found.runs,
        "seconds": found.seconds,
        "bundled_thunks": found.bundled,
        "peaks": {
            "threads": measured.threads,
            "flops_per_second": measured.flops,
            "copied_bytes_per_second": measured.copied_bytes,
        },
        "thunks": [
            {
                "name": x.name,
                "kind": x.kind,
                "opcode": x.opcode,
                "source": source_json(x.source),
                "calls": x.calls,
                "seconds": x.seconds,
                "flops": x.flops,
                "bytes": x.nbytes,
            }
            for x in found.rows
        ],
    }
