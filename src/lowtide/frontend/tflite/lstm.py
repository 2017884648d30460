"""One step of an LSTM: with coupled gates, peepholes, normalization and projection where given.

Source: S. Hochreiter and J. Schmidhuber, Long Short-Term Memory, 1997; H. Sak et al., Long
Short-Term Memory Recurrent Neural Network Architectures, 2014.
"""

from __future__ import annotations

from typing import Final

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.shared.broadcasting import expand
from lowtide.frontend.graphs.shared.reductions import mean
from lowtide.frontend.tflite.node import LiteNode
from lowtide.frontend.tflite.weights import LayerWeights, active, added
from lowtide.records import dataclass

INPUT, FORGET, CELL, OUTPUT = range(4)
PEEPHOLES: Final = {INPUT: 8, FORGET: 9, OUTPUT: 10}
RECURRENT, BIAS, PROJECTION, PROJECTION_BIAS = 4, 11, 15, 16
"""Where weights stand behind the first input weights; gates follow one another."""

_EPSILON: Final = 1e-8


@dataclass(frozen=True, eq=False, slots=True)
class LstmCell:
    """A cell: its weights, of which `first` are those of the input, and its options.

    `norms` is the number of the first coefficients of normalization, `others` that of the first
    weights of an auxiliary input, which stands behind the input; None where there are none.
    """

    weights: LayerWeights
    first: int
    norms: int | None
    others: int | None
    activation: str
    clips: tuple[float, float]

    @classmethod
    def of(
        cls,
        node: LiteNode,
        first: int,
        norms: int | None,
        others: int | None = None,
        *,
        with_zero: bool,
    ) -> LstmCell:
        """Return the cell of an operator, whose input weights begin at an input."""
        fours = [range(x, x + 4) for x in (norms, others) if x is not None]
        numbers = [*range(first, first + 17), *[x for four in fours for x in four]]
        node.require_floats()
        weights = LayerWeights.of(node, numbers, with_zero=with_zero)
        clips = node.real(1, 0.0), node.real(2, 0.0)
        return cls(weights, first, norms, others, node.activation(0), clips)

    def __call__(self, b: Builder, x: Op, state: list[Op]) -> tuple[Op, list[Op]]:
        """Return the output of a step and the state after it, of the state [output, cell]."""
        held, cell = state
        forget = b.logistic(self._gate(b, FORGET, x, held, cell))
        taken = active(b, self._gate(b, CELL, x, held, None), self.activation)
        if self.first in self.weights.values:
            share = b.logistic(self._gate(b, INPUT, x, held, cell))
        else:
            share = b.subtract(1.0, forget)
        cell = self._clipped(b, forget * cell + taken * share, self.clips[0])
        opened = b.logistic(self._gate(b, OUTPUT, x, held, cell))
        found = opened * active(b, cell, self.activation)
        projected = self.weights.product(b, found, self.first + PROJECTION)
        if projected is not None:
            bias = self.weights.along(b, self.first + PROJECTION_BIAS, projected)
            found = self._clipped(b, added([projected, bias]), self.clips[1])
        return found, [found, cell]

    def _gate(self, b: Builder, gate: int, x: Op, held: Op, cell: Op | None) -> Op:
        """The sums of a gate before its activation."""
        weights = self.weights
        parts = weights.products(b, x, [self.first, self.others], gate)
        parts.append(weights.product(b, held, self.first + RECURRENT + gate))
        sums = added(parts)
        if cell is not None and gate in PEEPHOLES:
            peephole = weights.along(b, self.first + PEEPHOLES[gate], cell)
            sums = sums if peephole is None else sums + cell * peephole
        scale = None if self.norms is None else weights.along(b, self.norms + gate, sums)
        if scale is not None:
            center = sums - expand(b, mean(b, sums, [1], keep=True), sums.dimensions)
            spread = mean(b, center * center, [1], keep=True) + _EPSILON
            sums = center * expand(b, b.rsqrt(spread), sums.dimensions) * scale
        return added([sums, weights.along(b, self.first + BIAS + gate, sums)])

    def _clipped(self, b: Builder, x: Op, most: float) -> Op:
        return b.maximum(b.minimum(x, most), -most) if most > 0 else x
