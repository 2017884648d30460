"""The weights of a recurrent layer: constants, which every step of its loop has for itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.shared import broadcasting
from lowtide.frontend.tflite import hybrid
from lowtide.frontend.tflite.node import BOUNDS, LiteNode
from lowtide.ir.attributes import DotDimensions
from lowtide.ir.literal import Array
from lowtide.records import dataclass


@dataclass(frozen=True, eq=False, slots=True)
class LayerWeights:
    """Weights and their scales by the numbers of inputs; what is left out is not there.

    `with_zero` says whether rows that meet 8-bit weights get a zero point.
    """

    values: Mapping[int, Array]
    scales: Mapping[int, Sequence[float]]
    with_zero: bool

    @classmethod
    def of(cls, node: LiteNode, numbers: Sequence[int], *, with_zero: bool) -> LayerWeights:
        """Return those inputs of an operator; raises GraphError for what is no constant."""
        values, scales = {}, {}
        for number in numbers:
            if not node.context.has_input(number):
                continue
            value = node.context.constant(number)
            if value.dtype.kind in "iu":
                count = len(value) if value.ndim > 1 else 1
                scales[number] = hybrid.weight_scales(node, node.tensor(number), count)
            values[number] = value
        return cls(values, scales, with_zero)

    def product(self, b: Builder, x: Op, number: int) -> Op | None:
        """Return rows [n, k] times weights [m, k], as [n, m]; None where these are left out.

        Weights [k] are those of a diagonal matrix.
        """
        if number not in self.values:
            return None
        weights = b.constant(self.values[number])
        if len(weights.dimensions) == 1:
            known = self.along(b, number, x)
            assert known is not None
            return x * known
        if number in self.scales:
            scales = self.scales[number]
            return hybrid.rows_times(b, x, weights, scales, with_zero=self.with_zero)
        return b.dot(x, weights, DotDimensions((1,), (1,)))

    def products(
        self, b: Builder, x: Op, firsts: Sequence[int | None], gate: int
    ) -> list[Op | None]:
        """Return the products of inputs side by side with weights that begin at some numbers."""
        found, start = [], 0
        for number in [y + gate for y in firsts if y is not None]:
            if number in self.values:
                width = self.values[number].shape[1]
                part = b.slice(x, [0, start], [x.dimensions[0], start + width], [1, 1])
                found.append(self.product(b, x if width == x.dimensions[1] else part, number))
                start += width
        return found

    def plain(self, b: Builder, number: int) -> Op | None:
        """Return weights as floats."""
        if number not in self.values:
            return None
        value = self.values[number]
        if number in self.scales:
            scales = np.array(self.scales[number], np.float32)
            value = value.astype(np.float32) * scales.reshape(-1, *[1] * (value.ndim - 1))
        return b.constant(value.astype(np.float32))

    def along(self, b: Builder, number: int, like: Op) -> Op | None:
        """Return a vector of floats for each row of [n, m]; None where it is left out."""
        found = self.plain(b, number)
        return None if found is None else broadcasting.along(b, found, 1, like.dimensions)


def added(parts: Sequence[Op | None]) -> Op:
    """Return the sum of those that are there, of which there is one at least."""
    first, *others = [x for x in parts if x is not None]
    for other in others:
        first = first + other
    return first


def active(b: Builder, x: Op, activation: str) -> Op:
    """Return floats after the activation of a recurrent layer."""
    if activation == "TANH":
        return b.tanh(x)
    if activation == "NONE":
        return x
    low, high = BOUNDS[activation]
    x = b.maximum(x, low)
    return x if high is None else b.minimum(x, high)
