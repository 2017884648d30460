"""Random products, convolutions, reductions, windows and sorts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import ml_dtypes
import numpy as np
from tests.random_modules.drawing import Drawing

from lowtide.builder import Op
from lowtide.ir.attributes import ConvolutionDimensions, DotDimensions, Window, WindowDimension
from lowtide.ir.element_type import ElementType
from lowtide.ir.literal import DTYPES, Array
from lowtide.ir.opcode import Opcode
from lowtide.ir.shape import array_shape
from lowtide.ops.windows import positions

E = ElementType


def _is_number(element_type: ElementType) -> bool:
    return element_type is not E.PRED


# -- products ----------------------------------------------------------------------------------


def dot(drawing: Drawing) -> Op | None:
    """Draw a dot with any batch and contracting dimensions."""
    lhs = drawing.array(_is_number, ranks=(1, 3))
    if lhs is None:
        return None
    order = drawing.permutation(lhs.rank)
    batch_count = drawing.integer(0, min(1, lhs.rank - 1))
    contracting_count = drawing.integer(0, min(2, lhs.rank - batch_count))
    batch = order[:batch_count]
    contracting = order[batch_count : batch_count + contracting_count]
    free = [drawing.size() for _ in range(drawing.integer(0, 1))]
    paired = [lhs.dimensions[i] for i in (*batch, *contracting)] + free
    places = drawing.permutation(len(paired))
    sizes = [0] * len(paired)
    for place, size in zip(places, paired, strict=True):
        sizes[place] = size
    rhs = drawing.like(array_shape(lhs.element_type, tuple(sizes)))
    numbers = DotDimensions(
        tuple(contracting),
        tuple(places[batch_count : batch_count + contracting_count]),
        tuple(batch),
        tuple(places[:batch_count]),
    )
    return drawing.builder.dot(lhs, rhs, numbers)


def convolution(drawing: Drawing) -> Op | None:
    """Draw a small convolution over 1 or 2 spatial dimensions, some of them grouped."""
    element_type = drawing.element_type(lambda t: t.is_floating or t in (E.S32, E.C64))
    if element_type is None:
        return None
    spatial = drawing.integer(1, 2)
    groups = 1 + drawing.chance(4)
    features, outputs = groups * drawing.integer(1, 2), groups * drawing.integer(1, 2)
    sizes = [drawing.integer(1, 2), features, *[drawing.integer(2, 5) for _ in range(spatial)]]
    kernel = [features // groups, outputs, *[drawing.integer(1, 3) for _ in range(spatial)]]
    roles = [drawing.permutation(spatial + 2) for _ in range(3)]
    windows = [
        replace(_window(drawing, base, size), reversal=drawing.chance(6))
        for base, size in zip(sizes[2:], kernel[2:], strict=True)
    ]
    lhs = drawing.like(array_shape(element_type, _placed(sizes, roles[0])))
    rhs = drawing.like(array_shape(element_type, _placed(kernel, roles[1])))
    numbers = ConvolutionDimensions(
        *(roles[0][0], roles[0][1], tuple(roles[0][2:])),
        *(roles[1][0], roles[1][1], tuple(roles[1][2:])),
        *(roles[2][0], roles[2][1], tuple(roles[2][2:])),
    )
    return drawing.builder.convolution(lhs, rhs, numbers, Window(tuple(windows)), groups)


def _placed(sizes: list[int], places: list[int]) -> tuple[int, ...]:
    """Return the sizes with number i at `places[i]`."""
    result = [0] * len(sizes)
    for place, size in zip(places, sizes, strict=True):
        result[place] = size
    return tuple(result)


def _window(drawing: Drawing, base: int, size: int) -> WindowDimension:
    """Return a window with at least one position over `base` elements."""
    window = WindowDimension(
        size,
        1 + drawing.chance(3),
        drawing.integer(0, 1),
        drawing.integer(0, 1),
        1 + drawing.chance(5),
        1 + drawing.chance(5),
    )
    return window if positions(base, window) else WindowDimension(size, 1, size, size)


# -- reductions --------------------------------------------------------------------------------

REDUCERS: Final = (
    Opcode.ADD,
    Opcode.MAXIMUM,
    Opcode.MINIMUM,
    Opcode.MULTIPLY,
    Opcode.AND,
    Opcode.OR,
    Opcode.XOR,
)


def _reduces(drawing: Drawing, opcode: Opcode, element_type: ElementType) -> bool:
    """Whether a reducer has an identity: the type of scales, f8e8m0fnu, has no zero."""
    return element_type is not E.F8E8M0FNU and drawing.accepts(opcode, element_type, 2)


def identity(opcode: Opcode, element_type: ElementType) -> Array:
    """Return the scalar that a reducer leaves as it is: XLA defines no reduction from others."""
    if opcode is Opcode.MAXIMUM:
        return _extreme(element_type, -1)
    if opcode is Opcode.MINIMUM:
        return _extreme(element_type, 1)
    value = {Opcode.MULTIPLY: 1, Opcode.AND: -1}.get(opcode, 0)
    return np.array(value).astype(DTYPES[element_type])


def _extreme(element_type: ElementType, sign: int) -> Array:
    dtype = DTYPES[element_type]
    if element_type is E.PRED:
        return np.array(sign > 0)
    if element_type.is_integer:
        return np.array(element_type.bounds[sign > 0]).astype(dtype)
    infinite = np.array(sign * np.inf).astype(dtype)
    if np.isinf(infinite):
        return infinite
    limits_of: Any = ml_dtypes.finfo
    found = limits_of(dtype)
    return np.array(found.max if sign > 0 else found.min, dtype)


def reduce(drawing: Drawing) -> Op | None:
    """Draw a reduction along some dimensions."""
    opcode = drawing.choice(REDUCERS)
    operand = drawing.array(lambda t: _reduces(drawing, opcode, t), ranks=(1, 4))
    if operand is None:
        return None
    init = drawing.builder.constant(identity(opcode, operand.element_type))
    reducer = drawing.reducer(opcode, operand.element_type)
    return drawing.builder.reduce(operand, init, reducer, drawing.subset(operand.rank))


def reduce_pair(drawing: Drawing) -> Op | None:
    """Draw a reduction of two arrays at once: the greatest number and its place."""
    operand = drawing.array(lambda t: t.is_integer and t.bits >= 8, ranks=(1, 3))
    if operand is None:
        return None
    places = drawing.builder.iota(array_shape(E.S32, operand.dimensions), operand.rank - 1)
    scalars = [array_shape(operand.element_type), array_shape(E.S32)]

    def greater(a: Op, i: Op, b: Op, j: Op) -> Op:
        builder = a.builder
        takes_first = a.gt(b) | (a.eq(b) & i.lt(j))
        return builder.tuple([builder.select(takes_first, a, b), builder.select(takes_first, i, j)])

    reducer = drawing.builder.sub_computation("greater", [*scalars, *scalars], greater)
    inits = [identity(Opcode.MAXIMUM, operand.element_type), identity(Opcode.MINIMUM, E.S32)]
    dimensions = drawing.subset(operand.rank)
    return drawing.builder.reduce([operand, places], inits, reducer, dimensions)


def reduce_window(drawing: Drawing) -> Op | None:
    """Draw a reduction within the positions of a window."""
    opcode = drawing.choice(REDUCERS[:4])
    operand = drawing.array(lambda t: _reduces(drawing, opcode, t), ranks=(1, 3))
    if operand is None or 0 in operand.dimensions:
        return None
    windows = [_window(drawing, size, drawing.integer(1, 2)) for size in operand.dimensions]
    init = drawing.builder.constant(identity(opcode, operand.element_type))
    reducer = drawing.reducer(opcode, operand.element_type)
    return drawing.builder.reduce_window(operand, init, reducer, Window(tuple(windows)))


def _selecting_window(drawing: Drawing, base: int) -> WindowDimension:
    """Return a window each position of which holds an element, as a choice among them needs."""
    size = drawing.integer(1, min(2, base))
    low, high = drawing.integer(0, size - 1), drawing.integer(0, size - 1)
    return WindowDimension(size, 1 + drawing.chance(3), low, high)


def select_and_scatter(drawing: Drawing) -> Op | None:
    """Draw the gradient of a maximum within windows."""
    operand = drawing.array(lambda t: t in (E.F32, E.S32, E.F64), ranks=(1, 3))
    if operand is None or 0 in operand.dimensions:
        return None
    windows = [_selecting_window(drawing, size) for size in operand.dimensions]
    slid = tuple(
        [positions(size, window) for size, window in zip(operand.dimensions, windows, strict=True)]
    )
    element_type = operand.element_type
    scalar = array_shape(element_type)
    ge = drawing.builder.sub_computation("ge", [scalar, scalar], lambda x, y: x.ge(y))
    source = drawing.like(array_shape(element_type, slid))
    add = drawing.reducer(Opcode.ADD, element_type)
    init = drawing.builder.constant(0, element_type)
    return drawing.builder.select_and_scatter(
        operand, ge, Window(tuple(windows)), source, init, add
    )


# -- sorting -----------------------------------------------------------------------------------


def sort(drawing: Drawing) -> Op | None:
    """Draw a sort by the first operand, which further ones follow; equal keys keep their order."""
    keys = drawing.array(lambda t: not t.is_complex, ranks=(1, 3))
    if keys is None:
        return None
    order = "TOTALORDER" if keys.element_type.is_floating else ""
    direction = drawing.choice(("LT", "GT"))
    operands = [keys]
    for _ in range(drawing.integer(0, 1)):
        element_type = drawing.element_type()
        if element_type is not None:
            operands.append(drawing.like(array_shape(element_type, keys.dimensions)))
    scalars = [array_shape(x.element_type) for x in operands for _ in range(2)]
    comparator = drawing.builder.sub_computation(
        "comparator", scalars, lambda x, y, *rest: x.builder.compare(x, y, direction, order)
    )
    dimension = drawing.integer(0, keys.rank - 1)
    return drawing.builder.sort(operands, comparator, dimension, is_stable=True)
