"""Ingredients of random modules, and the source of the random choices."""

from __future__ import annotations

import random
from typing import Final, Protocol, final

from lowtide.ir.element_type import BITS, ElementType
from lowtide.records import dataclass

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
"""The kinds of operations that can be asked for; those of most programs."""

MEMORY_FAMILIES: Final = ("loops", "branches", "in place", "call sites", "asynchronous")
"""Further kinds: those in which values have to lie in one place, or cannot."""

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
    `layouts` gives some arrays another order of dimensions in memory. With `shared_results`,
    arguments, constants and repeated values leave the program too, and most outputs that fit an
    argument are written over one, not always their own.
    """

    families: tuple[str, ...] = FAMILIES
    max_instructions: int = 20
    element_types: tuple[ElementType, ...] = ALL_TYPES
    max_size: int = 4
    empty_arrays: bool = True
    aliases: bool = True
    control_dependencies: bool = False
    is_scheduled: bool = False
    layouts: bool = False
    shared_results: bool = False

    def __post_init__(self) -> None:
        known = (*FAMILIES, *MEMORY_FAMILIES)
        unknown = [family for family in self.families if family not in known]
        if unknown or not self.families or not self.element_types:
            raise ValueError(f"no family {unknown}; there are: {', '.join(known)}")


MEMORY: Final = Recipe(
    (*MEMORY_FAMILIES, "elementwise", "data movement", "indexing", "sorting", "tuples"),
    max_instructions=10,
    element_types=(E.F32, E.S32, E.PRED, E.BF16, E.S8, E.F64, E.C64),
    layouts=True,
    shared_results=True,
)
"""Small modules in which most values want the place of another one."""


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
