"""Hypothesis strategies for valid modules and for their arguments."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import final

import numpy as np
from hypothesis import strategies as st
from tests.random_modules import ALL_TYPES, FAMILIES, MEMORY, Recipe, draw_module

from lowtide.ir.element_type import ElementType
from lowtide.ir.literal import DTYPES, Array
from lowtide.ir.module import Module
from lowtide.ir.shape import Shape
from lowtide.testing.check_pass import seeded_arguments


def modules(
    families: Sequence[str] = FAMILIES,
    max_instructions: int = 20,
    element_types: Sequence[ElementType] = ALL_TYPES,
    *,
    max_size: int = 4,
    empty_arrays: bool = True,
    aliases: bool = True,
    control_dependencies: bool = False,
    is_scheduled: bool = False,
) -> st.SearchStrategy[Module]:
    """Return a strategy for valid modules of some families of operations; see `Recipe`.

    Smaller choices give simpler modules, so that a failure shrinks to a short one.
    """
    recipe = Recipe(
        tuple(families),
        max_instructions,
        tuple(element_types),
        max_size,
        empty_arrays,
        aliases,
        control_dependencies,
        is_scheduled,
    )
    return _modules(recipe)


def memory_modules() -> st.SearchStrategy[Module]:
    """Return a strategy for small modules in which most values want the place of another one."""
    return _modules(MEMORY)


@st.composite
def _modules(draw: st.DrawFn, recipe: Recipe) -> Module:
    return draw_module(_Drawn(draw), recipe)


@final
class _Drawn:
    """Choices that Hypothesis makes."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw

    def integer(self, least: int, most: int) -> int:
        """Return a number between both ends, which are included."""
        return self._draw(_integers(least, most))


@cache
def _integers(least: int, most: int) -> st.SearchStrategy[int]:
    return st.integers(least, most)


# -- arguments ---------------------------------------------------------------------------------


@st.composite
def inputs_for(draw: st.DrawFn, module: Module, *, special: bool = True) -> list[Array]:
    """Return a strategy for arguments of a module: one array per leaf of its parameters.

    Mostly small numbers (see `seeded_arguments`); with `special` some elements are zeros of both
    signs, infinities, NaN, subnormals, or the greatest and least of their type.
    """
    arrays = seeded_arguments(module, draw(st.integers(0, 1000)))
    leaves = [leaf for p in module.entry.parameters for _, leaf in p.shape.leaves()]
    shapes = [leaf for leaf in leaves if leaf.is_array]
    if not special:
        return arrays
    return [
        _with_special(array, shape, draw(st.integers(0, 2**16)))
        for array, shape in zip(arrays, shapes, strict=True)
    ]


def _with_special(array: Array, shape: Shape, seed: int) -> Array:
    """Return the array with some elements replaced; with none for an even seed."""
    values = special_values(shape.element_type)
    if seed % 2 == 0 or not array.size or not len(values):
        return array
    random = np.random.default_rng(seed)
    chosen = random.choice(values, array.shape)
    return np.where(random.random(array.shape) < 0.3, chosen, array).astype(array.dtype)


@cache
def special_values(element_type: ElementType) -> Array:
    """Return the numbers of an element type at which implementations go wrong; none for pred."""
    dtype = DTYPES[element_type]
    if element_type.is_integer:
        wide = np.int64 if element_type.is_signed else np.uint64
        return np.array([*element_type.bounds, 0], wide).astype(dtype)
    if element_type.is_floating or element_type.is_complex:
        numbers = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 0.5, 1e30]
        with np.errstate(all="ignore"):
            return np.array(numbers).astype(dtype)
    return np.array([], dtype)
