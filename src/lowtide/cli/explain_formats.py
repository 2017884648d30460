"""`lowtide explain --format NAME`: a plan in the formats of other viewers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from lowtide.compiler import ModulePlan
from lowtide.compiler.picture import picture_of
from lowtide.report.memory_markdown import memory_markdown
from lowtide.report.memory_viz import memory_viz
from lowtide.report.peak_table import place_text
from lowtide.report.perfetto import timeline_perfetto
from lowtide.report.timeline import Timeline, TimelineBuffer, timeline_chrome, timeline_csv

FORMATS: Final[Mapping[str, Callable[[ModulePlan], bytes]]] = {
    "chrome": lambda plan: timeline_chrome(timeline_of(plan)).encode(),
    "csv": lambda plan: timeline_csv(timeline_of(plan)).encode(),
    "markdown": lambda plan: memory_markdown(plan.report).encode(),
    "memory_viz": lambda plan: memory_viz(picture_of(plan)),
    "perfetto": lambda plan: timeline_perfetto(timeline_of(plan)),
}
"""What writes a plan, by the name of its format."""

_BINARY: Final = frozenset({"memory_viz", "perfetto"})


def write_timeline(plan: ModulePlan, name: str, output: Path | None) -> None:
    """Write the plan in a format to a file, or to standard output where that is text.

    Raises UsageError for a binary format without a file.
    """
    from lowtide.cli import console
    from lowtide.cli.exit_codes import UsageError

    if output is None and name in _BINARY:
        raise UsageError(f"--format {name} is binary; name a file with -o")
    data = FORMATS[name](plan)
    if output is None:
        sys.stdout.write(data.decode())
        return
    console.write_file(output, lambda stream: stream.write(data))


def timeline_of(plan: ModulePlan) -> Timeline:
    """Return the buffers of a plan over time; each is named after the first value in it."""
    from lowtide.planning import ARENA

    ranges, packed = plan.ranges, plan.packed
    flat, values = ranges.flat, ranges.flat.values
    first: dict[int, int] = {}
    for value, buffer in enumerate(ranges.colocation.buffer_of):
        known = first.get(buffer)
        if known is None or values.first[value] < values.first[known]:
            first[buffer] = value
    buffers = []
    rows = zip(ranges.buffer.tolist(), ranges.first.tolist(), ranges.last.tolist(), strict=True)
    for buffer, begin, end in rows:
        nbytes = int(ranges.nbytes[buffer])
        if not nbytes:
            continue
        in_arena = packed.region[buffer] == ARENA and packed.colour[buffer] == 0
        offset = int(packed.offset[buffer]) if in_arena else -1
        held = first.get(buffer)
        if held is None:
            buffers.append(TimelineBuffer("scratch", "", "", nbytes, offset, begin, end))
            continue
        maker = values.maker[held]
        shape = [x for _, x in maker.shape.leaves()][values.leaf[held]]
        source = maker.source
        place = "" if source is None or not source.file else place_text(source)
        text = shape.text(layout=False)
        buffers.append(TimelineBuffer(maker.name, text, place, nbytes, offset, begin, end))
    buffers.sort(key=lambda x: (x.first, x.last, x.name))
    steps = tuple([x.name for x in flat.instructions])
    live = tuple([int(x) for x in ranges.profile])
    return Timeline(plan.module.name, steps, live, tuple(buffers))
