"""The leaves at which rows end, by bits: all tests of trees at once, without a branch."""

from __future__ import annotations

import numpy as np

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.shared.elementwise import is_nan
from lowtide.frontend.graphs.shared.indexing import take
from lowtide.frontend.onnx.forest import Forest
from lowtide.frontend.onnx.leaf_bits import LeafBits
from lowtide.frontend.onnx.node_tests import COMPARE, passing_number
from lowtide.ir.element_type import ElementType
from lowtide.ir.literal import Array
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
    known = np.unique(tests[tests >= 0])
    features = forest.features[tests]
    columns = b.transpose(x, [1, 0])
    passing = forest.nan_is_true[tests] & (tests >= 0)
    number = passing_number(forest, known)
    if number is not None:
        replaced = b.select(
            is_nan(b, columns),
            b.broadcast(b.constant(number, x.element_type), columns.dimensions, []),
            columns,
        )
        if forest.nan_is_true[known].all():
            columns = replaced
        else:
            features = np.where(passing, features + x.dimensions[1], features)
            columns = b.concatenate([columns, replaced], 0)
    value = take(b, columns, b.constant(features.astype(np.int32)), 0)
    sizes = value.dimensions
    dtype = np.float64 if x.element_type is ElementType.F64 else np.float32
    threshold = b.broadcast(b.constant(forest.thresholds[tests].astype(dtype)), sizes, [0, 1])
    modes = np.unique(forest.modes[known]).tolist() or [0]
    holds = COMPARE[modes[0]](value, threshold)
    for mode in modes[1:]:
        own = b.broadcast(b.constant(forest.modes[tests] == mode), sizes, [0, 1])
        holds = b.select(own, COMPARE[mode](value, threshold), holds)
    if number is None and passing.any():
        may_pass = b.broadcast(b.constant(passing), sizes, [0, 1])
        holds = holds | (is_nan(b, value) & may_pass)
    return holds
