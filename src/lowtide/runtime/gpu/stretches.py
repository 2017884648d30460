"""Thunks as a device runs them: stretches of steps, and between them what the host decides.

A loop that is certain to run so often is no decision: its trips are part of the stretch around it,
without its condition, as long as that has not too many steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from lowtide.ir.thunk import (
    CollectiveThunk,
    ConditionalThunk,
    CopyThunk,
    KernelThunk,
    Thunk,
    WhileThunk,
)
from lowtide.records import dataclass

MOST_STEPS: Final = 2048
"""How many steps a stretch may have with the trips of its loops."""

MOST_CHUNK: Final = 16
"""So many trips are one stretch where their number is known only when the loop begins."""

Step: TypeAlias = "KernelThunk | CopyThunk"


@dataclass(frozen=True, slots=True, eq=False)
class DeviceStretch:
    """Steps without decisions of the host between them."""

    steps: tuple[Step, ...]


Part: TypeAlias = "DeviceStretch | WhileThunk | ConditionalThunk | CollectiveThunk"


def parts_of(thunks: Sequence[Thunk], times: int = 1) -> tuple[Part, ...]:
    """Return thunks, so often, as stretches and what stands between them, in order."""
    return tuple(_parts([x for _ in range(times) for x in thunks]))


def _parts(thunks: Sequence[Thunk]) -> Iterator[Part]:
    found: list[Step] = []
    for thunk in thunks:
        steps = _steps(thunk)
        joins = isinstance(thunk, KernelThunk | CopyThunk)
        if steps is not None and (joins or len(found) + len(steps) <= MOST_STEPS):
            found += steps
            continue
        if found:
            yield DeviceStretch(tuple(found))
        found = list(steps or ())
        if steps is None:
            assert isinstance(thunk, WhileThunk | ConditionalThunk | CollectiveThunk), thunk
            yield thunk
    if found:
        yield DeviceStretch(tuple(found))


def chunk_of(loop: WhileThunk, trips: int) -> int:
    """Return how many trips of a loop with so many are started at once; at least one."""
    steps = _body(loop)
    if steps is None or not trips:
        return 1
    most = max(MOST_STEPS // max(len(steps), 1), 1)
    if loop.counter is not None and loop.counter.trips is not None:
        return trips // -(-trips // most)
    return max(min(MOST_CHUNK, most), 1)


def _steps(thunk: Thunk) -> Sequence[Step] | None:
    """The steps of a thunk, None where the host decides, or there are too many."""
    if isinstance(thunk, KernelThunk | CopyThunk):
        return (thunk,)
    if not isinstance(thunk, WhileThunk) or thunk.counter is None or thunk.counter.trips is None:
        return None
    steps, trips = _body(thunk), thunk.counter.trips
    if steps is None or len(steps) * trips > MOST_STEPS:
        return None
    return steps * trips


def _body(loop: WhileThunk) -> list[Step] | None:
    """The steps of one trip of a loop, None where the host decides within."""
    inner = [_steps(x) for x in loop.body]
    steps = [x for y in inner if y is not None for x in y]
    return None if None in inner else steps
