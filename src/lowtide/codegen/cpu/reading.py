"""Loading vectors of elements: consecutive ones, or any of each lane."""

from __future__ import annotations

from lowtide.codegen.arrays import Array
from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elements.values import Mask
from lowtide.codegen.elementwise import memory
from lowtide.codegen.indexing import Affine
from lowtide.codegen.value import Value


def consecutive(elements: Elements, array: Array, place: Affine, mask: Mask | None) -> Value:
    """Return elements that lie side by side."""
    pointer = elements.address(array, place)
    lanes = elements.lanes
    name = None if mask is None else elements.vectors.mask_lanes(mask, lanes)
    type_ = array.shape.element_type
    return memory.load(elements.function, elements.target, type_, pointer, lanes, name)


def gathered(elements: Elements, array: Array, place: Affine, mask: Mask | None) -> Value:
    """Return elements that lie anywhere in an array."""
    lanes = elements.lanes
    name = None if mask is None else elements.vectors.mask_lanes(mask, lanes)
    indices = elements.indices.vector(place)
    type_ = array.shape.element_type
    return memory.gather(
        elements.function, elements.target, type_, array.pointer, indices, lanes, name
    )
