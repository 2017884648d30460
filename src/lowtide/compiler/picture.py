"""The picture of a plan: its steps, live bytes, and all buffers with where they come from."""

from __future__ import annotations

from dataclasses import replace

from lowtide.analysis.live_range import LiveRanges
from lowtide.compiler.pipeline import ModulePlan
from lowtide.planning import ARENA
from lowtide.report.peak import PeakBuffer
from lowtide.report.peak_making import HeldValue, PeakContext, held_buffers
from lowtide.report.plan_page import PictureBuffer, PlanPicture


def picture_of(plan: ModulePlan) -> PlanPicture:
    """Return the picture of a plan; each buffer is named after the first value in it."""
    report = plan.report
    ranges, packed = plan.ranges, plan.packed
    held = _held(ranges)
    copies = {} if report.execution is None else {x.copy: x for x in report.execution.copies}
    known = held_buffers(ranges.flat, list(held.values()), PeakContext(copies))
    about = dict(zip(held, known, strict=True))
    buffers = []
    rows = zip(ranges.buffer.tolist(), ranges.first.tolist(), ranges.last.tolist(), strict=True)
    for buffer, first, last in rows:
        nbytes = int(ranges.nbytes[buffer])
        if not nbytes:
            continue
        in_arena = packed.region[buffer] == ARENA and packed.colour[buffer] == 0
        offset = int(packed.offset[buffer]) if in_arena else -1
        found = about.get(buffer) or _scratch(plan, first, nbytes)
        buffers.append(PictureBuffer(found, nbytes, offset, first, last))
    buffers.sort(key=lambda x: (x.first, x.last, x.held.name))
    steps = tuple([x.name for x in ranges.flat.instructions])
    live = tuple([int(x) for x in ranges.profile])
    bound = report.ladder.bound_bytes + report.alias_bytes
    return PlanPicture(report, steps, live, bound, tuple(buffers))


def _held(ranges: LiveRanges) -> dict[int, HeldValue]:
    """The first value in each buffer."""
    values, colocation = ranges.flat.values, ranges.colocation
    first: dict[int, int] = {}
    for value, buffer in enumerate(colocation.buffer_of):
        known = first.get(buffer)
        if known is None or values.first[value] < values.first[known]:
            first[buffer] = value
    found = {}
    for buffer, value in first.items():
        if not ranges.nbytes[buffer]:
            continue
        output = colocation.output[buffer]
        kind = "output" if output >= 0 else "temporary"
        kind = "argument" if colocation.argument[buffer] >= 0 else kind
        found[buffer] = HeldValue(value, int(ranges.nbytes[buffer]), kind, output)
    return found


def _scratch(plan: ModulePlan, step: int, nbytes: int) -> PeakBuffer:
    """What an instruction needs while it runs."""
    x = plan.ranges.flat.instructions[step]
    same = [y for y in plan.report.peak.buffers if y.kind == "scratch" and y.instruction == x.name]
    if same:
        return replace(same[0], nbytes=nbytes)
    name = f"{x.name} (scratch)"
    shape = f"u8[{nbytes}]"
    op_name = x.metadata.op_name
    return PeakBuffer(
        name, nbytes, x.name, x.opcode.value, shape, "scratch", op_name, None, (step, step), x.stack
    )
