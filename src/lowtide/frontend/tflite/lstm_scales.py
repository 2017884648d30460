"""The quantized cell of an LSTM as its operator tells it: factors from the scales of tensors."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from lowtide.frontend.tflite import quantized
from lowtide.frontend.tflite.lstm import (
    BIAS,
    CELL,
    FORGET,
    INPUT,
    OUTPUT,
    PEEPHOLES,
    PROJECTION,
    PROJECTION_BIAS,
    RECURRENT,
)
from lowtide.frontend.tflite.node import QUANTIZED, LiteNode
from lowtide.frontend.tflite.quantized_lstm import (
    FRACTION,
    GateNorm,
    GateProduct,
    LstmGate,
    QuantizedLstmCell,
)
from lowtide.frontend.tflite.rounding import Factor, factor_of
from lowtide.ir.literal import Array

_GATE_SCALE: Final = np.float32(2.0**-12)
_NEAR: Final = 1e-3
"""How far the logarithm of a cell's scale may be from a whole number."""

_GUARD: Final = 10000
"""The least variance of normalized sums, over the scale of their coefficients."""

_COUNT: Final = 5
"""How many values inside the operator have scales: those of four gates, and the hidden one."""

_HIDDEN: Final = 4
_STATES: Final = (18, 19)
_NORMS: Final = 20


def quantized_cell(node: LiteNode, rows: int) -> QuantizedLstmCell:
    """Return the cell of an operator; raises GraphError for types without a kernel.

    `rows` are those of the batch that TFLite's kernel takes at once.
    """
    return _Reader(node, rows).cell()


def cell_bits(node: LiteNode, scale: np.float32) -> int:
    """Return the integer bits of a cell's 16; raises GraphError for no power of two."""
    power = math.log2(float(scale))
    if abs(power - round(power)) > _NEAR:
        raise node.error(f"the scale of its cell, {scale}, is no power of two")
    return FRACTION + round(power)


class _Reader:
    """Reads what an operator says of its cell."""

    def __init__(self, node: LiteNode, rows: int) -> None:
        self.node, self.rows = node, rows
        self.check()
        self.is_coupled = not node.context.has_input(1)

    def cell(self) -> QuantizedLstmCell:
        """The cell."""
        node = self.node
        bits = cell_bits(node, self.scale(_STATES[1]))
        if abs(bits) > FRACTION:
            raise node.refusal(f"a cell of {bits} integer bits; known are -15 to 15")
        names = (FORGET, CELL, OUTPUT) if self.is_coupled else (INPUT, FORGET, CELL, OUTPUT)
        inner = node.between(_HIDDEN)
        scale, zero = quantized.scale_of(node, inner), quantized.zero_of(inner)
        hidden = factor_of(float(np.float32(2.0**-30 / float(scale)))), zero
        scales = self.scale(_STATES[1]), quantized.scale_of(node, node.made)
        clips = self.clip(1, "INT16", scales[0]), self.clip(2, "INT8", scales[1])
        output_zero = quantized.zero_of(node.tensor(_STATES[0]))
        gates = {x: self.gate(x) for x in names}
        return QuantizedLstmCell(gates, self.projection(), hidden, output_zero, bits, clips)

    def check(self) -> None:
        """Raise GraphError for types without a kernel."""
        node = self.node
        found = [node.tensor(i).type for i in (0, 1 + OUTPUT, *_STATES)] + [node.made.type]
        if found != ["INT8", "INT8", "INT8", "INT16", "INT8"]:
            shown = ", ".join(found)
            raise node.refusal(f"an LSTM of types {shown} (input, weights, output and cell state)")
        if node.between_count != _COUNT:
            raise node.refusal(f"{node.between_count} intermediate tensors; known are {_COUNT}")

    def constant(self, number: int) -> Array:
        """A constant."""
        return self.node.context.constant(number)

    def scale(self, number: int) -> np.float32:
        """The scale of an input."""
        return quantized.scale_of(self.node, self.node.tensor(number))

    def clip(self, field: int, kind: str, scale: np.float32) -> int:
        """The greatest number of a quantized type that an option allows, 0 for any."""
        most = np.float32(self.node.real(field, 0.0))
        return int(min(most / scale, np.float32(QUANTIZED[kind][1]))) if most > 0 else 0

    def product(self, number: int, zero: int, bias: Array | None, factor: Factor) -> GateProduct:
        """Weights for rows from whose numbers a zero point is taken."""
        weights = self.constant(number)
        if weights.ndim != 2 or weights.dtype != np.int8:
            raise self.node.refusal(f"weights {weights.dtype.name}{list(weights.shape)}")
        sums = weights.astype(np.int32).sum(1, dtype=np.int32) * np.int32(-zero)
        return GateProduct(weights, sums if bias is None else sums + bias, factor)

    def gate(self, gate: int) -> LstmGate:
        """A gate."""
        node, has_norm = self.node, self.node.context.has_input(_NORMS + FORGET)
        over = quantized.scale_of(node, node.between(gate)) if has_norm else _GATE_SCALE
        bias = self.constant(1 + BIAS + gate)
        products = []
        for first, given in ((1, 0), (1 + RECURRENT, _STATES[0])):
            factor = factor_of(float(self.scale(first + gate) * self.scale(given) / over))
            zero = quantized.zero_of(node.tensor(given))
            own = bias if first == 1 and not has_norm else None
            products.append(self.product(first + gate, zero, own, factor))
        norm = self.norm(gate, bias) if has_norm else None
        return LstmGate(products[0], products[1], self.peephole(gate, over), norm)

    def norm(self, gate: int, bias: Array) -> GateNorm:
        """The normalization of a gate."""
        scale = self.scale(_NORMS + gate)
        guard = max(1, int(np.float32(_GUARD) * scale))
        return GateNorm(self.constant(_NORMS + gate), bias, factor_of(float(scale)), guard)

    def peephole(self, gate: int, over: np.float32) -> tuple[Array, Factor] | None:
        """The weights of the cell in a gate, as a matrix for rows of cells.

        TFLite's kernel takes rows of gates and cells to be as long as the output: where that is
        shorter, weights begin again after as many numbers, and what is left has none.
        """
        number = 1 + PEEPHOLES.get(gate, 0)
        if gate not in PEEPHOLES or not self.node.context.has_input(number):
            return None
        power = 2.0 ** (cell_bits(self.node, self.scale(_STATES[1])) - FRACTION)
        real = power * float(self.scale(number)) / float(over)
        weights = self.constant(number)
        count = self.constant(1 + RECURRENT + OUTPUT).shape[1]
        if count > len(weights):
            raise self.node.refusal(f"peepholes of {len(weights)} cells and {count} outputs")
        found = np.zeros(self.rows * len(weights), weights.dtype)
        found[: self.rows * count] = np.tile(weights[:count], self.rows)
        return found.reshape(self.rows, -1), factor_of(float(np.float32(real)))

    def projection(self) -> GateProduct | None:
        """The weights of the output, where it is a projection."""
        node, number = self.node, 1 + PROJECTION
        if not node.context.has_input(number):
            return None
        inner = node.between(_HIDDEN)
        real = self.scale(number) * quantized.scale_of(node, inner) / self.scale(_STATES[0])
        has_bias = node.context.has_input(1 + PROJECTION_BIAS)
        bias = self.constant(1 + PROJECTION_BIAS) if has_bias else None
        return self.product(number, -quantized.zero_of(inner), bias, factor_of(float(real)))
