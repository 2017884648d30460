"""The values of a plan as a table: comma-separated, one line each, with live ranges and uses."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Final

from lowtide.ir import Instruction
from lowtide.ir.buffer import AssignedValue, BufferAssignment
from lowtide.xla.analysis.hlo_dataflow import HloDataflow
from lowtide.xla.dumps.buffer_assignment import value_text

_COLUMNS: Final = (
    "buffer_id",
    "buffer_name",
    "offset",
    "size",
    "definition_time",
    "end_time",
    "num_uses",
    "use_times",
    "use_names",
)


def buffer_info_csv(
    assignment: BufferAssignment,
    dataflow: HloDataflow,
    times: Mapping[Instruction, int],
    live: Mapping[int, tuple[int, int]] | None = None,
) -> str:
    """Return the values by time of definition, then number; XLA calls this the buffer info.

    `times` are the positions of instructions in the flat schedule, `live` the live ranges of
    values by number, both ends included; by default those of the plan, and a value without one has
    empty fields. Uses stand in order of time, separated by semicolons.
    """
    ranges = _ranges(assignment, live)
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(_COLUMNS)
    ordered = sorted(
        assignment.values, key=lambda x: (*ranges.get(x.number, (-1, -1))[:1], x.number)
    )
    for value in ordered:
        colour = assignment.allocations[value.place.allocation].colour
        first, last = ranges.get(value.number, ("", ""))
        uses = _uses(value, dataflow, times)
        writer.writerow(
            [
                value.number,
                value_text(value, colour),
                value.place.offset,
                value.place.nbytes,
                first,
                last,
                len(uses),
                ";".join([str(time) for time, _ in uses]),
                ";".join([name for _, name in uses]),
            ]
        )
    return stream.getvalue()


def _ranges(
    assignment: BufferAssignment, live: Mapping[int, tuple[int, int]] | None
) -> Mapping[int, tuple[int, int]]:
    if live is not None:
        return live
    return {x.number: x.live for x in assignment.values if x.live is not None}


def _uses(
    value: AssignedValue, dataflow: HloDataflow, times: Mapping[Instruction, int]
) -> Sequence[tuple[int, str]]:
    """The uses that have a time: those outside of fusions and of what is applied per element."""
    found = dataflow.defined_at(value.instruction, value.index)
    if found is None:
        return ()
    uses = [
        (times[use.instruction], use.instruction.name)
        for use in found.uses
        if use.instruction in times
    ]
    return sorted(dict.fromkeys(uses))
