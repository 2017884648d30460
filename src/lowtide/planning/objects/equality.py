"""Objects for each tensor, or shared by tensors of equal size only, in order of first task.

Of several free objects one variant takes the one that was freed last, the other the oldest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Final

from lowtide.planning.objects.task_profile import ObjectsInUse, shared_alike
from lowtide.planning.plans import ObjectsAssignment
from lowtide.planning.problem import TensorUsageRecord
from lowtide.planning.registry import ObjectOptions, ObjectStrategy


def naive(records: Sequence[TensorUsageRecord], options: ObjectOptions) -> ObjectsAssignment:
    """Return the assignment of each tensor to an object of its own."""
    return shared_alike(records, range(len(records)), [record.size for record in records])


Give = Callable[[list[int], int], None]
Take = Callable[[list[int]], int]

_SCANNED: Final = frozenset({2, 3})
"""The numbers of extents for which the original scans its objects."""


def equality(records: Sequence[TensorUsageRecord], options: ObjectOptions) -> ObjectsAssignment:
    """Return the assignment by exact size, as the original does for this kind of size.

    Bytes and four extents reuse what was freed last, two and three extents the oldest object.
    """
    size = records[0].size if records else 0
    if isinstance(size, tuple) and len(size) in _SCANNED:
        return equality_scan(records, options)
    return _assign(records, list.append, list.pop)


def equality_scan(
    records: Sequence[TensorUsageRecord], options: ObjectOptions
) -> ObjectsAssignment:
    """Return the assignment by exact size; of several free objects the lowest number is taken."""
    return _assign(records, heappush, heappop)


def _assign(records: Sequence[TensorUsageRecord], give: Give, take: Take) -> ObjectsAssignment:
    in_use = ObjectsInUse()
    free: defaultdict[int | tuple[int, ...], list[int]] = defaultdict(list)
    sizes: list[int | tuple[int, ...]] = []
    ids: list[int] = []
    for record in records:
        for number in in_use.released(record.first_task):
            give(free[sizes[number]], number)
        if free[record.size]:
            ids.append(take(free[record.size]))
        else:
            ids.append(len(sizes))
            sizes.append(record.size)
        in_use.occupy(ids[-1], record.last_task)
    return shared_alike(records, ids, sizes)


STRATEGIES: Final = (
    ObjectStrategy(
        "naive",
        naive,
        "an object for every tensor",
        "TensorFlow Lite GPU delegate",
        dimensions=frozenset({1, 2, 3, 4}),
    ),
    ObjectStrategy(
        "equality",
        equality,
        "in order of first task, a free object of exactly the tensor's size",
        "TensorFlow Lite GPU delegate",
        dimensions=frozenset({1, 2, 3, 4}),
    ),
    ObjectStrategy(
        "equality_scan",
        equality_scan,
        "as equality; of several free objects always the oldest",
        "TensorFlow Lite GPU delegate",
        dimensions=frozenset({1, 2, 3, 4}),
    ),
)
