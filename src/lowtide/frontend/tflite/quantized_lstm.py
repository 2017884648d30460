"""One step of an LSTM of 8-bit numbers whose cells and gates are of 16 bits.

    input [n, k], state [n, m]   8 bits       gates        16 bits: 3 integer bits, then none
    weights                      8 bits       cell [n, c]  16 bits, its scale a power of two

Sums of products are brought to the scale of their gate and added within 16 bits. What an operator
has beside its scales is as of floats (`lstm.py`), but for its activation, which is tanh always.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.shared.broadcasting import along, expand
from lowtide.frontend.graphs.shared.reductions import reduce
from lowtide.frontend.tflite import fixed_point, quantized
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
from lowtide.frontend.tflite.rounding import Factor, factor_of, scaled
from lowtide.ir.attributes import DotDimensions
from lowtide.ir.element_type import ElementType
from lowtide.ir.literal import Array
from lowtide.records import dataclass

_GATE_BITS: Final = 3
"""Integer bits of a gate before its function; after it there are none."""

_FRACTION: Final = 15
_GATE_SCALE: Final = np.float32(2.0**-12)
_NEAR: Final = 1e-3
"""How far the logarithm of a cell's scale may be from a whole number."""

_MOST_CELL_BITS: Final = 6
"""Integer bits of a cell of which there is a tanh."""

_NORM_BITS: Final = 10
"""Bits behind the point of normalized numbers."""

_GUARD: Final = 10000
_COUNT: Final = 5
"""How many values inside the operator have scales: those of four gates, and the hidden one."""

_HIDDEN: Final = 4
_STATES: Final = (18, 19)


@dataclass(frozen=True, eq=False, slots=True)
class _Product:
    """Weights [m, k] for rows of 8 bits, what is added to their sums, and a factor of these."""

    weights: Array
    bias: Array
    factor: Factor

    def __call__(self, b: Builder, x: Op) -> Op:
        """Return rows [n, k] times the weights, [n, m] in 32 bits."""
        wide, dimensions = ElementType.S32, DotDimensions((1,), (1,))
        sums = b.dot(x, b.constant(self.weights), dimensions, element_type=wide)
        if self.bias.any():
            sums = sums + along(b, b.constant(self.bias), 1, sums.dimensions)
        return scaled(b, sums, [self.factor])


@dataclass(frozen=True, eq=False, slots=True)
class _Norm:
    """Coefficients of normalized sums and their factor, what is added, and the least variance."""

    weights: Array
    bias: Array
    factor: Factor
    guard: int

    def __call__(self, b: Builder, x: Op) -> Op:
        """Return rows [n, m], less their mean and over their deviation, times coefficients."""
        wide, count = b.convert(x, ElementType.S64), x.dimensions[1]
        mean = reduce(b, "sum", wide, [1], keep=True) * (1 << _NORM_BITS) / count
        squares = reduce(b, "sum", wide * wide, [1], keep=True)
        whole = 1 << 2 * _NORM_BITS
        variance = (squares * (whole // count) - mean * mean) / whole
        variance = b.select(variance.lt(1), fixed_point.like(b, variance, self.guard), variance)
        root, shift = fixed_point.inverse_root(b, variance)
        root, shift, mean = [expand(b, y, x.dimensions) for y in (root, shift, mean)]
        found = fixed_point.product(b, wide * (1 << _NORM_BITS) - mean, root)
        found = fixed_point.shifted_right(b, found, shift)
        weights, bias = [b.constant(y.astype(np.int64)) for y in (self.weights, self.bias)]
        found = found * along(b, weights, 1, x.dimensions) + along(b, bias, 1, x.dimensions)
        half = fixed_point.like(b, found, 1 << _NORM_BITS >> 1)
        found = (found + b.select(found.gt(0), half, -half)) / (1 << _NORM_BITS)
        more = Factor(self.factor.mantissa, self.factor.shift + _FRACTION - _GATE_BITS)
        return within(b, scaled(b, b.convert(found, ElementType.S32), [more]), "INT16")


@dataclass(frozen=True, eq=False, slots=True)
class _Gate:
    """A gate: its products with the input and the state, and what else it has."""

    given: _Product
    held: _Product
    peephole: tuple[Array, Factor] | None
    norm: _Norm | None

    def __call__(self, b: Builder, x: Op, state: Op, cell: Op) -> Op:
        """Return the sums of the gate, in 32 bits but within 16."""
        sums = within(b, self.given(b, x), "INT16")
        sums = within(b, sums + self.held(b, state), "INT16")
        if self.peephole is not None:
            weights, factor = self.peephole
            known = expand(b, b.constant(weights.astype(np.int32)), cell.dimensions)
            sums = within(b, sums + scaled(b, cell * known, [factor]), "INT16")
        return sums if self.norm is None else self.norm(b, sums)


@dataclass(frozen=True, eq=False, slots=True)
class QuantizedLstmCell:
    """A cell: gates by number, of which that of the input may be left out.

    `hidden` is the factor and the zero point of what the output gate lets through, `bits` are the
    integer bits of the cell, `clips` the greatest numbers of cell and projection, 0 for any.
    """

    gates: dict[int, _Gate]
    projection: _Product | None
    hidden: tuple[Factor, int]
    output_zero: int
    bits: int
    clips: tuple[int, int]

    @classmethod
    def of(cls, node: LiteNode, rows: int) -> QuantizedLstmCell:
        """Return the cell of an operator; raises GraphError for types without a kernel.

        `rows` are those of the batch that TFLite's kernel takes at once.
        """
        return _Reader(node, rows).cell()

    def __call__(self, b: Builder, x: Op, state: list[Op]) -> tuple[Op, list[Op]]:
        """Return the output of a step and the state after it, of the state [output, cell]."""
        held, cell = state[0], b.convert(state[1], ElementType.S32)
        sums = {i: gate(b, x, held, cell) for i, gate in self.gates.items() if i != OUTPUT}
        forget = fixed_point.logistic(b, sums[FORGET], _GATE_BITS)
        taken = fixed_point.tangent(b, sums[CELL], _GATE_BITS)
        share = b.subtract(fixed_point.one(forget), forget)
        if INPUT in sums:
            share = fixed_point.logistic(b, sums[INPUT], _GATE_BITS)
        kept = fixed_point.shifted_right(b, forget * cell, _FRACTION)
        more = fixed_point.shifted_right(b, share * taken, _FRACTION + self.bits)
        cell = _clipped(b, within(b, kept + more, "INT16"), self.clips[0])
        opened = self.gates[OUTPUT](b, x, held, cell)
        opened = fixed_point.logistic(b, opened, _GATE_BITS)
        found = self._output(b, opened * fixed_point.tangent(b, cell, self.bits))
        return found, [found, b.convert(cell, ElementType.S16)]

    def _output(self, b: Builder, product: Op) -> Op:
        """The output of products of output gate and cell, which have 30 bits behind the point."""
        factor, zero = self.hidden
        hidden = scaled(b, product, [factor])
        if self.projection is None:
            return b.convert(within(b, hidden + zero, "INT8"), ElementType.S8)
        hidden = b.convert(within(b, hidden - zero, "INT8"), ElementType.S8)
        found = within(b, self.projection(b, hidden) + self.output_zero, "INT8")
        return b.convert(_clipped(b, found, self.clips[1]), ElementType.S8)


def within(b: Builder, x: Op, kind: str) -> Op:
    """Return 32-bit numbers within the ends of a quantized type."""
    low, high = QUANTIZED[kind]
    return b.maximum(b.minimum(x, high), low)


def cell_bits(node: LiteNode, scale: np.float32) -> int:
    """Return the integer bits of a cell's 16; raises GraphError for no power of two."""
    power = math.log2(float(scale))
    if abs(power - round(power)) > _NEAR:
        raise node.error(f"the scale of its cell, {scale}, is no power of two")
    return _FRACTION + round(power)


def _clipped(b: Builder, x: Op, most: int) -> Op:
    return b.maximum(b.minimum(x, most), -most) if most > 0 else x


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
        if not 0 <= bits <= _MOST_CELL_BITS:
            raise node.refusal(f"a cell of {bits} integer bits; known are 0 to {_MOST_CELL_BITS}")
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

    def product(self, number: int, zero: int, bias: Array | None, factor: Factor) -> _Product:
        """Weights for rows from whose numbers a zero point is taken."""
        weights = self.constant(number)
        if weights.ndim != 2 or weights.dtype != np.int8:
            raise self.node.refusal(f"weights {weights.dtype.name}{list(weights.shape)}")
        sums = weights.astype(np.int32).sum(1, dtype=np.int32) * np.int32(-zero)
        return _Product(weights, sums if bias is None else sums + bias, factor)

    def gate(self, gate: int) -> _Gate:
        """A gate."""
        node, has_norm = self.node, self.node.context.has_input(20 + FORGET)
        over = quantized.scale_of(node, node.between(gate)) if has_norm else _GATE_SCALE
        bias = self.constant(1 + BIAS + gate)
        products = []
        for first, given in ((1, 0), (1 + RECURRENT, _STATES[0])):
            factor = factor_of(float(self.scale(first + gate) * self.scale(given) / over))
            zero = quantized.zero_of(node.tensor(given))
            own = bias if first == 1 and not has_norm else None
            products.append(self.product(first + gate, zero, own, factor))
        norm = self.norm(gate, bias) if has_norm else None
        return _Gate(products[0], products[1], self.peephole(gate, over), norm)

    def norm(self, gate: int, bias: Array) -> _Norm:
        """The normalization of a gate."""
        scale = self.scale(20 + gate)
        guard = max(1, int(np.float32(_GUARD) * scale))
        return _Norm(self.constant(20 + gate), bias, factor_of(float(scale)), guard)

    def peephole(self, gate: int, over: np.float32) -> tuple[Array, Factor] | None:
        """The weights of the cell in a gate, as a matrix for rows of cells.

        TFLite's kernel takes rows of gates and cells to be as long as the output: where that is
        shorter, weights begin again after as many numbers, and what is left has none.
        """
        number = 1 + PEEPHOLES.get(gate, 0)
        if gate not in PEEPHOLES or not self.node.context.has_input(number):
            return None
        power = 2.0 ** (cell_bits(self.node, self.scale(_STATES[1])) - _FRACTION)
        real = power * float(self.scale(number)) / float(over)
        weights = self.constant(number)
        count = self.constant(1 + RECURRENT + OUTPUT).shape[1]
        if count > len(weights):
            raise self.node.refusal(f"peepholes of {len(weights)} cells and {count} outputs")
        found = np.zeros(self.rows * len(weights), weights.dtype)
        found[: self.rows * count] = np.tile(weights[:count], self.rows)
        return found.reshape(self.rows, -1), factor_of(float(np.float32(real)))

    def projection(self) -> _Product | None:
        """The weights of the output, where it is a projection."""
        node, number = self.node, 1 + PROJECTION
        if not node.context.has_input(number):
            return None
        inner = node.between(_HIDDEN)
        real = self.scale(number) * quantized.scale_of(node, inner) / self.scale(_STATES[0])
        bias = self.constant(number + 1) if node.context.has_input(number + 1) else None
        assert number + 1 == 1 + PROJECTION_BIAS
        return self.product(number, -quantized.zero_of(inner), bias, factor_of(float(real)))
