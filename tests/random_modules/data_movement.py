"""Random operations that rearrange elements, and those that read or write parts of arrays."""

from __future__ import annotations

from collections.abc import Sequence

from tests.random_modules.drawing import Drawing

from lowtide.builder import Op
from lowtide.ir.attributes import Gather, Scatter
from lowtide.ir.element_type import ElementType
from lowtide.ir.opcode import Opcode
from lowtide.ir.shape import Shape, array_shape

E = ElementType


def broadcast(drawing: Drawing) -> Op | None:
    """Draw a broadcast along new dimensions."""
    operand = drawing.array(ranks=(0, 2))
    if operand is None:
        return None
    rank = operand.rank + drawing.integer(0, 2)
    at = sorted(drawing.permutation(rank)[: operand.rank])
    sizes = [drawing.size() for _ in range(rank)]
    for dimension, size in zip(at, operand.dimensions, strict=True):
        sizes[dimension] = size
    return drawing.builder.broadcast(operand, sizes, at)


def reshape(drawing: Drawing) -> Op | None:
    """Draw a reshape to any factors of the number of elements."""
    operand = drawing.array()
    if operand is None:
        return None
    return drawing.builder.reshape(operand, _factors(drawing, operand.shape.element_count))


def bitcast(drawing: Drawing) -> Op | None:
    """Draw a bitcast to other dimensions."""
    operand = drawing.array()
    if operand is None:
        return None
    sizes = _factors(drawing, operand.shape.element_count)
    return drawing.builder.bitcast(operand, array_shape(operand.element_type, tuple(sizes)))


def _factors(drawing: Drawing, count: int) -> list[int]:
    sizes: list[int] = []
    rest = count
    for _ in range(drawing.integer(0, 3)):
        divisors = [i for i in range(1, 13) if rest % i == 0] if rest else [0, 1, 2]
        sizes.append(drawing.choice(divisors))
        rest = rest // sizes[-1] if sizes[-1] else 1
    return sizes if rest == 1 and (count or 0 in sizes) else [*sizes, rest]


def transpose(drawing: Drawing) -> Op | None:
    """Draw a transpose."""
    operand = drawing.array(ranks=(1, 4))
    if operand is None:
        return None
    return drawing.builder.transpose(operand, drawing.permutation(operand.rank))


def reverse(drawing: Drawing) -> Op | None:
    """Draw a reversal of some dimensions."""
    operand = drawing.array(ranks=(1, 4))
    if operand is None:
        return None
    return drawing.builder.reverse(operand, drawing.subset(operand.rank))


def slice_part(drawing: Drawing) -> Op | None:
    """Draw a slice with strides."""
    operand = drawing.array(ranks=(1, 4))
    if operand is None:
        return None
    starts = [drawing.integer(0, max(0, size - 1)) for size in operand.dimensions]
    limits = [
        drawing.integer(min(start + 1, size), size)
        for start, size in zip(starts, operand.dimensions, strict=True)
    ]
    strides = [1 + drawing.chance(4) for _ in starts]
    return drawing.builder.slice(operand, starts, limits, strides)


def pad(drawing: Drawing) -> Op | None:
    """Draw a padding, some of it negative or between the elements."""
    operand = drawing.array(ranks=(1, 3))
    if operand is None:
        return None
    entries = []
    for size in operand.dimensions:
        low = drawing.integer(-1 if size > 2 else 0, 2)
        high = drawing.integer(-1 if size > 2 else 0, 2)
        entries.append((low, high, int(drawing.chance(4))))
    value = drawing.like(array_shape(operand.element_type))
    return drawing.builder.pad(operand, value, entries)


def concatenate(drawing: Drawing) -> Op | None:
    """Draw a concatenation of 1 to 3 arrays, which may be the same one."""
    operand = drawing.array(ranks=(1, 3))
    if operand is None:
        return None
    dimension = drawing.integer(0, operand.rank - 1)

    def fits(shape: Shape) -> bool:
        if shape.element_type is not operand.element_type or shape.rank != operand.rank:
            return False
        pairs = enumerate(zip(shape.dimensions, operand.dimensions, strict=True))
        return all(i == dimension or a == b for i, (a, b) in pairs)

    others = [drawing.find(fits) for _ in range(drawing.integer(0, 2))]
    return drawing.builder.concatenate(
        [operand, *[other for other in others if other is not None]], dimension
    )


def iota(drawing: Drawing) -> Op | None:
    """Draw an array that counts."""
    element_type = drawing.element_type(lambda t: t is not E.PRED)
    if element_type is None:
        return None
    sizes = drawing.sizes(drawing.integer(1, 3))
    shape = array_shape(element_type, sizes)
    return drawing.builder.iota(shape, drawing.integer(0, shape.rank - 1))


# -- parts -------------------------------------------------------------------------------------


def _starts(drawing: Drawing, rank: int) -> list[Op]:
    """Return start indices; XLA:CPU takes great unsigned ones for negative."""
    element_type = drawing.choice((E.S32, E.S32, E.S64, E.U32))
    if element_type is E.U32:
        return [drawing.constant(element_type, ()) for _ in range(rank)]
    return [drawing.like(array_shape(element_type)) for _ in range(rank)]


def dynamic_slice(drawing: Drawing) -> Op | None:
    """Draw a slice at positions known at run time."""
    operand = drawing.array(ranks=(1, 3))
    if operand is None:
        return None
    sizes = [drawing.integer(min(1, size), size) for size in operand.dimensions]
    return drawing.builder.dynamic_slice(operand, _starts(drawing, operand.rank), sizes)


def dynamic_update_slice(drawing: Drawing) -> Op | None:
    """Draw an update of a slice at positions known at run time."""
    operand = drawing.array(ranks=(1, 3))
    if operand is None:
        return None
    sizes = tuple([drawing.integer(min(1, size), size) for size in operand.dimensions])
    update = drawing.like(array_shape(operand.element_type, sizes))
    return drawing.builder.dynamic_update_slice(operand, update, _starts(drawing, operand.rank))


def gather(drawing: Drawing) -> Op | None:
    """Draw a gather of slices at index vectors over some dimensions."""
    operand = drawing.array(ranks=(1, 3))
    if operand is None or 0 in operand.dimensions:
        return None
    mapped = drawing.permutation(operand.rank)[: drawing.integer(1, operand.rank)]
    collapsed = [i for i in sorted(mapped) if drawing.chance(2)]
    sizes = [
        1 if i in collapsed else drawing.integer(1, size) if i in mapped else size
        for i, size in enumerate(operand.dimensions)
    ]
    batch = list(drawing.sizes(drawing.integer(0, 2)))
    indices, vector = _indices(drawing, batch, len(mapped))
    rank = len(batch) + operand.rank - len(collapsed)
    offsets = sorted(drawing.permutation(rank)[: operand.rank - len(collapsed)])
    attributes = Gather(tuple(offsets), tuple(collapsed), tuple(mapped), vector, tuple(sizes))
    return drawing.builder.gather(operand, indices, attributes)


def _indices(drawing: Drawing, batch: Sequence[int], count: int) -> tuple[Op, int]:
    """Return index vectors of `count` numbers, and the dimension along which they lie."""
    vector = drawing.integer(0, len(batch))
    sizes = (*batch[:vector], count, *batch[vector:])
    return drawing.like(array_shape(drawing.choice((E.S32, E.S64)), sizes)), vector


SCATTER_OPCODES = (Opcode.ADD, Opcode.MAXIMUM, Opcode.MINIMUM)


def scatter(drawing: Drawing) -> Op | None:
    """Draw a scatter of windows at index vectors, combined in an order that does not matter."""
    opcode = drawing.choice(SCATTER_OPCODES)
    operand = drawing.array(lambda t: drawing.accepts(opcode, t, 2), ranks=(1, 3))
    if operand is None or 0 in operand.dimensions:
        return None
    mapped = drawing.permutation(operand.rank)[: drawing.integer(1, operand.rank)]
    inserted = [i for i in sorted(mapped) if drawing.chance(2)]
    window = [
        drawing.integer(1, size) if i in mapped else size
        for i, size in enumerate(operand.dimensions)
        if i not in inserted
    ]
    batch = list(drawing.sizes(drawing.integer(0, 2)))
    indices, vector = _indices(drawing, batch, len(mapped))
    rank = len(batch) + len(window)
    at = sorted(drawing.permutation(rank)[: len(window)])
    inside, outside = iter(window), iter(batch)
    sizes = tuple([next(inside) if i in at else next(outside) for i in range(rank)])
    updates = drawing.like(array_shape(operand.element_type, sizes))
    attributes = Scatter(tuple(at), tuple(inserted), tuple(mapped), vector)
    reducer = drawing.reducer(opcode, operand.element_type)
    return drawing.builder.scatter(operand, indices, updates, reducer, attributes)
