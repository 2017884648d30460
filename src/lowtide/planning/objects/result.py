"""The result of a strategy, with the bound that the tensors of single tasks give."""

from __future__ import annotations

from collections.abc import Sequence

from lowtide.planning.objects.task_profile import clique_bound, nbytes_of
from lowtide.planning.plans import ObjectsAssignment
from lowtide.planning.problem import TensorUsageRecord


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
