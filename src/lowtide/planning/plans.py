"""Results of planners: offsets in an arena, or objects that tensors share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any

import numpy as np

from lowtide.planning.problem import ARENA, Int64Array, PackingProblem, TensorUsageRecord
from lowtide.records import dataclass
from lowtide.search.effort import StopReason


@dataclass(frozen=True, slots=True)
class Refutation:
    """A tree which shows that no packing is `height` bytes high, or lower.

    `tree` has its nodes in preorder: a pair of buffers that are live at once, followed by the case
    that the first one lies below the second and by the case that it lies above; or a step at which
    there is no room in such a case. Of buffers that are equal, those of lower number lie lower.
    """

    height: int
    tree: tuple[tuple[int, int] | int, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Packing:
    """Per buffer the region that it lies in, or `ARENA`, and its offset in there, in bytes.

    `arena_bytes` is the largest offset plus size in the arena, not rounded. `bound` is an arena
    size that was proved to be needed, 0 where none was: the most bytes live at once are a bound
    always. `refutation` is the proof of a bound above that, where it is short enough.
    """

    region: Int64Array
    offset: Int64Array
    arena_bytes: int
    bound: int = 0
    refutation: Refutation | None = None
    stopped: StopReason = StopReason.DONE


def arena_packing(problem: PackingProblem, offsets: Int64Array | Sequence[int]) -> Packing:
    """Return the packing with all buffers in the arena at given offsets."""
    offset = np.asarray(offsets, np.int64).reshape(len(problem))
    top = int((offset + problem.nbytes).max(initial=0))
    return Packing(np.full(len(problem), ARENA, np.int64), offset, top)


@dataclass(frozen=True, slots=True)
class CliqueBound:
    """Tasks at which many tensors live: as many objects are needed, with sizes as given.

    `tasks[k]` is a task at which k + 1 tensors of at least `sizes[k]` bytes are live.
    """

    tasks: tuple[int, ...]
    sizes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DualBound:
    """Prices of tensors that no set of objects can be cheaper than, in bytes.

    The price of tensor `i` is `prices[i] / denominator`. For each size, tensors that are not larger
    and never live together have prices of at most that size in all; so the tensors of an object
    have prices of at most its size, and all objects together are as large as all prices. The sum is
    rounded up to a multiple of the greatest common divisor of all sizes, as objects are.
    """

    prices: tuple[int, ...]
    denominator: int


@dataclass(frozen=True, slots=True)
class ObjectsAssignment:
    """Per tensor the object that it lies in, and the size of each object.

    Sizes are bytes, or extents where the tensors have them. No objects for these tensors are
    smaller together than `lower_bound` bytes; `evidence` proves it, or something less where a
    search that leaves nothing to check went on from there. `records` and `reallocation_graph` are
    what was asked for.
    """

    object_ids: tuple[int, ...]
    object_sizes: tuple[int | tuple[int, ...], ...]
    lower_bound: int = 0
    evidence: CliqueBound | DualBound | None = None
    stopped: StopReason = StopReason.DONE
    records: tuple[TensorUsageRecord, ...] = field(default=(), repr=False, compare=False)
    reallocation_graph: Sequence[Sequence[int]] | None = field(
        default=None, repr=False, compare=False
    )

    @property
    def total_size(self) -> int:
        """The sizes of all objects together: bytes, or elements where sizes are extents."""
        return sum([int(np.prod(size, dtype=object)) for size in self.object_sizes])

    @property
    def optimal(self) -> bool:
        """Whether no objects for these tensors are smaller together."""
        return self.total_size == self.lower_bound

    def certificate(self) -> dict[str, Any]:
        """Return the plan with what is proved about it, as a document that can be checked.

        Its bound is what `evidence` proves. Raises ValueError where sizes are extents.
        """
        from lowtide.planning.certificates import objects_certificate

        return objects_certificate(self.records, self, self.reallocation_graph)


@dataclass(frozen=True, eq=False, slots=True)
class OffsetsAssignment:
    """Places of tensors: `offsets` in bytes, and the height of the arena, not rounded.

    No offsets for these tensors need less than `lower_bound` bytes.
    """

    problem: PackingProblem
    packing: Packing
    offsets: tuple[int, ...]
    total_size: int
    lower_bound: int

    @property
    def optimal(self) -> bool:
        """Whether no offsets need less."""
        return self.total_size == self.lower_bound

    @property
    def stopped(self) -> StopReason:
        """Why the search ended."""
        return self.packing.stopped

    def certificate(self) -> dict[str, Any]:
        """Return the plan with what is proved about it, as a document that can be checked.

        Its bound is below `lower_bound` where the search that proved that is too long for it.
        """
        from lowtide.planning.certificates import offsets_certificate

        return offsets_certificate(self.problem, self.packing)
