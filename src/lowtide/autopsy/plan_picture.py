"""The picture of a plan that another compiler made, to be drawn beside one of our own."""

from __future__ import annotations

from itertools import accumulate

import numpy as np

from lowtide.analysis.flat_schedule import FlatSchedule
from lowtide.analysis.live_range import memory_profile
from lowtide.autopsy.plan_profile import taken_slices
from lowtide.ir.buffer import Allocation, AllocationKind, BufferAssignment
from lowtide.report.memory import MemoryReport
from lowtide.report.peak_making import HeldValue, held_buffers
from lowtide.report.plan_page import PictureBuffer, PlanPicture

_ALIGNMENT = 64


def picture_of_plan(
    flat: FlatSchedule, assignment: BufferAssignment, report: MemoryReport, label: str
) -> PlanPicture:
    """Return the picture of a plan; `report` has its figures, `label` says whose it is.

    The allocations of a call lie one above the other, since a plan has no order of them.
    """
    slices = taken_slices(flat, assignment)
    start = _starts(assignment)
    known = held_buffers(flat, [HeldValue(x.value, x.place.nbytes, x.kind) for x in slices])
    buffers = [
        PictureBuffer(
            about,
            x.place.nbytes,
            start[x.place.allocation] + x.place.offset if x.place.allocation in start else -1,
            x.first,
            x.last,
        )
        for x, about in zip(slices, known, strict=True)
    ]
    buffers.sort(key=lambda x: (x.first, x.last, x.held.name))
    rows = np.array([(x.nbytes, x.first, x.last) for x in buffers], np.int64).reshape(-1, 3)
    live = memory_profile(max(1, flat.length), rows[:, 0], rows[:, 1], rows[:, 2])
    return PlanPicture(
        report,
        tuple([x.name for x in flat.instructions]),
        tuple([int(x) for x in live]),
        report.ladder.bound_bytes + report.alias_bytes,
        tuple(buffers),
        label,
    )


def _starts(assignment: BufferAssignment) -> dict[int, int]:
    """Where each allocation of a call is drawn, by its index; arguments are not."""
    drawn: list[Allocation] = [
        x
        for x in assignment.allocations
        if x.kind in (AllocationKind.ARENA, AllocationKind.OUTPUT) and x.parameter is None
    ]
    sizes = [-(-x.nbytes // _ALIGNMENT) * _ALIGNMENT for x in drawn]
    places = accumulate(sizes, initial=0)
    return {x.index: place for x, place in zip(drawn, places, strict=False)}
