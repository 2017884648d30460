"""Objects given out task by task, the task with the most live bytes first.

Pisarchyk and Lee ("Efficient Memory Management for Deep Neural Net Inference", 2020).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from lowtide.planning.objects.task_profile import largest_first, nbytes_of, shared
from lowtide.planning.plans import ObjectsAssignment
from lowtide.planning.problem import Int64Array, TensorUsageRecord
from lowtide.planning.registry import ObjectOptions, ObjectStrategy


def greedy_by_breadth(
    records: Sequence[TensorUsageRecord], options: ObjectOptions
) -> ObjectsAssignment:
    """Return the assignment that serves crowded tasks first, and in each the largest tensor first.

    A tensor goes to the smallest object that is large enough and free during its life, else to the
    largest free one, which grows, else to a new one. Of equal tasks the earlier is served first, of
    equal objects the older one is taken. Quadratic in the number of tensors, in vectors.
    """
    objects = _Objects(len(records))
    ids = [-1] * len(records)
    for number in _served(records):
        record = records[number]
        ids[number] = objects.assign(nbytes_of(record), record.first_task, record.last_task)
    return shared(records, ids, objects.count)


def _served(records: Sequence[TensorUsageRecord]) -> Iterator[int]:
    """Yield the tensors in the order in which they are served.

    Only tasks at which a tensor begins count: at others live but some of those of an earlier task,
    which is no less crowded.
    """
    order = np.array(largest_first(records), np.int64)
    first, last, nbytes = _columns(records, order)
    tasks = np.unique(first)
    begun = _sums_up_to(first, nbytes, tasks)
    ended = _sums_up_to(last, nbytes, tasks - 1)
    for place in np.argsort(ended - begun, kind="stable").tolist():
        task = tasks[place]
        lives = (first <= task) & (task <= last)
        yield from order[lives].tolist()
        keep = ~lives
        order, first, last = order[keep], first[keep], last[keep]


def _columns(records: Sequence[TensorUsageRecord], order: Int64Array) -> list[Int64Array]:
    rows = [
        (records[number].first_task, records[number].last_task, nbytes_of(records[number]))
        for number in order.tolist()
    ]
    return list(np.array(rows, np.int64).reshape(-1, 3).T.copy())


def _sums_up_to(moments: Int64Array, nbytes: Int64Array, tasks: Int64Array) -> Int64Array:
    """The bytes of the tensors whose moment is not after each task."""
    order = np.argsort(moments, kind="stable")
    sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(nbytes[order])])
    return sums[np.searchsorted(moments[order], tasks, side="right")]


class _Objects:
    """The objects so far, and when each is in use."""

    def __init__(self, tensors: int) -> None:
        self.count = 0
        self._size = np.zeros(tensors, np.int64)
        self._assigned = 0
        self._first = np.zeros(tensors, np.int64)
        self._last = np.zeros(tensors, np.int64)
        self._target = np.zeros(tensors, np.int64)

    def assign(self, nbytes: int, first: int, last: int) -> int:
        """Put a tensor into the object that fits best, perhaps a new one; return its number."""
        target = self._fitting(nbytes, self._free(first, last))
        if target == self.count:
            self.count += 1
        self._size[target] = max(int(self._size[target]), nbytes)
        at = self._assigned
        self._first[at], self._last[at], self._target[at] = first, last, target
        self._assigned += 1
        return target

    def _free(self, first: int, last: int) -> npt.NDArray[np.bool_]:
        """Whether each object is free at the tasks from `first` to `last`."""
        n = self._assigned
        free = np.ones(self.count, np.bool_)
        overlaps = (self._first[:n] <= last) & (first <= self._last[:n])
        free[self._target[:n][overlaps]] = False
        return free

    def _fitting(self, nbytes: int, free: npt.NDArray[np.bool_]) -> int:
        numbers = np.flatnonzero(free)
        if not len(numbers):
            return self.count
        sizes = self._size[numbers]
        if sizes.max() < nbytes:
            return int(numbers[np.argmax(sizes)])
        enough = sizes >= nbytes
        return int(numbers[enough][np.argmin(sizes[enough])])


STRATEGIES: Final = (
    ObjectStrategy(
        "greedy_by_breadth",
        greedy_by_breadth,
        "task by task, the most crowded first; its tensors largest first, best fit",
        "Pisarchyk and Lee, 2020",
        any_order=True,
    ),
)
