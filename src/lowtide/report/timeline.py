"""The buffers of a plan over time and addresses, for the viewers of others."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from typing import Any, Final

from lowtide.records import dataclass
from lowtide.report.drawing import harmless


@dataclass(frozen=True, slots=True)
class TimelineBuffer:
    """A buffer for as long as it is taken: from the first to the last step, both included.

    `offset` is that in the arena; -1 for what lies in the memory of an argument. `place` is a line
    of the user's program, "" where unknown.
    """

    name: str
    shape: str
    place: str
    nbytes: int
    offset: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Timeline:
    """The steps of a module, the bytes that are live at each, and its buffers by first step."""

    module: str
    steps: tuple[str, ...]
    live_bytes: tuple[int, ...]
    buffers: tuple[TimelineBuffer, ...]


# -- CSV -----------------------------------------------------------------------------------------


def timeline_csv(timeline: Timeline) -> str:
    """Return the buffers of the arena in MiniMalloc's format, with offsets; `upper` is excluded."""
    lines = ["id,lower,upper,size,offset"]
    inside = [x for x in timeline.buffers if x.offset >= 0]
    for number, buffer in enumerate(inside):
        columns = (number, buffer.first, buffer.last + 1, buffer.nbytes, buffer.offset)
        lines.append(",".join(map(str, columns)))
    return "\n".join(lines) + "\n"


# -- Chrome's trace event format ------------------------------------------------------------------

_STEP_MICROSECONDS: Final = 1
"""A step lasts as long in traces: they show order, not time."""


def timeline_chrome(timeline: Timeline) -> str:
    """Return JSON in the trace event format of Chrome: live bytes, steps, and a bar per buffer."""
    return json.dumps({"displayTimeUnit": "ns", "traceEvents": list(_events(timeline))}) + "\n"


def _events(timeline: Timeline) -> Iterator[dict[str, Any]]:
    yield {
        "ph": "M",
        "name": "process_name",
        "pid": 1,
        "tid": 0,
        "args": {"name": harmless(timeline.module)},
    }
    for position, nbytes in enumerate(timeline.live_bytes):
        yield {
            "ph": "C",
            "name": "live bytes",
            "pid": 1,
            "tid": 0,
            "ts": position * _STEP_MICROSECONDS,
            "args": {"bytes": nbytes},
        }
    for position, name in enumerate(timeline.steps):
        yield _slice(name, 1, position, position, {})
    for lane, buffers in enumerate(lanes(timeline.buffers)):
        for x in buffers:
            about = {"bytes": x.nbytes, "offset": x.offset, "shape": x.shape, "source": x.place}
            yield _slice(x.name, lane + 2, x.first, x.last, about)


def _slice(
    name: str, thread: int, first: int, last: int, about: dict[str, object]
) -> dict[str, Any]:
    return {
        "ph": "X",
        "name": harmless(name),
        "pid": 1,
        "tid": thread,
        "ts": first * _STEP_MICROSECONDS,
        "dur": (last - first + 1) * _STEP_MICROSECONDS,
        "args": {key: harmless(x) if isinstance(x, str) else x for key, x in about.items()},
    }


def lanes(buffers: Sequence[TimelineBuffer]) -> list[list[TimelineBuffer]]:
    """Return buffers in as few lanes as can be, in none of which two are taken at once."""
    found: list[list[TimelineBuffer]] = []
    free: list[tuple[int, int]] = []
    for buffer in sorted(buffers, key=lambda x: (x.first, -x.nbytes, x.name)):
        if free and free[0][0] < buffer.first:
            _, lane = heappop(free)
        else:
            lane = len(found)
            found.append([])
        found[lane].append(buffer)
        heappush(free, (buffer.last, lane))
    return found
