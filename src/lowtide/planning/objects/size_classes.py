"""Shared objects as a choice of size for each tensor.

Tensors that never live together are an independent set of an interval graph, and such graphs are
perfect: tensors of which at most `k` live at once fit `k` objects (Golumbic, "Algorithmic Graph
Theory and Perfect Graphs", 1980). So it is enough to choose for each tensor how large its object
is, one of the sizes that tensors have; of each size as many objects are needed as tensors with that
choice live at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from heapq import heappop, heappush
from math import gcd

import numpy as np

from lowtide.planning.objects.task_profile import ObjectsInUse, nbytes_of
from lowtide.planning.problem import Int64Array, TensorUsageRecord
from lowtide.records import dataclass


@dataclass(frozen=True, eq=False)
class SizeClasses:
    """The tensors that have bytes, in order of last task, and the sizes that objects may have.

    `number` is that of the record, `size` the size in units of `unit` bytes, the greatest common
    divisor of all sizes. `sizes` are the distinct ones, ascending.
    """

    unit: int
    number: Int64Array
    size: Int64Array
    first: Int64Array
    last: Int64Array
    sizes: Int64Array

    def __len__(self) -> int:
        return len(self.size)

    @cached_property
    def before(self) -> Int64Array:
        """Per tensor how many end before it begins: they come first in the order."""
        return np.searchsorted(self.last, self.first)

    @cached_property
    def by_first(self) -> Int64Array:
        """The tensors in order of first task, the latest first."""
        return np.argsort(-self.first, kind="stable")

    @cached_property
    def after(self) -> Int64Array:
        """Per tensor how many begin after it ends: they come first in `by_first`."""
        return np.searchsorted(-self.first[self.by_first], -self.last)

    def total(self, chosen: Int64Array) -> int:
        """Return the units that objects need where tensor `i` lies in one of size `chosen[i]`."""
        return sum(
            [
                size * most_at_once(self.first[chosen == size], self.last[chosen == size])
                for size in np.unique(chosen).tolist()
            ]
        )


def size_classes(records: Sequence[TensorUsageRecord]) -> SizeClasses:
    """Return the problem of choosing an object size for each tensor that has bytes."""
    sizes = [nbytes_of(record) for record in records]
    numbers = [number for number, size in enumerate(sizes) if size]
    numbers.sort(key=lambda number: (records[number].last_task, number))
    unit = gcd(*sizes) or 1
    rows = [(n, sizes[n] // unit, records[n].first_task, records[n].last_task) for n in numbers]
    number, size, first, last = np.array(rows, np.int64).reshape(-1, 4).T.copy()
    return SizeClasses(unit, number, size, first, last, np.unique(size))


def most_at_once(first: Int64Array, last: Int64Array) -> int:
    """Return how many of the stretches of time, ends included, are there at once at most."""
    begins = np.sort(first)
    live = np.arange(1, len(begins) + 1) - np.searchsorted(np.sort(last), begins)
    return int(live.max(initial=0))


def objects_of(records: Sequence[TensorUsageRecord], chosen: Sequence[int]) -> list[int]:
    """Return the number of an object for each tensor, given the size of the object it shall be in.

    Of each size no more objects are made than needed; they are numbered as they begin to be used.
    """
    order = sorted(range(len(records)), key=lambda number: records[number].first_task)
    in_use = ObjectsInUse()
    free: dict[int, list[int]] = {}
    size_of: list[int] = []
    ids = [-1] * len(records)
    for number in order:
        record = records[number]
        for target in in_use.released(record.first_task):
            heappush(free.setdefault(size_of[target], []), target)
        waiting = free.get(chosen[number])
        if waiting:
            ids[number] = heappop(waiting)
        else:
            ids[number] = len(size_of)
            size_of.append(chosen[number])
        in_use.occupy(ids[number], record.last_task)
    return ids
