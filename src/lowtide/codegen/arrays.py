"""Arrays in memory: where their elements lie."""

from __future__ import annotations

from lowtide.codegen import indexing
from lowtide.codegen.indexing import Affine, Index
from lowtide.codegen.value import memory_type
from lowtide.ir import Shape
from lowtide.llvm.function import Function, Integer
from lowtide.records import dataclass


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


def element_address(fn: Function, array: Array, place: Integer) -> str:
    """Return the address of the element at a place in an array."""
    element = memory_type(array.shape.element_type)
    if array.shape.element_type.is_complex:
        element = f"{{ {element}, {element} }}"
    return fn.gep(array.pointer, place, element)
