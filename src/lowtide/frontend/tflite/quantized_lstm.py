"""One step of an LSTM of 8-bit numbers whose cells and gates are of 16 bits.

    input [n, k], state [n, m]   8 bits       gates        16 bits: 3 integer bits, then none
    weights                      8 bits       cell [n, c]  16 bits, its scale a power of two

Sums of products are brought to the scale of their gate and added within 16 bits. What an operator
has beside its scales is as of floats (`lstm.py`), but for its activation, which is tanh always.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.shared.broadcasting import along, expand
from lowtide.frontend.graphs.shared.reductions import reduce
from lowtide.frontend.tflite import fixed_point
from lowtide.frontend.tflite.lstm import CELL, FORGET, INPUT, OUTPUT
from lowtide.frontend.tflite.node import QUANTIZED
from lowtide.frontend.tflite.rounding import Factor, scaled
from lowtide.ir.attributes import DotDimensions
from lowtide.ir.element_type import ElementType
from lowtide.ir.literal import Array
from lowtide.records import dataclass

_GATE_BITS: Final = 3
"""Integer bits of a gate before its function; after it there are none."""

FRACTION: Final = 15
"""Bits behind the point of 16 without integer bits."""

_MOST_TANGENT_BITS: Final = 6
"""Integer bits of numbers of which there is a hyperbolic tangent, from 0 on."""

_NORM_BITS: Final = 10
"""Bits behind the point of normalized numbers."""


@dataclass(frozen=True, eq=False, slots=True)
class GateProduct:
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
class GateNorm:
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
        more = Factor(self.factor.mantissa, self.factor.shift + FRACTION - _GATE_BITS)
        return within(b, scaled(b, b.convert(found, ElementType.S32), [more]), "INT16")


@dataclass(frozen=True, eq=False, slots=True)
class LstmGate:
    """A gate: its products with the input and the state, and what else it has."""

    given: GateProduct
    held: GateProduct
    peephole: tuple[Array, Factor] | None
    norm: GateNorm | None

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

    gates: dict[int, LstmGate]
    projection: GateProduct | None
    hidden: tuple[Factor, int]
    output_zero: int
    bits: int
    clips: tuple[int, int]

    def __call__(self, b: Builder, x: Op, state: list[Op]) -> tuple[Op, list[Op]]:
        """Return the output of a step and the state after it, of the state [output, cell]."""
        held, cell = state[0], b.convert(state[1], ElementType.S32)
        early = [i for i in self.gates if i != CELL and not (i == OUTPUT and self.is_late)]
        gates = dict(zip(early, self._opened(b, early, x, held, cell), strict=True))
        forget = gates[FORGET]
        share = gates.get(INPUT, b.subtract(fixed_point.one(forget), forget))
        taken = fixed_point.tangent(b, self.gates[CELL](b, x, held, cell), _GATE_BITS)
        kept = fixed_point.shifted_right(b, forget * cell, FRACTION)
        more = fixed_point.shifted_right(b, share * taken, FRACTION + self.bits)
        cell = _clipped(b, within(b, kept + more, "INT16"), self.clips[0])
        if self.is_late:
            gates[OUTPUT] = self._opened(b, [OUTPUT], x, held, cell)[0]
        opened = gates[OUTPUT]
        found = self._output(b, opened * self._tangent(b, cell))
        return found, [found, b.convert(cell, ElementType.S16)]

    @property
    def is_late(self) -> bool:
        """Whether the output gate waits for the cell after the step."""
        return self.gates[OUTPUT].peephole is not None

    def _opened(self, b: Builder, names: list[int], x: Op, held: Op, cell: Op) -> list[Op]:
        """Gates without integer bits, whose function is computed of all of them at once."""
        sums = [self.gates[i](b, x, held, cell) for i in names]
        joined = sums[0] if len(sums) == 1 else b.concatenate(sums, 1)
        found = fixed_point.logistic(b, joined, _GATE_BITS)
        rows, count = sums[0].dimensions
        places = range(0, count * len(sums), count)
        return [b.slice(found, [0, i], [rows, i + count], [1, 1]) for i in places]

    def _tangent(self, b: Builder, cell: Op) -> Op:
        """The hyperbolic tangent of a cell, of which there is one for some integer bits."""
        bits = min(max(self.bits, 0), _MOST_TANGENT_BITS)
        if self.bits < bits:
            cell = fixed_point.shifted_right(b, cell, bits - self.bits)
        elif self.bits > bits:
            cell = fixed_point.shifted_left(b, cell, self.bits - bits)
        return fixed_point.tangent(b, cell, bits)

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


def _clipped(b: Builder, x: Op, most: int) -> Op:
    return b.maximum(b.minimum(x, most), -most) if most > 0 else x
