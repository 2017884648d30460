"""The result of planning a graph."""

from __future__ import annotations

from typing import Final

from lowtide.records import dataclass

OWN_PLACE: Final = -1
"""In place of the input whose place an output takes: none."""

NEVER_READ: Final = -2
"""In place of the input whose place an output takes: none, and nobody reads the output."""


@dataclass(frozen=True, slots=True)
class NnvmPlan:
    """Per entry the block that it lies in, and the input whose place it took.

    `storage_id` is the number of a block, or `NO_STORAGE`, `EXTERNAL` or `DYNAMIC`;
    `inplace_index` the position of an input, `OWN_PLACE` or `NEVER_READ`. `block_bytes` are the
    sizes of the blocks as planned, `bytes` their sum. Of the outputs of operations `not_allocated`
    have no storage. `match_range` is the one that was taken, None where nothing was planned.
    """

    storage_id: tuple[int, ...]
    inplace_index: tuple[int, ...]
    bytes: int
    not_allocated: int
    block_bytes: tuple[int, ...]
    match_range: int | None
