"""The leaves at which rows end, by bits: all tests of trees at once, without a branch."""

from __future__ import annotations

import numpy as np

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.shared.elementwise import is_nan
from lowtide.frontend.graphs.shared.indexing import take
from lowtide.frontend.onnx.forest import Forest
from lowtide.frontend.onnx.leaf_bits import LeafBits
from lowtide.frontend.onnx.node_tests import bounds, passing_number
from lowtide.ir.element_type import ElementType
from lowtide.ir.literal import DTYPES, Array
from lowtide.ir.opcode import Opcode


def bit_places(b: Builder, x: Op, forest: Forest, bits: LeafBits) -> Op:
    """Return for each part and row of x [n, features] a place in `bits.nodes`: s32 [parts, n].

    Places count through all parts.
    """
    every = np.invert(bits.if_false.dtype.type(0))
    none = b.constant(every)
    holds = _holds(b, x, forest, bits.tests)
    yes = none if bits.if_true is None else _wide(b, bits.if_true, holds)
    if bits.if_true is None:
        yes = b.broadcast(none, holds.dimensions, [])
    left = b.select(holds, yes, _wide(b, bits.if_false, holds))
    together = b.scalar_computation(Opcode.AND, left.element_type)
    found = b.reduce(left, none, together, [1])
    place = b.convert(b.count_leading_zeros(found), ElementType.S32)
    parts, places = bits.nodes.shape
    start = np.arange(parts, dtype=np.int32) * np.int32(places)
    return place + b.broadcast(b.constant(start), place.dimensions, [0])


def _wide(b: Builder, table: Array, like: Op) -> Op:
    """A table [parts, tests] for all rows."""
    return b.broadcast(b.constant(table), like.dimensions, [0, 1])


def _holds(b: Builder, x: Op, forest: Forest, tests: Array) -> Op:
    """Whether tests [parts, tests] hold: [parts, tests, n]; what stands for none may do both."""
    passing = forest.nan_is_true[tests] & (tests >= 0)
    known = tests[tests >= 0]
    number = passing_number(forest, known) if passing.any() else None
    columns, features = b.transpose(x, [1, 0]), forest.features[tests]
    if number is not None:
        replaced = _replaced(b, columns, number)
        if passing[tests >= 0].all():
            columns = replaced
        else:
            features = features + passing * x.dimensions[1]
            columns = b.concatenate([columns, replaced], 0)
    value = take(b, columns, b.constant(features.astype(np.int32)), 0)
    least, most = bounds(forest, tests, DTYPES[x.element_type])
    compared = [
        compare(value, _wide(b, bound, value))
        for compare, bound in ((Op.ge, least), (Op.le, most))
        if bound is not None
    ]
    holds = compared[0] & compared[1] if compared[1:] else compared[0]
    if number is None and passing.any():
        holds = holds | (is_nan(b, value) & _wide(b, passing, value))
    return holds


def _replaced(b: Builder, x: Op, number: float) -> Op:
    """Numbers with another one for what is none."""
    wide = b.broadcast(b.constant(number, x.element_type), x.dimensions, [])
    return b.select(is_nan(b, x), wide, x)
