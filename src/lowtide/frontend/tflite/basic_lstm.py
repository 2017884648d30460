"""One step of an LSTM whose gates have their weights in one matrix: of floats or unsigned bytes.

    [x, output before] [n, k + c]  times  weights [4 c, k + c]  =  gates [n, 4 c]
    gates: input, candidate, forget, output

Unsigned bytes stand for [-1, 1) in steps of 1/128, gates are of 16 bits with 3 integer ones, and
the cell of 16 bits with 4.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.shared.broadcasting import along, expand
from lowtide.frontend.graphs.shared.reductions import reduce
from lowtide.frontend.tflite import fixed_point, quantized
from lowtide.frontend.tflite.lstm_scales import cell_bits
from lowtide.frontend.tflite.node import LiteNode
from lowtide.frontend.tflite.quantized_lstm import within
from lowtide.frontend.tflite.rounding import factor_of, scaled_upward
from lowtide.ir.attributes import DotDimensions
from lowtide.ir.element_type import ElementType
from lowtide.ir.literal import Array

_FLOATS: Final = ["FLOAT32"] * 5
_BYTES: Final = ["UINT8", "UINT8", "UINT8", "INT32", "INT16"]
"""Types of x, the output before, weights, bias and the cell."""

_GATE_BITS, _CELL_BITS, _BYTE_BITS = 3, 4, 8
_GATE_UNITS: Final = 4096
"""How many steps of a gate there are in 1."""

_MIDDLE: Final = 128
_ROWS: Final = DotDimensions((1,), (1,))


def basic_lstm(node: LiteNode) -> None:
    """Give output and cell after a step, what gates are made of, the gates, and the state."""
    b, context = node.b, node.context
    types = [node.tensor(i).type for i in range(5)]
    if types not in (_FLOATS, _BYTES):
        shown = ", ".join(types)
        raise node.refusal(f"the basic kernel of LSTM with types {shown}")
    joined = b.concatenate([context.input(0), context.input(1)], 1)
    if types == _FLOATS:
        gates = b.dot(joined, context.input(2), _ROWS)
        gates = gates + along(b, context.input(3), 1, gates.dimensions)
        found, cell = _of_floats(b, _parts(b, gates), context.input(4))
    else:
        gates = _gates_of_bytes(node, joined)
        found, cell = _of_bytes(b, _parts(b, gates), context.input(4))
        gates = b.convert(gates, ElementType.S16)
    for value in (found, cell, joined, gates, found, cell):
        node.give(value)


def _parts(b: Builder, gates: Op) -> list[Op]:
    """The gates side by side."""
    rows, count = gates.dimensions[0], gates.dimensions[1] // 4
    return [b.slice(gates, [0, i * count], [rows, (i + 1) * count], [1, 1]) for i in range(4)]


def _of_floats(b: Builder, gates: list[Op], cell: Op) -> tuple[Op, Op]:
    """The output and the cell after a step."""
    share, taken, forget, opened = gates
    cell = b.logistic(share) * b.tanh(taken) + b.logistic(forget) * cell
    return b.logistic(opened) * b.tanh(cell), cell


def _gates_of_bytes(node: LiteNode, joined: Op) -> Op:
    """The gates, in 32 bits but within 16."""
    b, context, wide = node.b, node.context, ElementType.S32
    bits = cell_bits(node, quantized.scale_of(node, node.result(1)))
    if bits != _CELL_BITS:
        raise node.refusal(f"a cell of {bits} integer bits; known are {_CELL_BITS}")
    rows = b.convert(b.convert(joined, wide) - _MIDDLE, ElementType.S8)
    weights = (context.constant(2).astype(np.int16) - _MIDDLE).astype(np.int8)
    sums = b.dot(rows, b.constant(weights), _ROWS, element_type=wide)
    missing = _MIDDLE - quantized.zero_of(node.tensor(2))
    if missing:
        totals = reduce(b, "sum", b.convert(rows, wide), [1], keep=True) * missing
        sums = sums + expand(b, totals, sums.dimensions)
    bias: Array = context.constant(3)
    sums = sums + along(b, b.constant(bias), 1, sums.dimensions)
    real = float(quantized.scale_of(node, node.tensor(3))) * _GATE_UNITS
    return within(b, scaled_upward(b, sums, factor_of(real)), "INT16")


def _of_bytes(b: Builder, gates: list[Op], cell: Op) -> tuple[Op, Op]:
    """The output and the cell after a step."""
    share, forget, opened = [fixed_point.logistic(b, gates[i], _GATE_BITS) for i in (0, 2, 3)]
    taken = fixed_point.tangent(b, gates[1], _GATE_BITS)
    kept = fixed_point.product(b, forget, b.convert(cell, ElementType.S32))
    more = fixed_point.shifted_right(b, fixed_point.product(b, share, taken), _CELL_BITS)
    cell = within(b, more + kept, "INT16")
    near = fixed_point.shifted_left(b, cell, _CELL_BITS - _GATE_BITS)
    found = fixed_point.product(b, opened, fixed_point.tangent(b, near, _GATE_BITS))
    found = within(b, fixed_point.shifted_right(b, found, _BYTE_BITS), "INT8") + _MIDDLE
    return b.convert(found, ElementType.U8), b.convert(cell, ElementType.S16)
