"""`--trace FILE`: when each thunk of a run, or of a simulated step, ran, as Chrome's trace events.

Perfetto reads it, too: Google, "Trace Event Format".
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from lowtide.report.drawing import harmless

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lowtide.client.executable import Executable
    from lowtide.inspection.profile import Profile, ThunkTime
    from lowtide.overlap.summary import StepSlice

_COMPILING: Final = 1
_RUNNING: Final = 2


def trace_json(executable: Executable, found: Profile) -> str:
    """Return the trace of one call: a slice per run of a thunk, and those of compiling before."""
    events = [_named(_COMPILING, "compiling"), _named(_RUNNING, executable.name)]
    begin = 0.0
    for stage, seconds in executable.making.seconds.items():
        events.append(_slice(_COMPILING, stage, begin, 1e6 * seconds, {}))
        begin += 1e6 * seconds
    start = min([x.begin for x in found.spans], default=0)
    for span in sorted(found.spans, key=lambda x: (x.begin, -x.end)):
        at = begin + (span.begin - start) / 1e3
        row = found.rows_by_number[span.number]
        took = (span.end - span.begin) / 1e3
        events.append(_slice(_RUNNING, span.name, at, took, _arguments(row)))
    return json.dumps({"displayTimeUnit": "ns", "traceEvents": events}) + "\n"


def step_trace_json(names: Sequence[str], slices: Sequence[StepSlice]) -> str:
    """Return the trace of a simulated step: the device and its links, each a process."""
    events = [_named(1 + track, name) for track, name in enumerate(names)]
    events += [
        _slice(1 + x.track, x.name, 1e6 * x.begin, 1e6 * x.seconds, {"opcode": x.opcode})
        for x in slices
    ]
    return json.dumps({"displayTimeUnit": "ns", "traceEvents": events}) + "\n"


def _named(process: int, name: str) -> dict[str, Any]:
    return {
        "ph": "M",
        "name": "process_name",
        "pid": process,
        "tid": 1,
        "args": {"name": harmless(name)},
    }


def _slice(
    process: int, name: str, begin: float, duration: float, arguments: dict[str, Any]
) -> dict[str, Any]:
    """One slice; times in microseconds."""
    return {
        "ph": "X",
        "name": harmless(name),
        "pid": process,
        "tid": 1,
        "ts": round(begin, 3),
        "dur": round(duration, 3),
        "args": arguments,
    }


def _arguments(row: ThunkTime) -> dict[str, Any]:
    found: dict[str, Any] = {"kind": row.kind, "opcode": row.opcode}
    if row.source is not None:
        found["source"] = harmless(f"{row.source.file}:{row.source.line}")
    if row.calls and (row.flops or row.nbytes):
        found |= {"flops": row.flops / row.calls, "bytes": row.nbytes / row.calls}
    return found
