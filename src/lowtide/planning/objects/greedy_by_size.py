"""Objects given out by size class, in each to the tensor with the shortest idle time first.

The size-distance priority of Pisarchyk and Lee ("Efficient Memory Management for Deep Neural Net
Inference", 2020). The class of a tensor is the place of the last positional maximum that is not
smaller than it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np

from lowtide.planning.objects.greedy_by_breadth import greedy_by_breadth
from lowtide.planning.objects.task_profile import (
    largest_first,
    nbytes_of,
    positional_maximums,
    shared,
)
from lowtide.planning.plans import ObjectsAssignment
from lowtide.planning.problem import Int64Array, TensorUsageRecord
from lowtide.planning.registry import ObjectOptions, ObjectStrategy

FAR: Final = np.iinfo(np.int64).max
"""The distance of a tensor to an object that is in use during its life."""


def greedy_by_size(
    records: Sequence[TensorUsageRecord], options: ObjectOptions
) -> ObjectsAssignment:
    """Return the assignment by size class, then by distance to an object, then by size.

    The distance of a tensor to an object is the least number of tasks between it and a tensor in
    there. Each tensor goes to the object that is nearest when its turn comes, or to a new one.
    Quadratic in the number of tensors, in vectors; memory is that of a distance for each pair of a
    tensor and an object.
    """
    maximums = positional_maximums(records)
    order = np.array(largest_first(records), np.int64)
    classes = [_size_class(maximums, nbytes_of(records[number])) for number in order.tolist()]
    borders = [bisect_right(classes, number) for number in range(-1, len(maximums))]
    distances = _Distances(records, order)
    for begin, end in pairwise(borders):
        for _ in range(end - begin):
            distances.assign(distances.nearest(begin, end))
    ids = np.zeros(len(records), np.int64)
    ids[order] = distances.target
    return shared(records, ids.tolist(), distances.objects)


def _size_class(maximums: Sequence[int], nbytes: int) -> int:
    """The place of the last of the maximums, largest first, that is at least `nbytes`."""
    return bisect_right(maximums, -nbytes, key=lambda maximum: -maximum) - 1


class _Distances:
    """Distances of tensors to objects. Tensors are numbered by size, the largest first."""

    def __init__(self, records: Sequence[TensorUsageRecord], order: Int64Array) -> None:
        self._first = np.array([records[x].first_task for x in order.tolist()], np.int64)
        self._last = np.array([records[x].last_task for x in order.tolist()], np.int64)
        self._to_object = np.full((16, len(order)), FAR)
        self._nearest = np.full(len(order), FAR)
        self._nearest_object = np.full(len(order), -1, np.int64)
        self._waits = np.ones(len(order), np.bool_)
        self.target = np.full(len(order), -1, np.int64)
        self.objects = 0

    def nearest(self, begin: int, end: int) -> int:
        """Return the tensor to assign next, of those from `begin` up to `end`."""
        waiting = begin + np.flatnonzero(self._waits[begin:end])
        return int(waiting[np.argmin(self._nearest[waiting])])

    def assign(self, tensor: int) -> None:
        """Put the tensor into the object nearest to it, or into a new one if all are in use."""
        target = int(self._nearest_object[tensor])
        gaps = self._gaps(tensor)
        if target < 0:
            target = self._new_object(gaps)
        else:
            row = self._to_object[target]
            blocked = (row == FAR) | (gaps == FAR)
            row[:] = np.where(blocked, FAR, np.minimum(row, gaps))
        self.target[tensor] = target
        self._waits[tensor] = False
        self._update_nearest(target)

    def _gaps(self, tensor: int) -> Int64Array:
        """How many tasks lie between the tensor and each one, `FAR` where they overlap."""
        gaps = np.maximum(self._first - self._last[tensor], self._first[tensor] - self._last)
        return np.where(gaps <= 0, FAR, gaps)

    def _new_object(self, gaps: Int64Array) -> int:
        if self.objects == len(self._to_object):
            self._to_object = np.concatenate([self._to_object, np.full_like(self._to_object, FAR)])
        self._to_object[self.objects] = gaps
        self.objects += 1
        return self.objects - 1

    def _update_nearest(self, target: int) -> None:
        row = self._to_object[target]
        lost = np.flatnonzero(self._waits & (self._nearest_object == target) & (row == FAR))
        closer = row < self._nearest
        self._nearest[closer] = row[closer]
        self._nearest_object[closer] = target
        if len(lost):
            among = self._to_object[: self.objects, lost]
            best = np.argmin(among, axis=0)
            self._nearest[lost] = among[best, np.arange(len(lost))]
            self._nearest_object[lost] = np.where(self._nearest[lost] == FAR, -1, best)


def greedy_best(records: Sequence[TensorUsageRecord], options: ObjectOptions) -> ObjectsAssignment:
    """Return the assignment by size, or the one by breadth where that is smaller."""
    by_size = greedy_by_size(records, options)
    by_breadth = greedy_by_breadth(records, options)
    return by_breadth if by_breadth.total_size < by_size.total_size else by_size


STRATEGIES: Final = (
    ObjectStrategy(
        "greedy_by_size",
        greedy_by_size,
        "by size class, in each the tensor that leaves an object idle for the shortest time",
        "Pisarchyk and Lee, 2020",
        any_order=True,
    ),
    ObjectStrategy(
        "greedy_best",
        greedy_best,
        "greedy_by_size, or greedy_by_breadth where that is smaller",
        "TensorFlow Lite GPU delegate",
        any_order=True,
    ),
)
