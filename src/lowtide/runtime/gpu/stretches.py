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
    all_thunks,
)
from lowtide.records import dataclass
from lowtide.runtime.gpu.streams import Touched

MOST_STEPS: Final = 2048
"""How many steps a stretch may have with the trips of its loops."""

MOST_CHUNK: Final = 16
"""So many trips are one stretch where their number is known only when the loop begins."""

MOST_DEPTH: Final = 4
"""How deep loops and branches lie within one another in a graph."""

MOST_BRANCHES: Final = 16
"""How many branches a graph has for one choice; each takes some microseconds."""

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


# -- what the device decides -----------------------------------------------------------------------


def asks(thunks: Sequence[Thunk]) -> bool:
    """Return whether a program has a branch, or a loop of which only its predicate tells."""
    return any(
        isinstance(x, ConditionalThunk) or (isinstance(x, WhileThunk) and x.counter is None)
        for x in all_thunks(thunks)
    )


def decided_steps(thunks: Sequence[Thunk], depth: int = 0) -> list[Thunk] | None:
    """Return the steps of a graph in which loops and branches are steps, None where they cannot be.

    The condition of a loop stands before it; within, it runs behind each trip. Trips of which too
    many are known stay with the host, which starts many of them at once.
    """
    found: list[Thunk] = []
    for thunk in thunks:
        steps = _steps(thunk)
        if steps is not None:
            found += steps
            continue
        inner = [decided_steps(x, depth + 1) for x in thunk.sequences]
        if depth == MOST_DEPTH or None in inner or not _is_decided(thunk):
            return None
        found += inner[0] or () if isinstance(thunk, WhileThunk) else ()
        found.append(thunk)
    return found


def _is_decided(thunk: Thunk) -> bool:
    """Whether a graph can have a thunk that is none of its steps."""
    if isinstance(thunk, WhileThunk):
        is_known = thunk.counter is not None and thunk.counter.trips is not None
        return not is_known or _body(thunk) is None
    return isinstance(thunk, ConditionalThunk) and len(thunk.branches) <= MOST_BRANCHES


def touched_by(thunk: Thunk) -> Touched:
    """Return the bytes that a thunk and all within it read and write."""
    inner = list(all_thunks([thunk]))
    reads = dict.fromkeys([x for y in inner for x in y.reads if x.nbytes])
    touched = dict.fromkeys([x for y in inner for x in y.touches if x.nbytes])
    writes = dict.fromkeys([x for y in inner for x in y.writes if x.nbytes])
    scratch = [x for x in touched if x not in reads and x not in writes]
    return Touched(tuple(reads), (*writes, *scratch))
