"""Values of one or several arrays on one device: their shapes, their leaves, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from lowtide.ir import Instruction, Opcode, Shape, tuple_shape
from lowtide.ir.attributes import GetTupleElement
from lowtide.ir.tilings.grid import DeviceGrid
from lowtide.ir.tilings.tiling import Tiling, replicated
from lowtide.ops.factors.record import arrays_of
from lowtide.spmd.annotations import TilingWish
from lowtide.spmd.emitter import Emitter
from lowtide.spmd.resharding import local_shape
from lowtide.spmd.written import WrittenArray

Leaf = TypeVar("Leaf")


def element_of(x: Instruction, leaves: Sequence[Leaf]) -> list[Leaf]:
    """Return of the leaves of a tuple those of the element that an instruction reads."""
    index = x.attributes_as(GetTupleElement).index
    before = x.operands[0].shape.tuple_shapes[:index]
    first = sum([len(arrays_of(shape)) for shape in before])
    return list(leaves[first : first + len(arrays_of(x.shape))])


def local_tree(shape: Shape, tilings: Sequence[Tiling], grid: DeviceGrid) -> Shape:
    """Return the shape of the tiles of a value, which may be a tuple of several."""
    if not shape.is_tuple:
        return local_shape(shape, tilings[0], grid) if shape.is_array else shape
    parts, at = [], 0
    for element in shape.tuple_shapes:
        count = len(arrays_of(element))
        parts.append(local_tree(element, tilings[at : at + count], grid))
        at += count
    return tuple_shape(parts)


def written_leaves(
    emitter: Emitter, made: Instruction, shape: Shape, tilings: Sequence[Tiling]
) -> list[WrittenArray]:
    """Return the leaves of an instruction that makes tiles of `shape`."""
    if not shape.is_tuple:
        return [WrittenArray.of(emitter, shape, tilings[0], made)]
    found: list[WrittenArray] = []
    for number, element in enumerate(shape.tuple_shapes):
        count = len(arrays_of(element))
        part = emitter.add(Opcode.GET_TUPLE_ELEMENT, (made,), GetTupleElement(number))
        own = tilings[len(found) : len(found) + count]
        found += written_leaves(emitter, part, element, own)
    return found


def result_of(
    emitter: Emitter, shape: Shape, leaves: Sequence[WrittenArray], tilings: Sequence[Tiling]
) -> Instruction:
    """Return the instruction that makes a value of leaves in the given tilings."""
    parts = [leaf.to(tiling) for leaf, tiling in zip(leaves, tilings, strict=True)]
    return tree(emitter, shape, parts)


def tree(emitter: Emitter, shape: Shape, parts: Sequence[Instruction]) -> Instruction:
    """Return the value of a shape whose leaves are `parts`."""
    if not shape.is_tuple:
        return parts[0]
    made, at = [], 0
    for element in shape.tuple_shapes:
        count = len(arrays_of(element))
        made.append(tree(emitter, element, parts[at : at + count]))
        at += count
    return emitter.add(Opcode.TUPLE, tuple(made), shape=tuple_shape([part.shape for part in made]))


def first_alone(shape: Shape, grid: DeviceGrid) -> Tiling:
    """Return the tiling of an array that the first device has, and the others as nothing."""
    return Tiling(replicated(shape.rank).axes, tuple(range(len(grid.sizes))))


def exchange(wish: TilingWish | None, tiling: Tiling, shape: Shape) -> tuple[int, ...] | None:
    """Return the order of devices asked for an array in a tiling, None for that of the grid."""
    return wish.order_of(tiling) if wish and shape.is_array else None


def in_order(
    emitter: Emitter, x: Instruction, wish: TilingWish | None, tiling: Tiling
) -> Instruction:
    """Return tiles moved from the devices of the grid to those that are asked to hold them."""
    order = exchange(wish, tiling, x.shape)
    if order is None:
        return x
    return emitter.exchanged(x, sorted([(other, device) for device, other in enumerate(order)]))


def off_order(
    emitter: Emitter, x: Instruction, wish: TilingWish | None, tiling: Tiling
) -> Instruction:
    """Return tiles moved from the devices that are asked to hold them to those of the grid."""
    order = exchange(wish, tiling, x.shape)
    if order is None:
        return x
    return emitter.exchanged(x, list(enumerate(order)))
