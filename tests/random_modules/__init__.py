"""Random valid modules, independent of where the random choices come from."""

from tests.random_modules.module import draw_module, random_module, random_schedule
from tests.random_modules.recipe import (
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
