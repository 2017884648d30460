"""An object for every tensor: what is needed where nothing is shared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lowtide.planning.objects.result import shared_alike
from lowtide.planning.plans import ObjectsAssignment
from lowtide.planning.problem import TensorUsageRecord
from lowtide.planning.registry import ObjectOptions, ObjectStrategy


def naive(records: Sequence[TensorUsageRecord], options: ObjectOptions) -> ObjectsAssignment:
    """Return the assignment of each tensor to an object of its own."""
    return shared_alike(records, range(len(records)), [record.size for record in records])


STRATEGIES: Final = (
    ObjectStrategy(
        "naive",
        naive,
        "an object for every tensor",
        "TensorFlow Lite GPU delegate",
        dimensions=frozenset({1, 2, 3, 4}),
    ),
)
