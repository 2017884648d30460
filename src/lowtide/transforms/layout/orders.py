"""Orders of dimensions: a layout as the sequence of dimensions from the slowest to the fastest.

The row-major twin of a value has the same bytes: its dimensions are those of the value, permuted
so that they lie as they are numbered.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache, lru_cache

from lowtide.ir import Instruction, Layout, Opcode, Shape, array_shape
from lowtide.ir.attributes import NO_ATTRIBUTES, Attributes, Dimensions, Reshape
from lowtide.transforms.simplify.shapes import inverse, is_ascending

Order = tuple[int, ...]
"""The dimensions of an array from major to minor; `(0, 1, ..., rank - 1)` is row major."""


@cache
def row_major_order(rank: int) -> Order:
    """Return the order of dimensions that lie as they are numbered."""
    return tuple(range(rank))


def order_of(shape: Shape) -> Order:
    """Return the order in which the dimensions of an array lie."""
    if shape.layout is None:
        return row_major_order(shape.rank)
    return shape.layout.minor_to_major[::-1]


def with_order(shape: Shape, order: Order) -> Shape:
    """Return the array shape with its dimensions in another order."""
    return shape.with_layout(Layout(order[::-1]))


def twin_shape(shape: Shape) -> Shape:
    """Return the row-major shape with the same bytes."""
    return array_shape(shape.element_type, permuted(shape.dimensions, order_of(shape)))


@lru_cache(maxsize=1 << 14)
def permuted(values: Order, order: Order) -> Order:
    """Return what belongs to each dimension, in an order of dimensions."""
    return tuple([values[d] for d in order])


def kept_order(order: Iterable[int], kept: Sequence[int]) -> Order:
    """Return the order of some dimensions, numbered anew by their places in `kept`."""
    number = {d: i for i, d in enumerate(kept)}
    return tuple([number[d] for d in order if d in number])


@lru_cache(maxsize=4096)
def is_movable(shape: Shape) -> bool:
    """Whether a shape is that of an array of known sizes whose layout is an order and no more."""
    if not shape.is_array or shape.dynamic or any(n < 0 for n in shape.dimensions):
        return False
    return shape.layout is None or shape.layout == Layout(shape.layout.minor_to_major)


def is_default(shape: Shape) -> bool:
    """Whether an array is row major."""
    return order_of(shape) == row_major_order(shape.rank)


def same_bytes(a: Order, b: Order, sizes: Sequence[int]) -> bool:
    """Whether an array has the same bytes in two orders: they differ in sizes of 1 only."""
    return a == b or [d for d in a if sizes[d] != 1] == [d for d in b if sizes[d] != 1]


@lru_cache(maxsize=1 << 14)
def minor(order: Order, sizes: tuple[int, ...]) -> int:
    """Return the fastest dimension that is larger than 1, or -1."""
    return next((d for d in reversed(order) if sizes[d] != 1), -1)


def normal_order(order: Order, sizes: Sequence[int]) -> Order:
    """Return the one order that stands for all with the same bytes."""
    wide = [d for d in order if sizes[d] != 1]
    if is_ascending(wide):
        return row_major_order(len(order))
    return (*[d for d, n in enumerate(sizes) if n == 1], *wide)


def reordered(x: Instruction, before: Order, after: Order) -> Instruction:
    """Return the twin in order `after` of a value, given its twin `x` in order `before`.

    That is `x` itself, a reshape where only dimensions of size 1 move, or a transpose.
    """
    if before == after:
        return x
    permutation = permuted(inverse(before), after)
    sizes = permuted(x.shape.dimensions, permutation)
    moved = [d for d in permutation if x.shape.dimensions[d] != 1]
    how: tuple[Opcode, Attributes] = (Opcode.TRANSPOSE, Dimensions(permutation))
    if is_ascending(moved):
        how = (Opcode.RESHAPE, Reshape())
    made = x.parent.add(how[0], array_shape(x.shape.element_type, sizes), (x,), how[1])
    made.set_metadata(x.raw_metadata)
    return made


def bitcast(x: Instruction, shape: Shape) -> Instruction:
    """Return a value seen in another shape with the same bytes."""
    while x.opcode is Opcode.BITCAST and x.shape is not shape:
        x = x.operands[0]
    if x.shape is shape:
        return x
    made = x.parent.add(Opcode.BITCAST, shape, (x,), NO_ATTRIBUTES)
    made.set_metadata(x.raw_metadata)
    return made
