"""Tensors live at each task, and the objects that they share with the bounds that follow.

The `k` largest tensors of a task lie in different objects, so the k-th largest object is at least
as large as the k-th largest tensor of any task. Task profiles, positional maximums and both bounds
are those of Pisarchyk and Lee ("Efficient Memory Management for Deep Neural Net Inference", 2020).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import accumulate

from lowtide.planning.plans import CliqueBound, ObjectsAssignment
from lowtide.planning.problem import TensorUsageRecord


def nbytes_of(record: TensorUsageRecord) -> int:
    """Return the size of a record; raises ValueError where it has several extents."""
    if isinstance(record.size, tuple):
        raise ValueError(f"size {record.size} has several extents: expected bytes")
    return record.size


def largest_first(records: Sequence[TensorUsageRecord]) -> list[int]:
    """Return the numbers of the records by size, largest first, equal ones in order of number."""
    sizes = [nbytes_of(record) for record in records]
    return sorted(range(len(records)), key=lambda number: -sizes[number])


def task_profiles(records: Sequence[TensorUsageRecord]) -> list[list[int]]:
    """Return per task, from 0 to the last, the tensors that live there, largest first."""
    count = max([record.last_task for record in records], default=-1) + 1
    profiles: list[list[int]] = [[] for _ in range(count)]
    for number in largest_first(records):
        for task in range(records[number].first_task, records[number].last_task + 1):
            profiles[task].append(number)
    return profiles


def positional_maximums(records: Sequence[TensorUsageRecord]) -> list[int]:
    """Return at `k` the largest size that the (k + 1)-th largest tensor of a task has."""
    return list(clique_bound(records).sizes)


def lower_bound_shared_objects(records: Sequence[TensorUsageRecord]) -> int:
    """Return bytes that no set of shared objects can do without."""
    return sum(positional_maximums(records))


def lower_bound_offsets(records: Sequence[TensorUsageRecord]) -> int:
    """Return bytes that no arena can do without: the most that live at a task."""
    change: dict[int, int] = {}
    for record in records:
        nbytes = nbytes_of(record)
        change[record.first_task] = change.get(record.first_task, 0) + nbytes
        change[record.last_task + 1] = change.get(record.last_task + 1, 0) - nbytes
    return max(accumulate([change[task] for task in sorted(change)]), default=0)


def clique_bound(records: Sequence[TensorUsageRecord]) -> CliqueBound:
    """Return the positional maximums and for each the first task that shows it.

    Tensors are added one by one, the largest first, to a count of what lives at each task; whenever
    the most that live at a task grows, the tensor just added is the next maximum.
    """
    counts = _Counts([record.first_task for record in records])
    tasks: list[int] = []
    sizes: list[int] = []
    for number in largest_first(records):
        record = records[number]
        counts.add(record.first_task, record.last_task)
        if counts.most > len(sizes):
            tasks.append(counts.first_of_most())
            sizes.append(nbytes_of(record))
    return CliqueBound(tuple(tasks), tuple(sizes))


class _Counts:
    """The number of tensors live at each of some tasks: a segment tree with sums at its nodes.

    `_highest[node]` is the largest count among the leaves below, without what `_added` has at the
    nodes above.
    """

    def __init__(self, tasks: Sequence[int]) -> None:
        self._tasks = sorted(set(tasks))
        self._leaf = {task: leaf for leaf, task in enumerate(self._tasks)}
        self._width = 1 << max(0, len(self._tasks) - 1).bit_length()
        self._highest = [0] * (2 * self._width)
        self._added = [0] * (2 * self._width)

    @property
    def most(self) -> int:
        """The largest count."""
        return self._highest[1]

    def add(self, first: int, last: int) -> None:
        """Count one more at the tasks from `first`, which is one of them, to `last`."""
        left = self._leaf[first] + self._width
        right = self._end(last) + self._width
        touched = (left, right - 1)
        while left < right:
            if left & 1:
                self._raise(left)
                left += 1
            if right & 1:
                right -= 1
                self._raise(right)
            left >>= 1
            right >>= 1
        for node in touched:
            self._update_above(node)

    def first_of_most(self) -> int:
        """Return the first task with the largest count."""
        node = 1
        while node < self._width:
            node *= 2
            node += self._highest[node + 1] > self._highest[node]
        return self._tasks[node - self._width]

    def _end(self, last: int) -> int:
        """The number of tasks that are not after `last`."""
        return bisect_right(self._tasks, last)

    def _raise(self, node: int) -> None:
        self._highest[node] += 1
        self._added[node] += 1

    def _update_above(self, node: int) -> None:
        highest = self._highest
        while node > 1:
            node >>= 1
            below = max(highest[2 * node], highest[2 * node + 1])
            highest[node] = below + self._added[node]


def shared(
    records: Sequence[TensorUsageRecord], object_ids: Sequence[int], objects: int
) -> ObjectsAssignment:
    """Return the assignment to `objects` objects, each as large as its largest tensor."""
    sizes = [0] * objects
    for record, target in zip(records, object_ids, strict=True):
        sizes[target] = max(sizes[target], nbytes_of(record))
    bound = clique_bound(records)
    return ObjectsAssignment(
        tuple(object_ids), tuple(sizes), lower_bound=sum(bound.sizes), evidence=bound
    )


def shared_alike(
    records: Sequence[TensorUsageRecord],
    object_ids: Sequence[int],
    sizes: Sequence[int | tuple[int, ...]],
) -> ObjectsAssignment:
    """Return the assignment to objects of given sizes; no bound is known for several extents."""
    if all(isinstance(record.size, int) for record in records):
        return shared(records, object_ids, len(sizes))
    return ObjectsAssignment(tuple(object_ids), tuple(sizes))


class ObjectsInUse:
    """Objects with a tensor in them, to be given back as time goes on."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int]] = []

    def occupy(self, number: int, last_task: int) -> None:
        """Note that the object is in use up to `last_task`, included."""
        heappush(self._heap, (last_task, number))

    def released(self, task: int) -> list[int]:
        """Return the objects that are free from `task` on, by last task, then number."""
        freed: list[int] = []
        while self._heap and self._heap[0][0] < task:
            freed.append(heappop(self._heap)[1])
        return freed
