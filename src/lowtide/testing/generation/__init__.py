"""Random valid modules, independent of where the random choices come from."""

from lowtide.testing.generation.module import draw_module, random_module
from lowtide.testing.generation.recipe import ALL_TYPES, COMMON_TYPES, FAMILIES, Recipe

__all__ = ["ALL_TYPES", "COMMON_TYPES", "FAMILIES", "Recipe", "draw_module", "random_module"]
