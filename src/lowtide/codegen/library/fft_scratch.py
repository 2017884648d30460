"""Arrays between the passes of an fft: their complex type, and their places in scratch."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from lowtide.codegen.arrays import strides
from lowtide.codegen.kernel import rounded
from lowtide.codegen.library.fft_form import FftPass, FoldPass, LinesPlace
from lowtide.ir import ElementType, Shape, array_shape

COMPLEX: Final = {
    ElementType.F32: ElementType.C64,
    ElementType.F64: ElementType.C128,
    ElementType.C64: ElementType.C64,
    ElementType.C128: ElementType.C128,
}
"""The type in which passes compute, by that of the operand."""


def lies_in_rows(shape: Shape) -> bool:
    """Whether an array is in row-major order, as passes take it."""
    return strides(shape) == strides(array_shape(shape.element_type, shape.dimensions))


def places_in_scratch(
    passes: Sequence[FftPass | FoldPass], operand: Shape, like_operand: Collection[LinesPlace]
) -> tuple[dict[LinesPlace, int], int]:
    """Return where arrays between passes begin in scratch, and how many bytes they take.

    An array holds the most that a pass stores in it; one of `like_operand` also as much as the
    operand has.
    """
    counts: dict[LinesPlace, int] = {}
    for x in passes:
        place, count = _stored(x)
        if place in (LinesPlace.INPUT, LinesPlace.HALF_WAY):
            least = operand.element_count if place in like_operand else 0
            counts[place] = max(counts.get(place, least), count)
    starts: dict[LinesPlace, int] = {}
    size = 0
    for place, count in counts.items():
        starts[place] = size
        size += rounded(count * COMPLEX[operand.element_type].nbytes)
    return starts, size


def _stored(one: FftPass | FoldPass) -> tuple[LinesPlace, int]:
    """Where a pass stores, and how many elements."""
    if isinstance(one, FoldPass):
        return one.target, one.groups * one.kept
    return one.target.place, one.groups * one.count * one.kept
