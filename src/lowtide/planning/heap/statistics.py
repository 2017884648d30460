"""Bytes that are live at once, without any layout."""

from __future__ import annotations

from collections.abc import Iterable

from lowtide.planning.heap.intervals import intervals
from lowtide.planning.heap.steps import HeapStep, HeapStepKind


def no_fragmentation_bytes(steps: Iterable[HeapStep]) -> int:
    """Return the most that allocations and shares add up to, less what is freed, at any time.

    XLA takes it as the heap without fragmentation. It is more than a layout needs where buffers
    that share a place are live together: each of them counts.
    """
    live = most = 0
    for step in steps:
        live += -step.nbytes if step.kind is HeapStepKind.FREE else step.nbytes
        most = max(most, live)
    return most


def most_live_bytes(steps: Iterable[HeapStep]) -> int:
    """Return the most bytes live at once, which no layout of these events can do without.

    Buffers in one place count once while any of them is live, each time with the largest size.
    """
    found = intervals(steps)
    size: dict[int, int] = {}
    for interval in found:
        size[interval.group] = max(size.get(interval.group, 0), interval.nbytes)
    changes = sorted(
        [(x.first, 0, x.group) for x in found if x.nbytes]
        + [(x.last, 1, x.group) for x in found if x.nbytes]
    )
    members: dict[int, int] = dict.fromkeys(size, 0)
    live = most = 0
    for _, ends, group in changes:
        members[group] += -1 if ends else 1
        if ends and not members[group]:
            live -= size[group]
        elif not ends and members[group] == 1:
            live += size[group]
        most = max(most, live)
    return most
