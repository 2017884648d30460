"""The better one of two: by size, and by breadth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lowtide.planning.objects.greedy_by_breadth import greedy_by_breadth
from lowtide.planning.objects.greedy_by_size import greedy_by_size
from lowtide.planning.plans import ObjectsAssignment
from lowtide.planning.problem import TensorUsageRecord
from lowtide.planning.registry import ObjectOptions, ObjectStrategy


def greedy_best(records: Sequence[TensorUsageRecord], options: ObjectOptions) -> ObjectsAssignment:
    """Return the assignment by size, or the one by breadth where that is smaller."""
    by_size = greedy_by_size(records, options)
    by_breadth = greedy_by_breadth(records, options)
    return by_breadth if by_breadth.total_size < by_size.total_size else by_size


STRATEGIES: Final = (
    ObjectStrategy(
        "greedy_best",
        greedy_best,
        "greedy_by_size, or greedy_by_breadth where that is smaller",
        "TensorFlow Lite GPU delegate",
        any_order=True,
    ),
)
