"""The table of all that the hunter draws, by opcode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.hunting.operations import (
    algebra,
    contraction,
    elementwise,
    indexing,
    movement,
    reduction,
)
from tests.hunting.operations.regions import REGIONS, Region
from tests.hunting.scope import Maker

MAKERS: Final[Mapping[str, Maker]] = {
    **elementwise.MAKERS,
    **movement.MAKERS,
    **indexing.MAKERS,
    **reduction.MAKERS,
    **contraction.MAKERS,
    **algebra.MAKERS,
}
"""By opcode: a function that draws the operation for an element type, or returns None."""

OUTSIDE: Final = frozenset(
    {
        "cholesky",
        "triangular-solve",
        "fft",
        "batch-norm-training",
        "batch-norm-grad",
        "ragged-dot",
        "scaled-dot",
        "rng-bit-generator",
        "sort",
        "topk",
        "select-and-scatter",
        "scan",
    }
)
"""Operations that stand in fusions only rarely."""

REGION_OPCODES: Final = tuple(REGIONS)

__all__ = ["MAKERS", "OUTSIDE", "REGIONS", "REGION_OPCODES", "Maker", "Region"]
