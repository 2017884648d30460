"""Random valid modules, independent of where the random choices come from."""

from lowtide.testing.generation.module import draw_module, random_module, random_schedule
from lowtide.testing.generation.recipe import (
    ALL_TYPES,
    COMMON_TYPES,
    FAMILIES,
    MEMORY,
    MEMORY_FAMILIES,
    Recipe,
    SeededChoices,
)

__all__ = [
    "ALL_TYPES",
    "COMMON_TYPES",
    "FAMILIES",
    "MEMORY",
    "MEMORY_FAMILIES",
    "Recipe",
    "SeededChoices",
    "draw_module",
    "random_module",
    "random_schedule",
]
