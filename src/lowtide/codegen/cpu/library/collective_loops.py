"""Fusions of collective operations: over the arrays of all devices of a group.

Each reads one array of every device, in order of the group; then, where the own parts of arrays are
wanted, two s32: where these begin along their dimension, and 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from lowtide.ir import ElementType, Instruction, Module, Opcode, Shape
from lowtide.ir.attributes import Constant, Dimensions, DynamicSlice, Fusion, Parameter
from lowtide.ir.literal import DTYPES, Literal
from lowtide.ir.shape import array_shape, tuple_shape

_SUMS: Final = frozenset({Opcode.ADD, Opcode.MULTIPLY})


def reduced(given: Shape, result: Shape, count: int, reducer: Opcode) -> Instruction:
    """Return a fusion that combines the arrays of devices, and writes that for each of them."""
    draft = _Draft(given, count)
    return draft.fusion(draft.combined(draft.arrays, reducer), result, count)


def scattered(
    given: Shape, result: Shape, count: int, dimension: int, reducer: Opcode
) -> Instruction:
    """Return a fusion that combines the own parts of arrays, which are cut along a dimension."""
    draft = _Draft(given, count, in_parts=True)
    parts = draft.own_parts(count, dimension)
    return draft.fusion(draft.combined(parts, reducer), result)


def gathered(given: Shape, result: Shape, count: int, dimension: int) -> Instruction:
    """Return a fusion that puts the arrays of devices one after another along a dimension."""
    draft = _Draft(given, count)
    return draft.fusion(draft.joined(draft.arrays, result, dimension), result)


def all_to_all(given: Shape, result: Shape, count: int, dimension: int) -> Instruction:
    """Return a fusion that does that with the own parts of arrays, cut along that dimension."""
    draft = _Draft(given, count, in_parts=True)
    parts = draft.own_parts(count, dimension)
    return draft.fusion(draft.joined(parts, result, dimension), result)


def moved(given: Shape, result: Shape) -> Instruction:
    """Return a fusion that copies an array, to another layout where that differs."""
    draft = _Draft(given, 1)
    return draft.fusion(draft.arrays[0], result)


def cleared(result: Shape) -> Instruction:
    """Return a fusion that writes zeros."""
    draft = _Draft(result, 0)
    scalar = array_shape(result.element_type, ())
    zero = Literal(scalar, np.zeros((), DTYPES[result.element_type]))
    number = draft.body.add(Opcode.CONSTANT, scalar, (), Constant(zero))
    wide = draft.body.add(Opcode.BROADCAST, result, (number,), Dimensions(()))
    return draft.fusion(wide, result)


class _Draft:
    """A fusion that is being written."""

    def __init__(self, given: Shape, count: int, *, in_parts: bool = False) -> None:
        self.module = Module("collective")
        self.body = self.module.add_computation("body")
        start = array_shape(ElementType.S32, ())
        self.given = [given] * count + [start] * (2 * in_parts)
        found = [
            self.body.add(Opcode.PARAMETER, x, (), Parameter(i)) for i, x in enumerate(self.given)
        ]
        self.arrays, self.starts = found[:count], found[count:]

    def combined(self, parts: Sequence[Instruction], reducer: Opcode) -> Instruction:
        """Combine arrays in order; sums and products of inexact numbers in twice the precision."""
        type_ = parts[0].shape.element_type
        wide = type_
        if reducer in _SUMS and (type_.is_floating or type_.is_complex):
            wide = ElementType.C128 if type_.is_complex else ElementType.F64
        if type_ is ElementType.PRED:
            reducer = _TRUTH_VALUES.get(reducer, reducer)
        wider = [self.as_type(x, wide) for x in parts]
        total = wider[0]
        for x in wider[1:]:
            total = self.body.add(reducer, total.shape, (total, x))
        return self.as_type(total, type_)

    def as_type(self, x: Instruction, type_: ElementType) -> Instruction:
        """Convert an array; from f64 to formats of 16 bits and less the way leads through f32."""
        is_short = x.shape.element_type is ElementType.F64 and DTYPES[type_].kind == "V"
        for step in (ElementType.F32, type_) if is_short else (type_,):
            if x.shape.element_type is not step:
                shape = array_shape(step, x.shape.dimensions, x.shape.layout)
                x = self.body.add(Opcode.CONVERT, shape, (x,))
        return x

    def own_parts(self, count: int, dimension: int) -> list[Instruction]:
        """Cut the own part, one of `count` along a dimension, out of each array."""
        start, zero = self.starts
        sizes = list(self.arrays[0].shape.dimensions)
        sizes[dimension] //= count
        starts = tuple([start if d == dimension else zero for d in range(len(sizes))])
        how = DynamicSlice(tuple(sizes))
        shape = self.arrays[0].shape
        part = array_shape(shape.element_type, tuple(sizes), shape.layout)
        return [self.body.add(Opcode.DYNAMIC_SLICE, part, (x, *starts), how) for x in self.arrays]

    def joined(self, parts: Sequence[Instruction], result: Shape, dimension: int) -> Instruction:
        """Put arrays one after another along a dimension."""
        return self.body.add(Opcode.CONCATENATE, result, tuple(parts), Dimensions((dimension,)))

    def fusion(self, made: Instruction, result: Shape, times: int = 1) -> Instruction:
        """Return the fusion that writes an array so many times, in a layout."""
        if made.shape is not result or made.opcode is Opcode.PARAMETER:
            made = self.body.add(Opcode.COPY, result, (made,))
        if times > 1:
            made = self.body.add(Opcode.TUPLE, tuple_shape([result] * times), (made,) * times)
        self.body.root = made
        main = self.module.add_computation("main")
        given = tuple(
            [main.add(Opcode.PARAMETER, x, (), Parameter(i)) for i, x in enumerate(self.given)]
        )
        called = (self.body,)
        return main.add(Opcode.FUSION, made.shape, given, Fusion("kLoop"), called)


_TRUTH_VALUES: Final[Mapping[Opcode, Opcode]] = {
    Opcode.ADD: Opcode.OR,
    Opcode.MAXIMUM: Opcode.OR,
    Opcode.MINIMUM: Opcode.AND,
    Opcode.MULTIPLY: Opcode.AND,
}
"""What operations do to truth values, if they are not named so."""
