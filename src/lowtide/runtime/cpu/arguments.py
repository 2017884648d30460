"""Arguments of a program: checks, and conversion to what kernels read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lowtide.ir.errors import InputError, UnsupportedOpError
from lowtide.ir.given_arrays import misfit, opened_array, read_as
from lowtide.ir.literal import DTYPES, Array
from lowtide.ir.shape import Shape
from lowtide.records import dataclass

LEAST_ALIGNMENT = 16
"""Arrays of larger elements may lie at multiples of this, which is what `malloc` gives."""


class SharedMemoryError(InputError):
    """An array that is to be overwritten shares bytes with another argument; nothing was run."""


@dataclass(frozen=True, slots=True)
class Argument:
    """An array that a program takes: as messages call it, its shape, and the allocation that it is.

    The allocation is -1 for an array that is not read.
    """

    label: str
    shape: Shape
    allocation: int

    def __str__(self) -> str:
        return self.label


def major_to_minor(shape: Shape) -> tuple[int, ...]:
    """Return the dimensions of an array as they lie in memory, the slowest varying first.

    Raises UnsupportedOpError for a layout with tiles or packed elements.
    """
    layout = shape.layout
    if layout is None:
        return tuple(range(shape.rank))
    packed = layout.element_size_in_bits not in (0, 8 * DTYPES[shape.element_type].itemsize)
    if layout.tiles or layout.dimension_levels or packed:
        raise UnsupportedOpError(
            f"native code takes and returns arrays in plain layouts, not {shape}; "
            "the evaluator (--reference) takes any"
        )
    return tuple(reversed(layout.minor_to_major))


def is_row_major(shape: Shape) -> bool:
    """Whether an array lies in memory as NumPy's arrays do by default."""
    return major_to_minor(shape) == tuple(range(shape.rank))


def physical_sizes(shape: Shape) -> tuple[int, ...]:
    """Return the sizes of the dimensions as they lie in memory, the slowest varying first."""
    return tuple([shape.dimensions[x] for x in major_to_minor(shape)])


def alignment(shape: Shape) -> int:
    """Return what the address of an array is a multiple of, in bytes."""
    return min(DTYPES[shape.element_type].itemsize, LEAST_ALIGNMENT)


def as_array(wanted: Argument, given: Any) -> Array:
    """Return what is given as an array of the wanted type and sizes, without a copy if possible.

    An unsigned array of equal width is read as the wanted type; a Python number is converted.
    Raises InputError where it does not fit.
    """
    array = opened_array(given)
    if array.shape != wanted.shape.dimensions:
        raise misfit(wanted, array)
    return read_as(wanted, array, given)


def in_memory_order(wanted: Argument, array: Array) -> Array:
    """Return a checked array as kernels read it: contiguous, aligned, slowest dimension first.

    It is the array itself, a view of it, or a copy.
    """
    dtype = DTYPES[wanted.shape.element_type]
    ordered = np.ascontiguousarray(array.transpose(major_to_minor(wanted.shape)))
    if array.ndim == 0:
        ordered = ordered.reshape(())
    if ordered.ctypes.data % alignment(wanted.shape):
        ordered = ordered.copy()
    return ordered if ordered.dtype is dtype else ordered.view(dtype)


def consumable(wanted: Argument, array: Array) -> Array:
    """Return a checked array, in the order of memory, that a run may overwrite.

    Raises InputError where that would overwrite a copy or what must not be written.
    """
    ordered = in_memory_order(wanted, array)
    if ordered.ctypes.data != array.ctypes.data:
        raise InputError(
            f"{wanted} is to be consumed, which needs an array that is contiguous in layout "
            f"{wanted.shape} and aligned; give a copy, or leave out consume=True"
        )
    if not ordered.flags.writeable:
        raise InputError(
            f"{wanted} is to be consumed, but the array is read-only; give a copy, or leave out "
            "consume=True"
        )
    return ordered


def check_disjoint(
    arguments: Sequence[Argument], arrays: Sequence[Array], consumed: Sequence[int]
) -> None:
    """Raise SharedMemoryError where an array to be overwritten shares bytes with another one."""
    ends = sorted([(x.ctypes.data, x.nbytes, n) for n, x in enumerate(arrays) if x.nbytes])
    overwritten = set(consumed)
    furthest, owner = 0, -1
    for begin, nbytes, number in ends:
        if begin < furthest and (number in overwritten or owner in overwritten):
            one, other = sorted((number, owner))
            raise SharedMemoryError(
                f"{arguments[one]} and {arguments[other]} share memory, and one of them is to be "
                "consumed; give a copy, or leave out consume=True"
            )
        if begin + nbytes > furthest:
            furthest, owner = begin + nbytes, number
