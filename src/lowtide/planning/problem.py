"""The packing problem by itself: buffers of some bytes, live for some time, to be given offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

Int64Array = npt.NDArray[np.int64]

ARENA: Final = -1
"""In place of a region number: the buffer lies in the arena."""

FREE: Final = -1
"""In place of an offset: the buffer may lie anywhere."""

MOST_BYTES: Final = 2**62
"""All buffers together have to be smaller, so that sums of offsets and sizes fit 64 bits."""


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
    has a negative size or more than one extent, where sizes add up to `MOST_BYTES` or more, where
    an alignment is not positive, a fixed offset is negative or not aligned, or a gap is not inside
    of its tensor.
    """
    for number, record in enumerate(records):
        _check_record(number, record)
    nbytes = np.array([record.size for record in records], np.int64).reshape(len(records))
    if sum(nbytes.tolist()) >= MOST_BYTES:
        raise ValueError(f"all tensors together have to be smaller than {MOST_BYTES:,} bytes")
    aligned = np.full(len(records), alignment) if isinstance(alignment, int) else alignment
    alignments = np.array(aligned, np.int64)
    if len(alignments) != len(records) or (alignments <= 0).any():
        raise ValueError("expected an alignment above 0, one for all records or one for each")
    rows = list(_rows(records, gaps or {}))
    item, first, last = np.array(rows, np.int64).reshape(-1, 3).T.copy()
    offsets = np.full(len(records), FREE, np.int64)
    for number, offset in (fixed or {}).items():
        if offset < 0 or offset % int(alignments[number]):
            raise ValueError(
                f"record {number}: the fixed offset {offset} is negative or no multiple of the "
                f"alignment {alignments[number]}"
            )
        offsets[number] = offset
    in_arena = np.full(len(records), ARENA, np.int64)
    none = np.zeros(0, np.int64)
    return PackingProblem(nbytes, alignments, item, first, last, offsets, in_arena, none)


def _check_record(number: int, record: TensorUsageRecord) -> None:
    if not isinstance(record.size, int):
        raise ValueError(f"record {number}: size {record.size} has several extents: not in bytes")
    if not 0 <= record.size < MOST_BYTES:
        raise ValueError(f"record {number}: size {record.size:,} is not in 0 to {MOST_BYTES - 1:,}")
    if record.last_task < record.first_task:
        raise ValueError(
            f"record {number}: its last task, {record.last_task}, is before its first, "
            f"{record.first_task}"
        )


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
