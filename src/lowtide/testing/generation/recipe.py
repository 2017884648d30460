"""What random modules are made of, and where the random choices come from."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final, Protocol, final

from lowtide.ir.element_type import BITS, ElementType

FAMILIES: Final = (
    "elementwise",
    "transcendental",
    "conversion",
    "data movement",
    "indexing",
    "contraction",
    "reduction",
    "sorting",
    "tuples",
    "calls",
    "fusion",
)
"""The kinds of operations that can be asked for."""

E = ElementType
COMMON_TYPES: Final = (E.F32, E.S32, E.PRED, E.BF16, E.U8, E.F64, E.S64, E.F16, E.U32, E.C64, E.S8)
"""The element types that stand in most programs, the most frequent one first."""

ALL_TYPES: Final = (*COMMON_TYPES, *[x for x in BITS if x not in COMMON_TYPES])


@dataclass(frozen=True, slots=True)
class Recipe:
    """Which modules to make.

    `max_instructions` bounds the steps of the entry; a step may add a few instructions, and the
    computations that it calls. Dimensions have sizes up to `max_size`, 0 among them where
    `empty_arrays` says so. `aliases` lets outputs be written over arguments,
    `control_dependencies` adds some at random, and a scheduled module runs in order of creation.
    """

    families: tuple[str, ...] = FAMILIES
    max_instructions: int = 20
    element_types: tuple[ElementType, ...] = ALL_TYPES
    max_size: int = 4
    empty_arrays: bool = True
    aliases: bool = True
    control_dependencies: bool = False
    is_scheduled: bool = False

    def __post_init__(self) -> None:
        unknown = [family for family in self.families if family not in FAMILIES]
        if unknown or not self.families or not self.element_types:
            raise ValueError(f"no family {unknown}; there are: {', '.join(FAMILIES)}")


class Choices(Protocol):
    """Where random choices come from."""

    def integer(self, least: int, most: int) -> int:
        """Return a number between both ends, which are included."""


@final
class SeededChoices:
    """Choices that follow from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def integer(self, least: int, most: int) -> int:
        """Return a number between both ends, which are included."""
        return self._random.randint(least, most)
