"""Counts and bytes of the allocations of a plan, by kind, and what packing loses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lowtide.ir.buffer import (
    Allocation,
    AllocationKind,
    AssignedValue,
    BufferAssignment,
    HeapEventKind,
    HeapTrace,
)
from lowtide.records import dataclass
from lowtide.xla.dumps.buffer_assignment import bytes_text, is_temporary


@dataclass(frozen=True, slots=True)
class Tally:
    """How many allocations, and their bytes."""

    count: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class PlanStatistics:
    """The allocations of a plan by kind; one that is of two kinds counts in both.

    `live_bytes` is the most that the values of the preallocated temporaries hold at once, None
    where the plan does not say when they live; `fragmentation_bytes` what their allocations have
    beyond that.
    """

    parameter: Tally
    constant: Tally
    maybe_live_out: Tally
    preallocated_temp: Tally
    thread_local: Tally
    total_bytes: int
    live_bytes: int | None

    @property
    def fragmentation_bytes(self) -> int | None:
        """What no packing could do without, taken from the bytes of the temporaries."""
        return None if self.live_bytes is None else self.preallocated_temp.nbytes - self.live_bytes


def plan_statistics(assignment: BufferAssignment) -> PlanStatistics:
    """Return the figures of a plan.

    What is live at once follows from the traces of heap simulations, or else from live ranges.
    """
    allocations = assignment.allocations
    kinds = AllocationKind
    return PlanStatistics(
        _tally([x for x in allocations if x.kind is kinds.ARGUMENT]),
        _tally([x for x in allocations if x.kind is kinds.CONSTANT]),
        _tally([x for x in allocations if x.maybe_live_out]),
        _tally([x for x in allocations if is_temporary(x)]),
        _tally([x for x in allocations if x.kind is kinds.THREAD_LOCAL]),
        sum([x.nbytes for x in allocations]),
        _live_bytes(assignment),
    )


def statistics_text(statistics: PlanStatistics) -> str:
    """Return the figures as a table, one line each."""
    tallies = (
        ("parameter allocation", statistics.parameter),
        ("constant allocation", statistics.constant),
        ("maybe_live_out allocation", statistics.maybe_live_out),
        ("preallocated temp allocation", statistics.preallocated_temp),
        ("thread-local allocation", statistics.thread_local),
    )
    lines = ["BufferAssignment statistics:"]
    lines += [f"  {name + ':':<33} {bytes_text(x.nbytes):>10} in {x.count}" for name, x in tallies]
    lost = statistics.fragmentation_bytes
    if lost is not None:
        share = lost / statistics.preallocated_temp.nbytes if lost else 0.0
        name = "preallocated temp fragmentation:"
        lines.append(f"  {name:<33} {bytes_text(lost):>10} ({share:.2%})")
    lines.append(f"  {'total allocation:':<33} {bytes_text(statistics.total_bytes):>10}")
    if lost is not None:
        share = lost / statistics.total_bytes if lost else 0.0
        lines.append(f"  {'total fragmentation:':<33} {bytes_text(lost):>10} ({share:.2%})")
    return "\n".join(lines) + "\n"


def _tally(allocations: Iterable[Allocation]) -> Tally:
    sizes = [x.nbytes for x in allocations]
    return Tally(len(sizes), sum(sizes))


# -- what is live at once ----------------------------------------------------------------------


def _live_bytes(assignment: BufferAssignment) -> int | None:
    temporaries = {x.index for x in assignment.allocations if is_temporary(x)}
    total = 0
    for index in sorted(temporaries):
        most = most_live_bytes(assignment, index)
        if most is None:
            return None
        total += most
    return total


def most_live_bytes(assignment: BufferAssignment, allocation: int) -> int | None:
    """Return the most bytes that the values of an allocation hold at once, None if unknown.

    A trace belongs to the allocation that its values lie in: XLA numbers allocations anew behind
    its simulations, when it combines temporaries. Simulations of one allocation lie side by side,
    and so do values that none of them placed, such as tables of tuples.
    """
    values = [x for x in assignment.values if x.place.allocation == allocation]
    if not values:
        return 0
    sizes = {x.number: x.place.nbytes for x in values}
    traces = [x for x in assignment.heap_traces if any(e.value in sizes for e in x.events)]
    if not traces:
        return _most_by_ranges(values)
    simulated = {event.value for trace in traces for event in trace.events}
    others: dict[int, int] = {}
    for value in values:
        if value.number not in simulated:
            offset = value.place.offset
            others[offset] = max(others.get(offset, 0), value.place.nbytes)
    return sum([_most_in_trace(x, sizes) for x in traces]) + sum(others.values())


def _most_in_trace(trace: HeapTrace, sizes: Mapping[int, int]) -> int:
    """Replay a simulation; a value that shares a place lives there along with those before it."""
    place = {}
    events = []
    for time, event in enumerate(trace.events):
        if event.kind is HeapEventKind.ALLOCATE:
            place[event.value] = event.value
        elif event.shares_with is not None:
            place[event.value] = place.get(event.shares_with, event.shares_with)
        death = int(event.kind is HeapEventKind.FREE)
        events.append((time, death, sizes.get(event.value, 0), (place.get(event.value, -1), 0)))
    return _most_in_events(events)


def _most_by_ranges(values: Iterable[AssignedValue]) -> int | None:
    """The values of one buffer replace one another: the bytes of each place count once."""
    events: list[tuple[int, int, int, tuple[int, int]]] = []
    for value in values:
        if value.live is None:
            return None
        first, last = value.live
        key = (value.buffer, value.place.offset)
        events.append((first, 0, value.place.nbytes, key))
        events.append((last, 1, value.place.nbytes, key))
    events.sort(key=lambda x: x[:2])
    return _most_in_events(events)


def _most_in_events(events: Iterable[tuple[int, int, int, tuple[int, int]]]) -> int:
    """Replay births (0) and deaths (1); values that share a place take the largest of them."""
    held: dict[tuple[int, int], list[int]] = {}
    live = most = 0
    for _, death, nbytes, key in events:
        sizes = held.setdefault(key, [])
        before = max(sizes, default=0)
        if death:
            sizes.remove(nbytes)
        else:
            sizes.append(nbytes)
        live += max(sizes, default=0) - before
        most = max(most, live)
    return most
