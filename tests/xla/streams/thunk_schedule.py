"""Thunks in order of launch, and which of them wait for thunks of other streams."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tests.xla.streams.thunk_kinds import has_thunk, thunk_kind

from lowtide.ir import Instruction
from lowtide.records import dataclass
from lowtide.xla.streams.streams import StreamAssignment


@dataclass(frozen=True, eq=False, slots=True)
class ThunkSchedule:
    """The instructions for which something is launched, in order, and who waits for whom.

    On one stream, thunks run in that order. `waits` are the thunks of other streams that a thunk
    has to wait for; those that wait for none are left out. `awaited` are the thunks whose end is
    to be recorded, in order.
    """

    thunks: tuple[Instruction, ...]
    streams: Mapping[Instruction, int]
    waits: Mapping[Instruction, tuple[Instruction, ...]]
    awaited: tuple[Instruction, ...]

    def __str__(self) -> str:
        lines = ["Total order:"]
        lines += [f"  {thunk_kind(x)} {x.name}" for x in self.thunks]
        lines.append("Dependencies:")
        for thunk, sources in self.waits.items():
            lines += [f"  {thunk.name} depends on {source.name}" for source in sources]
        return "\n".join(lines) + "\n"


def thunk_schedule(
    assignment: StreamAssignment, launch_order: Sequence[Instruction]
) -> ThunkSchedule:
    """Return the thunks of the entry and which waits between streams are left.

    A thunk waits for those that make what it reads, and for its control predecessors (which in
    TensorFlow 1.14 nothing waits for, although buffers are shared as if). A wait for an earlier
    thunk of a stream of which the waiting stream has awaited a later one is dropped.
    """
    thunks = tuple([x for x in launch_order if has_thunk(x)])
    place = {thunk: i for i, thunk in enumerate(thunks)}
    streams = assignment.streams
    reached: dict[tuple[int, int], int] = {}
    """By waiting stream and stream waited for: the last place that was waited for."""
    waits: dict[Instruction, tuple[Instruction, ...]] = {}
    for thunk in thunks:
        here = streams[thunk]
        kept = []
        for source in sources_of(thunk):
            pair = (here, streams[source])
            if streams[source] != here and place[source] > reached.get(pair, -1):
                reached[pair] = place[source]
                kept.append(source)
        if kept:
            waits[thunk] = tuple(kept)
    needed = {source for sources in waits.values() for source in sources}
    awaited = tuple([thunk for thunk in thunks if thunk in needed])
    return ThunkSchedule(thunks, {x: streams[x] for x in thunks}, waits, awaited)


def sources_of(thunk: Instruction) -> Iterator[Instruction]:
    """Yield the thunks that an instruction needs, through all that is not launched; none twice."""
    seen: set[Instruction] = set()
    stack = [*reversed((*thunk.operands, *thunk.control_predecessors))]
    while stack:
        needed = stack.pop()
        if needed in seen:
            continue
        seen.add(needed)
        if has_thunk(needed):
            yield needed
        else:
            stack += reversed((*needed.operands, *needed.control_predecessors))
