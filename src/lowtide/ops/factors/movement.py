"""Factors of what moves data: reshape, transpose, broadcast, slices, padding, concatenation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from lowtide.ir.attributes import Dimensions, Iota, Pad, Slice
from lowtide.ir.instruction import Instruction
from lowtide.ir.shape import Shape, array_shape
from lowtide.ops.factors.record import FactorDraft, FactorKind, OpFactors


def broadcast(x: Instruction, operands: Sequence[Shape], results: Sequence[Shape]) -> OpFactors:
    """Return the factors of broadcast: new dimensions are in the result alone."""
    draft = FactorDraft.of(operands, results)
    source = {d: i for i, d in enumerate(x.attributes_as(Dimensions).dimensions)}
    for dimension, size in enumerate(results[0].dimensions):
        given = {0: source[dimension]} if dimension in source else {}
        draft.join(size, given, {0: dimension})
    return draft.done(linear=((0,),))


def transpose(x: Instruction, operands: Sequence[Shape], results: Sequence[Shape]) -> OpFactors:
    """Return the factors of transpose."""
    draft = FactorDraft.of(operands, results)
    for dimension, source in enumerate(x.attributes_as(Dimensions).dimensions):
        draft.join(results[0].dimensions[dimension], {0: source}, {0: dimension})
    return draft.done(linear=((0,),))


def reshape(x: Instruction, operands: Sequence[Shape], results: Sequence[Shape]) -> OpFactors:
    """Return the factors of reshape: what dimensions of both sides have in common."""
    draft = FactorDraft.of(operands, results)
    if 0 in operands[0].dimensions:
        return draft.done(linear=((0,),))
    left, right = list(operands[0].dimensions), list(results[0].dimensions)
    i = j = 0
    while i < len(left) and j < len(right):
        common = math.gcd(left[i], right[j])
        if common == 1 and 1 not in (left[i], right[j]):
            i, j = _behind(left, i, right, j)
            continue
        draft.join(common, {0: i}, {0: j})
        left[i] //= common
        right[j] //= common
        i, j = i + (left[i] == 1), j + (right[j] == 1)
    return draft.done(linear=((0,),), why="a reshape that mixes dimensions")


def _behind(left: list[int], i: int, right: list[int], j: int) -> tuple[int, int]:
    """Return the places behind the dimensions that only their product has in common."""
    a, b = left[i], right[j]
    while a != b:
        if a < b:
            i += 1
            a *= left[i]
        else:
            j += 1
            b *= right[j]
    return i + 1, j + 1


def bitcast_convert(
    x: Instruction, operands: Sequence[Shape], results: Sequence[Shape]
) -> OpFactors:
    """Return the factors of bitcast-convert: all but the bytes of one element have one."""
    draft = FactorDraft.of(operands, results)
    for dimension in range(min(operands[0].rank, results[0].rank)):
        draft.join(results[0].dimensions[dimension], {0: dimension}, {0: dimension})
    return draft.done(why="the parts of an element")


def slices(x: Instruction, operands: Sequence[Shape], results: Sequence[Shape]) -> OpFactors:
    """Return the factors of slice: dimensions that it leaves whole have one."""
    draft = FactorDraft.of(operands, results)
    attributes = x.attributes_as(Slice)
    for dimension, size in enumerate(operands[0].dimensions):
        if results[0].dimensions[dimension] == size and attributes.strides[dimension] == 1:
            draft.join(size, {0: dimension}, {0: dimension})
    return draft.done(linear=((0,),), why="a cut dimension")


def pad(x: Instruction, operands: Sequence[Shape], results: Sequence[Shape]) -> OpFactors:
    """Return the factors of pad: dimensions without padding have one."""
    draft = FactorDraft.of(operands, results)
    for dimension, padding in enumerate(x.attributes_as(Pad).dimensions):
        if (padding.low, padding.high, padding.interior) == (0, 0, 0):
            draft.join(operands[0].dimensions[dimension], {0: dimension}, {0: dimension})
    return draft.done(linear=((0, 1),), why="a padded dimension")


def listed(x: Instruction, operands: Sequence[Shape], results: Sequence[Shape]) -> OpFactors:
    """Return the factors of concatenate and reverse: all but the dimensions listed have one."""
    draft = FactorDraft.of(operands, results)
    worked = x.attributes_as(Dimensions).dimensions
    for dimension, size in enumerate(results[0].dimensions):
        if dimension not in worked:
            draft.join(size, dict.fromkeys(range(len(operands)), dimension), {0: dimension})
    everything = tuple(range(len(operands)))
    return draft.done(linear=(everything,), why="a joined or reversed dimension")


def iota(x: Instruction, operands: Sequence[Shape], results: Sequence[Shape]) -> OpFactors:
    """Return the factors of iota: along its own dimension, parts begin with other numbers."""
    draft = FactorDraft.of(operands, results)
    counted = x.attributes_as(Iota).dimension
    for dimension, size in enumerate(results[0].dimensions):
        kind = FactorKind.PLACED if dimension == counted else FactorKind.PASSED
        draft.join(size, {}, {0: dimension}, kind)
    return draft.done()


def bitcast(x: Instruction, operands: Sequence[Shape], results: Sequence[Shape]) -> OpFactors:
    """Return the factors of bitcast: those of a reshape of the elements as they lie in memory."""
    shapes = (operands[0], results[0])
    if shapes[0].element_type.bits != shapes[1].element_type.bits:
        return FactorDraft.of(operands, results).done(why="a bitcast to elements of another size")
    orders = [shape.physical_order for shape in shapes]
    lying = [
        array_shape(shape.element_type, tuple([shape.dimensions[d] for d in order]))
        for shape, order in zip(shapes, orders, strict=True)
    ]
    found = reshape(x, lying[:1], lying[1:])
    operand, result = [
        tuple([factors[order.index(d)] for d in range(len(order))])
        for factors, order in zip(found.arrays, orders, strict=True)
    ]
    return replace(found, operands=(operand,), results=(result,))
