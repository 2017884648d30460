"""Loading elements of arrays in memory: a scalar, consecutive elements, or any of each lane."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lowtide.codegen import indexing
from lowtide.codegen.cpu.strided import element_address, strided
from lowtide.codegen.elementwise import memory
from lowtide.codegen.indexing import Affine
from lowtide.codegen.value import Value
from lowtide.ir import Shape

if TYPE_CHECKING:
    from lowtide.codegen.elements.elements import Element, Elements, Index, Mask


@dataclass(frozen=True, slots=True)
class Array:
    """An array in memory: the address of its first element, and its shape with a layout."""

    pointer: str
    shape: Shape


def strides(shape: Shape) -> tuple[int, ...]:
    """Return by how many elements neighbours along each dimension lie apart."""
    order = shape.layout.minor_to_major if shape.layout else tuple(reversed(range(shape.rank)))
    found = [0] * shape.rank
    step = 1
    for dimension in order:
        found[dimension] = step
        step *= shape.dimensions[dimension]
    return tuple(found)


def offset(shape: Shape, index: Index) -> Affine:
    """Return how many elements lie before the one at an index."""
    total = indexing.ZERO
    for position, step in zip(index, strides(shape), strict=True):
        total = total + position * step
    return total.within(0, max(shape.element_count - 1, 0))


def read(elements: Elements, array: Array, index: Index, mask: Mask | None) -> Element:
    """Load the element of an array at an index; nothing outside of it is ever touched.

    Of an array without elements, which can be asked for by indices from memory only, it is 0.
    """
    from lowtide.codegen.elements.elements import Element

    if not array.shape.element_count:
        return Element((memory.constant(array.shape.element_type, 0),), 0)
    place = offset(array.shape, index)
    elements.reads.append((array, place))
    level = max(place.level, 0 if mask is None else mask.level)
    value: Value = elements.once(
        ("read", array, place, mask), level, lambda: _loaded(elements, array, place, mask)
    )
    return Element((value,), elements.placed(level))


def _loaded(elements: Elements, array: Array, place: Affine, mask: Mask | None) -> Value:
    if not place.varies:
        return _single(elements, array, place, mask)
    if place.lane_step == 1:
        return _consecutive(elements, array, place, mask)
    if elements.tile is not None:
        found = elements.tile.read(elements, array, place, mask)
        if found is not None:
            return found
    found = strided(elements, array, place, mask)
    return found or _gathered(elements, array, place, mask)


def address(elements: Elements, array: Array, place: Affine) -> str:
    """Return the address of an element, of lane 0 where lanes differ."""
    return element_address(elements.function, array, elements.scalar(place))


def _single(elements: Elements, array: Array, place: Affine, mask: Mask | None) -> Value:
    fn = elements.function
    type_ = array.shape.element_type
    if mask is None:
        return memory.load(fn, elements.target, type_, address(elements, array, place), 0)
    wanted = mask.name
    if mask.lanes:
        bits = fn.op(f"bitcast <{mask.lanes} x i1> {mask.name} to i{mask.lanes}")
        wanted = fn.op(f"icmp ne i{mask.lanes} {bits}, 0")
    there = address(elements, array, place)
    pointer = fn.select(wanted, "ptr", there, array.pointer)
    return memory.load(fn, elements.target, type_, pointer, 0)


def _consecutive(elements: Elements, array: Array, place: Affine, mask: Mask | None) -> Value:
    pointer = address(elements, array, place)
    lanes = elements.lanes
    name = None if mask is None else elements.mask_lanes(mask, lanes)
    type_ = array.shape.element_type
    return memory.load(elements.function, elements.target, type_, pointer, lanes, name)


def _gathered(elements: Elements, array: Array, place: Affine, mask: Mask | None) -> Value:
    lanes = elements.lanes
    name = None if mask is None else elements.mask_lanes(mask, lanes)
    indices = elements.vector(place)
    type_ = array.shape.element_type
    return memory.gather(
        elements.function, elements.target, type_, array.pointer, indices, lanes, name
    )
