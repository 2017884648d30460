"""Arguments of drawn modules: small numbers, or numbers of every size that a type holds."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any, Final

import ml_dtypes
import numpy as np
from tests.hunting.roundings import REDUCING
from tests.hunting.xla_differences import leaves_nan_anywhere

from lowtide.ir import Instruction, Module, Opcode
from lowtide.ir.element_type import ElementType
from lowtide.ir.literal import DTYPES, Array
from lowtide.ir.shape import Shape
from lowtide.testing.check_pass import seeded_arguments


def case_arguments(module: Module, seed: int, *, in_parts: bool = False) -> list[Array]:
    """Return an array for each leaf of the parameters, the same for equal shapes and seeds.

    Numbers are small for even seeds. For others integers have every number of bits, and floats are
    multiples of 1/8 of so few bits that products of two are exact, and zeros of both signs. Those
    of f16 are below 8 `in_parts`: a sum that fits may have a part that does not. Once in eight
    seeds some floats are no numbers, infinite, or next to 0, if no operation has a choice there.
    """
    small = seeded_arguments(module, seed)
    if seed % 2 == 0:
        return small
    leaves = [leaf for p in module.entry.parameters for _, leaf in p.shape.leaves()]
    shapes = [leaf for leaf in leaves if leaf.is_array]
    text = ",".join([str(shape.static()) for shape in shapes])
    random = np.random.default_rng([seed, zlib.crc32(text.encode())])
    bits = {**_BITS, ElementType.F16: 6} if in_parts else _BITS
    made = [_of_all_sizes(s, x, random, bits) for s, x in zip(shapes, small, strict=True)]
    if not has_ends(module, seed):
        return made
    return [_with_ends(s.element_type, x, random) for s, x in zip(shapes, made, strict=True)]


def has_ends(module: Module, seed: int) -> bool:
    """Return whether some floats are no numbers, infinite or next to 0."""
    found = [x for c in module.computations.values() for x in c.instructions.values()]
    return seed % 8 == 5 and not any(
        x.opcode in _WITH_A_CHOICE
        or _is_product_of_pairs(x)
        or (x.opcode in _ORDERING and leaves_nan_anywhere(x))
        for x in found
    )


def _is_product_of_pairs(x: Instruction) -> bool:
    """Whether processors may multiply with instructions that take numbers next to 0 for 0."""
    return x.opcode is Opcode.DOT and x.operands[0].shape.element_type is ElementType.BF16


_WITH_A_CHOICE: Final = frozenset(
    {
        *(Opcode.BATCH_NORM_GRAD, Opcode.BATCH_NORM_INFERENCE, Opcode.BATCH_NORM_TRAINING),
        *(Opcode.CHOLESKY, Opcode.CONVOLUTION, Opcode.FFT, Opcode.TRIANGULAR_SOLVE),
    }
)
"""Operations of which it hangs on the algorithm where an infinity goes."""

_ORDERING: Final = frozenset({*REDUCING, Opcode.SORT})
"""Operations that have no right result where what they call puts a NaN into no order."""

_ENDS: Final = (np.nan, -np.nan, np.inf, -np.inf, -0.0, 0.75, -0.75)


def _with_ends(type_: ElementType, x: Array, random: np.random.Generator) -> Array:
    """An array of which one number in four is an end of its type; the last two are next to 0."""
    if not type_.is_floating or type_ is ElementType.F8E8M0FNU:
        return x
    about: Any = ml_dtypes.finfo
    least = float(about(x.dtype).tiny)
    ends = np.array([e * least if abs(e) < 1 else e for e in _ENDS]).astype(x.dtype)
    chosen = ends[random.integers(0, len(ends), x.shape)]
    return np.asarray(np.where(random.integers(0, 4, x.shape) == 0, chosen, x))


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
