"""Live ranges of buffers, from the events of a heap simulation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from lowtide.planning.heap.steps import HeapStep, HeapStepKind


class Interval(NamedTuple):
    """A buffer, its size in bytes, and when it is live, both ends included.

    `group` is the number of the buffer that stands for all those in one place.
    """

    buffer: int
    nbytes: int
    first: int
    last: int
    group: int

    @property
    def duration(self) -> int:
        """The steps from the first to the last."""
        return self.last - self.first


def intervals(steps: Iterable[HeapStep]) -> list[Interval]:
    """Return when each buffer is live, in order of first steps.

    Each event takes one step; what is never freed lives one step longer than all events. Buffers
    without bytes have an empty interval, from 0 to -1, take no step and share with none. Raises
    ValueError where a buffer is allocated twice, or freed or shared without being there.
    """
    first: dict[int, HeapStep] = {}
    born: dict[int, int] = {}
    died: dict[int, int] = {}
    group: dict[int, int] = {}
    clock = 0
    for step in steps:
        _check_step(step, born, died)
        if step.kind is HeapStepKind.FREE:
            died[step.buffer] = clock
        else:
            first[step.buffer] = step
            born[step.buffer] = clock
            shared = step.nbytes and step.shares_with >= 0 and first[step.shares_with].nbytes
            group[step.buffer] = group[step.shares_with] if shared else step.buffer
        clock += step.nbytes > 0
    return [
        Interval(buffer, step.nbytes, born[buffer], died.get(buffer, clock), group[buffer])
        if step.nbytes
        else Interval(buffer, 0, 0, -1, group[buffer])
        for buffer, step in first.items()
    ]


def _check_step(step: HeapStep, born: Mapping[int, object], died: Mapping[int, object]) -> None:
    if step.kind is HeapStepKind.FREE:
        if step.buffer not in born or step.buffer in died:
            raise ValueError(f"buffer {step.buffer} is freed but not allocated")
        return
    if step.buffer in born:
        raise ValueError(f"buffer {step.buffer} is allocated twice")
    if step.kind is HeapStepKind.SHARE and step.shares_with not in born:
        raise ValueError(f"buffer {step.buffer} shares with {step.shares_with}, which is not there")


def in_groups(found: Iterable[Interval]) -> list[list[Interval]]:
    """Return the intervals of each place, that which stands for all first."""
    groups: dict[int, list[Interval]] = {}
    for interval in found:
        groups.setdefault(interval.group, []).append(interval)
    return list(groups.values())


def group_bytes(members: Sequence[Interval]) -> int:
    """Return the size of the largest of those in one place."""
    return max([x.nbytes for x in members])
