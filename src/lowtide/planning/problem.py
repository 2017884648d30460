"""The packing problem by itself: buffers of some bytes, live for some time, to be given offsets."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from operator import index
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from lowtide.records import dataclass

Int64Array = npt.NDArray[np.int64]

ARENA: Final = -1
"""In place of a region number: the buffer lies in the arena."""

FREE: Final = -1
"""In place of an offset: the buffer may lie anywhere."""

MOST_BYTES: Final = 2**62
"""All buffers together have to be smaller, so that sums of offsets and sizes fit 64 bits."""

MOST_TASKS: Final = 2**62
"""Numbers of tasks have to be smaller."""


class TensorUsageRecord(NamedTuple):
    """A tensor of `size` bytes, live from `first_task` to `last_task`, both ends included.

    Planners of images take a tuple of extents as size: (x, y), (x, y, z) or (b, h, w, c).
    """

    size: int | tuple[int, ...]
    first_task: int
    last_task: int


@dataclass(frozen=True, eq=False, slots=True)
class PackingProblem:
    """Buffers to place, and when each is live.

    Row `i` of `item`, `first`, `last` says that buffer `item[i]` is live at the steps from
    `first[i]` to `last[i]`, both included. A buffer may have several rows, with gaps in between,
    and keeps its place throughout. Per buffer, `nbytes` is its size and `alignment` what its
    offset is a multiple of.

    Memory is the arena, as large as need be, and regions of `region_bytes`, each a bank with
    offsets of its own; no buffer lies across a border. A `fixed_offset` that is not `FREE` says
    where a buffer has to lie, in the region `region_of` or in the `ARENA`; the others may lie
    anywhere.
    """

    nbytes: Int64Array
    alignment: Int64Array
    item: Int64Array
    first: Int64Array
    last: Int64Array
    fixed_offset: Int64Array
    region_of: Int64Array
    region_bytes: Int64Array

    def __len__(self) -> int:
        return len(self.nbytes)

    @property
    def has_gaps(self) -> bool:
        """Whether some buffer has several rows."""
        return len(self.item) != len(self.nbytes)

    @property
    def has_fixed(self) -> bool:
        """Whether some buffer has to lie at a given offset."""
        return bool((self.fixed_offset != FREE).any())

    def spans(self) -> tuple[Int64Array, Int64Array]:
        """Return the first and the last step of each buffer."""
        first = np.full(len(self.nbytes), np.iinfo(np.int64).max)
        last = np.full(len(self.nbytes), np.iinfo(np.int64).min)
        np.minimum.at(first, self.item, self.first)
        np.maximum.at(last, self.item, self.last)
        return first, last

    def records(self) -> list[TensorUsageRecord]:
        """Return a record for each buffer, live from its first step to its last without gaps."""
        first, last = self.spans()
        rows = zip(self.nbytes.tolist(), first.tolist(), last.tolist(), strict=True)
        return [TensorUsageRecord(*row) for row in rows]


def packing_problem(
    records: Sequence[TensorUsageRecord],
    alignment: int | Sequence[int] = 1,
    *,
    fixed: Mapping[int, int] | None = None,
    gaps: Mapping[int, Sequence[tuple[int, int]]] | None = None,
) -> PackingProblem:
    """Return the problem of placing tensors in one arena.

    `fixed` are offsets by the number of the record; `gaps` are stretches of tasks, both ends
    included, in which a tensor is not live. Raises ValueError where a tensor ends before it begins,
    has a negative size or more than one extent, where an alignment is not positive, a fixed offset
    is negative, not aligned, or has two tensors lie over one another, a gap is not inside of its
    tensor, or all tensors may end at `MOST_BYTES` or above when laid end to end.
    """
    rows = [record_of(number, record) for number, record in enumerate(records)]
    for number, record in enumerate(rows):
        _check_record(number, record)
    for number in [*(fixed or {}), *(gaps or {})]:
        if not 0 <= number < len(rows):
            raise ValueError(f"fixed or with gaps is record {number}, of {len(rows)} from 0 on")
    nbytes = [record.size for record in rows if isinstance(record.size, int)]
    alignments = _alignments(alignment, len(rows))
    offsets = _fixed_offsets(fixed or {}, alignments)
    ends = [offset + size for offset, size in zip(offsets, nbytes, strict=True) if offset != FREE]
    padding = sum(alignments) - len(alignments)
    if sum(nbytes) + padding + max(ends, default=0) >= MOST_BYTES:
        raise ValueError(
            f"all tensors together have to be smaller than {MOST_BYTES:,} bytes, each rounded up "
            "to its alignment, and above those that are fixed"
        )
    item, first, last = np.array([*_rows(rows, gaps or {})], np.int64).reshape(-1, 3).T.copy()
    problem = PackingProblem(
        np.array(nbytes, np.int64),
        np.array(alignments, np.int64),
        item,
        first,
        last,
        np.array(offsets, np.int64),
        np.full(len(rows), ARENA, np.int64),
        np.zeros(0, np.int64),
    )
    _check_fixed(problem)
    return problem


def record_of(number: int, record: Sequence[Any]) -> TensorUsageRecord:
    """Return a plain (size, first task, last task) as a record; extents may be a list.

    Raises ValueError, with the number of the record, for what is no whole number.
    """
    try:
        size, first, last = record
        extents = tuple(map(index, size)) if isinstance(size, list | tuple) else index(size)
        return TensorUsageRecord(extents, index(first), index(last))
    except (TypeError, ValueError):
        raise ValueError(
            f"record {number}: expected size, first task and last task in whole numbers, found "
            f"{record!r}"
        ) from None


def _check_record(number: int, record: TensorUsageRecord) -> None:
    if isinstance(record.size, tuple):
        raise ValueError(f"record {number}: size {record.size} has several extents: not in bytes")
    if not 0 <= record.size < MOST_BYTES:
        raise ValueError(f"record {number}: size {record.size:,} is not in 0 to {MOST_BYTES - 1:,}")
    if record.last_task < record.first_task:
        raise ValueError(
            f"record {number}: its last task, {record.last_task}, is before its first, "
            f"{record.first_task}"
        )
    if not -MOST_TASKS < record.first_task <= record.last_task < MOST_TASKS:
        raise ValueError(f"record {number}: a task is not within 2^62 of 0")


def _alignments(alignment: int | Sequence[int], count: int) -> list[int]:
    each = alignment if isinstance(alignment, Sequence | np.ndarray) else [alignment] * count
    try:
        found = [index(x) for x in each]
    except TypeError:
        raise ValueError(f"expected whole numbers as alignment, found {alignment!r}") from None
    if len(found) != count or min(found, default=1) <= 0:
        raise ValueError("expected an alignment above 0, one for all records or one for each")
    return found


def _fixed_offsets(fixed: Mapping[int, int], alignments: Sequence[int]) -> list[int]:
    offsets = [FREE] * len(alignments)
    for number, offset in fixed.items():
        if offset < 0 or offset % alignments[number]:
            raise ValueError(
                f"record {number}: the fixed offset {offset} is negative or no multiple of the "
                f"alignment {alignments[number]}"
            )
        offsets[number] = index(offset)
    return offsets


def _check_fixed(problem: PackingProblem) -> None:
    """Raise ValueError where two tensors have to lie over one another.

    Of what is live, only the neighbours by offset can be in the way of what begins.
    """
    rows = np.flatnonzero(
        (problem.fixed_offset[problem.item] != FREE) & (problem.nbytes[problem.item] > 0)
    )
    live: list[tuple[int, int, int, int]] = []
    for row in rows[np.argsort(problem.first[rows], kind="stable")].tolist():
        item, first = int(problem.item[row]), int(problem.first[row])
        offset = int(problem.fixed_offset[item])
        end = offset + int(problem.nbytes[item])
        at = bisect_left(live, (offset,))
        while at and live[at - 1][2] < first:
            at -= 1
            del live[at]
        while at < len(live) and live[at][2] < first:
            del live[at]
        near = [x[3] for x in live[max(at - 1, 0) : at + 1] if x[0] < end and offset < x[1]]
        if near:
            one, other = sorted([near[0], item])
            raise ValueError(
                f"records {one} and {other} have to lie over one another at task {first}"
            )
        live.insert(at, (offset, end, int(problem.last[row]), item))


def _rows(
    records: Sequence[TensorUsageRecord], gaps: Mapping[int, Sequence[tuple[int, int]]]
) -> Iterable[tuple[int, int, int]]:
    """Yield (number, first, last) of the stretches in which each tensor is live."""
    for number, record in enumerate(records):
        begin = record.first_task
        for first, last in sorted(gaps.get(number, ())):
            if not begin <= first <= last < record.last_task or first == record.first_task:
                raise ValueError(
                    f"record {number}: the gap from {first} to {last} is not inside of the "
                    f"tensor's tasks, {record.first_task} to {record.last_task}, or not apart from "
                    "another gap"
                )
            if begin < first:
                yield number, begin, first - 1
            begin = last + 1
        yield number, begin, record.last_task


def dense_times(problem: PackingProblem) -> PackingProblem:
    """Return the same problem with steps numbered from 0, only those at which a row begins.

    What is live together stays so, and most is live at a step that is kept.
    """
    first, last = _dense(problem.first, problem.last)
    return PackingProblem(
        problem.nbytes,
        problem.alignment,
        problem.item,
        first,
        last,
        problem.fixed_offset,
        problem.region_of,
        problem.region_bytes,
    )


def _dense(first: Int64Array, last: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Steps numbered from 0, only those of `first`; by counting where they lie close together."""
    earliest = int(first.min(initial=0))
    steps = int(last.max(initial=0)) - earliest + 1
    if steps > 4 * len(first) + 64:
        begins = np.unique(first)
        return np.searchsorted(begins, first), np.searchsorted(begins, last, side="right") - 1
    begun = np.zeros(steps, np.int64)
    begun[first - earliest] = 1
    number = np.cumsum(begun) - 1
    return number[first - earliest], number[last - earliest]


def live_profile(problem: PackingProblem) -> Int64Array:
    """Return the bytes live at each step, of a problem whose steps are numbered from 0."""
    length = int(problem.last.max(initial=-1)) + 1
    size = problem.nbytes[problem.item]
    change = np.zeros(length + 1, np.int64)
    np.add.at(change, problem.first, size)
    np.subtract.at(change, problem.last + 1, size)
    return np.cumsum(change)[:length]


def max_live(problem: PackingProblem) -> int:
    """Return an arena that no offsets can do without: the most bytes live, less the regions."""
    profile = live_profile(dense_times(problem))
    return max(0, int(profile.max(initial=0)) - int(problem.region_bytes.sum()))
