"""Arguments for programs that divide, take roots, and look up rows."""

from __future__ import annotations

import zlib

import numpy as np

from lowtide.ir.literal import DTYPES, Array
from lowtide.ir.module import Module
from lowtide.ir.shape import Shape


def likely_arguments(module: Module, seed: int) -> list[Array]:
    """Return an argument for each leaf of the parameters, with which few results are not finite.

    For an even seed all numbers are positive, so that variances have roots; for an odd one their
    signs differ. Matrices have multiples of 1/512 up to 1/16, so that long chains of products do
    not overflow; other floating point arrays multiples of 1/64 up to 1/2. Integer arrays are
    between 0 and 2, and so are mostly indices; integers alone are 1 or 2, as a count of steps.
    """
    leaves = [leaf for p in module.entry.parameters for _, leaf in p.shape.leaves()]
    text = ",".join([str(leaf.static()) for leaf in leaves])
    random = np.random.default_rng([seed, zlib.crc32(text.encode())])
    signs = [1] if seed % 2 == 0 else [-1, 1]
    return [_numbers(leaf, random, signs) for leaf in leaves if leaf.is_array]


def _numbers(shape: Shape, random: np.random.Generator, signs: list[int]) -> Array:
    sizes, dtype = shape.dimensions, DTYPES[shape.element_type]
    if shape.element_type.is_floating or shape.element_type.is_complex:
        scale = 64 if shape.rank < 2 else 512
        numbers = random.integers(1, 33, sizes) * random.choice(signs, sizes) / scale
        return np.asarray(numbers).astype(dtype)
    if not shape.element_type.is_integer:
        return np.asarray(random.integers(0, 2, sizes)).astype(dtype)
    most = min(2, (1 << shape.element_type.bits - shape.element_type.is_signed) - 1)
    return np.asarray(random.integers(min(most, 0 if shape.rank else 1), most + 1, sizes)).astype(
        dtype
    )
