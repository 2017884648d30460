"""Arguments of drawn modules: small numbers, or numbers of every size that a type holds."""

from __future__ import annotations

import zlib
from collections.abc import Mapping

import numpy as np

from lowtide.ir import Module
from lowtide.ir.element_type import ElementType
from lowtide.ir.literal import DTYPES, Array
from lowtide.ir.shape import Shape
from lowtide.testing.check_pass import seeded_arguments


def case_arguments(module: Module, seed: int, *, in_parts: bool = False) -> list[Array]:
    """Return an array for each leaf of the parameters, the same for equal shapes and seeds.

    Numbers are small for even seeds. For others integers have every number of bits, and floats are
    multiples of 1/8 of so few bits that products of two are exact, and zeros of both signs. Those
    of f16 are below 8 `in_parts`: a sum that fits may have a part that does not.
    """
    small = seeded_arguments(module, seed)
    if seed % 2 == 0:
        return small
    leaves = [leaf for p in module.entry.parameters for _, leaf in p.shape.leaves()]
    shapes = [leaf for leaf in leaves if leaf.is_array]
    text = ",".join([str(shape.static()) for shape in shapes])
    random = np.random.default_rng([seed, zlib.crc32(text.encode())])
    bits = {**_BITS, ElementType.F16: 6} if in_parts else _BITS
    return [_of_all_sizes(s, x, random, bits) for s, x in zip(shapes, small, strict=True)]


_BITS = {ElementType.F64: 11, ElementType.F32: 11, ElementType.F16: 10, ElementType.BF16: 7}


def _of_all_sizes(
    shape: Shape, small: Array, random: np.random.Generator, bits: Mapping[ElementType, int]
) -> Array:
    """Numbers of a type, up to its ends where they are whole."""
    type_, dtype = shape.element_type, DTYPES[shape.element_type]
    if type_.is_integer and type_.bits >= 8:
        drawn = random.integers(0, 1 << 64, small.shape, np.uint64)
        drawn >>= random.integers(64 - type_.bits, 64, small.shape).astype(np.uint64)
        negative = type_.is_signed & (random.integers(0, 2, small.shape) > 0)
        return np.asarray(np.where(negative, -drawn, drawn)).astype(dtype)
    if type_ not in bits:
        return small
    most = 1 << bits[type_]
    whole = random.integers(-most, most + 1, small.shape)
    zeros = np.where(random.integers(0, 2, small.shape) > 0, 0.0, -0.0)
    return np.asarray(np.where(random.integers(0, 16, small.shape) > 0, whole / 8, zeros)).astype(
        dtype
    )
