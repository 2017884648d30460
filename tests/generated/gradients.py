"""Programs with their gradients: a builder that remembers how each operation is derived."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias, final

from lowtide.builder import Builder
from lowtide.builder.values import Op
from lowtide.ir import ElementType, Opcode
from lowtide.ir.attributes import DotDimensions
from lowtide.ops.dot_roles import dot_roles

_Pull: TypeAlias = Callable[[Op], Op]
"""From the gradient of a result to what it adds to that of an operand."""

_F32: Final = ElementType.F32


@final
class Tape:
    """Builds operations on f32 and bf16 arrays, and the gradients of what was built."""

    def __init__(self, build: Builder) -> None:
        self.build = build
        self._steps: list[tuple[Op, tuple[tuple[Op, _Pull], ...]]] = []

    def _did(self, result: Op, *pulls: tuple[Op, _Pull]) -> Op:
        self._steps.append((result, pulls))
        return result

    def gradients(self, result: Op, gradient: Op) -> dict[str, Op]:
        """Return the gradients of all that `result` depends on, by name of instruction."""
        found = {result.instruction.name: gradient}
        for made, pulls in reversed(self._steps):
            above = found.get(made.instruction.name)
            if above is None:
                continue
            for operand, pull in pulls:
                name = operand.instruction.name
                part = pull(above)
                found[name] = found[name] + part if name in found else part
        return found

    # -- elementwise ---------------------------------------------------------------------------

    def filled(self, value: float, like: Op) -> Op:
        """Return an array like another one whose elements are one number."""
        scalar = self.build.constant(value, like.element_type)
        return self.build.broadcast(scalar, like.dimensions, ())

    def add(self, x: Op, y: Op) -> Op:
        """Return x + y."""
        return self._did(x + y, (x, lambda g: g), (y, lambda g: g))

    def subtract(self, x: Op, y: Op) -> Op:
        """Return x - y."""
        return self._did(x - y, (x, lambda g: g), (y, lambda g: -g))

    def multiply(self, x: Op, y: Op) -> Op:
        """Return x * y."""
        return self._did(x * y, (x, lambda g: g * y), (y, lambda g: g * x))

    def scale(self, x: Op, factor: float) -> Op:
        """Return x times a number."""
        return self._did(x * self.filled(factor, x), (x, lambda g: g * self.filled(factor, g)))

    def divide(self, x: Op, y: Op) -> Op:
        """Return x / y."""
        result = x / y
        return self._did(result, (x, lambda g: g / y), (y, lambda g: -(g * result) / y))

    def exponential(self, x: Op) -> Op:
        """Return e to the power of x."""
        result = self.build.exponential(x)
        return self._did(result, (x, lambda g: g * result))

    def tanh(self, x: Op) -> Op:
        """Return the hyperbolic tangent."""
        result = self.build.tanh(x)
        return self._did(result, (x, lambda g: g * (self.filled(1, g) - result * result)))

    def rsqrt(self, x: Op) -> Op:
        """Return 1 / sqrt(x)."""
        result = self.build.rsqrt(x)
        return self._did(result, (x, lambda g: g * self.filled(-0.5, g) * (result / x)))

    def where(self, mask: Op, x: Op, other: float) -> Op:
        """Return x where the mask is set, else a number."""
        result = self.build.select(mask, x, self.filled(other, x))
        return self._did(result, (x, lambda g: self.build.select(mask, g, self.filled(0, g))))

    def convert(self, x: Op, element_type: ElementType) -> Op:
        """Return x as numbers of another type."""
        result = self.build.convert(x, element_type)
        return self._did(result, (x, lambda g: self.build.convert(g, x.element_type)))

    # -- shapes --------------------------------------------------------------------------------

    def spread(self, x: Op, sizes: Sequence[int], dimensions: Sequence[int]) -> Op:
        """Return x repeated along all dimensions but those given."""
        rest = [d for d in range(len(sizes)) if d not in dimensions]
        result = self.build.broadcast(x, sizes, dimensions)
        return self._did(result, (x, lambda g: self._reduced(g, rest, Opcode.ADD)))

    def total(self, x: Op, dimension: int) -> Op:
        """Return sums along a dimension."""
        kept = [d for d in range(x.rank) if d != dimension]
        result = self._reduced(x, [dimension], Opcode.ADD)
        return self._did(result, (x, lambda g: self.build.broadcast(g, x.dimensions, kept)))

    def greatest(self, x: Op, dimension: int) -> Op:
        """Return the greatest along a dimension, as a constant of the derivation."""
        return self._reduced(x, [dimension], Opcode.MAXIMUM)

    def _reduced(self, x: Op, dimensions: Sequence[int], opcode: Opcode) -> Op:
        initial = 0.0 if opcode is Opcode.ADD else float("-inf")
        reducer = self.build.scalar_computation(opcode, x.element_type)
        return self.build.reduce(
            x, self.build.constant(initial, x.element_type), reducer, dimensions
        )

    def reshape(self, x: Op, sizes: Sequence[int]) -> Op:
        """Return the elements in another shape."""
        result = self.build.reshape(x, sizes)
        return self._did(result, (x, lambda g: self.build.reshape(g, x.dimensions)))

    def transpose(self, x: Op, order: Sequence[int]) -> Op:
        """Return x with its dimensions in another order."""
        back = sorted(range(x.rank), key=lambda d: order[d])
        result = self.build.transpose(x, order)
        return self._did(result, (x, lambda g: self.build.transpose(g, back)))

    # -- products ------------------------------------------------------------------------------

    def dot(self, x: Op, y: Op, numbers: DotDimensions) -> Op:
        """Return sums of products."""
        result = self.build.dot(x, y, numbers)
        return self._did(
            result,
            (x, lambda g: self._dot_gradient(g, result, y, x, 0)),
            (y, lambda g: self._dot_gradient(g, result, x, y, 1)),
        )

    def _dot_gradient(self, gradient: Op, result: Op, other: Op, operand: Op, side: int) -> Op:
        """Return the gradient of one operand: the product of the other one and that above."""
        both = dot_roles(result.instruction)
        own, others = both[side], both[1 - side]
        batches = tuple(range(len(own.batch)))
        numbers = DotDimensions(tuple(others.in_result), others.free, batches, others.batch)
        product = self.build.dot(gradient, other, numbers)
        # It has batch dimensions, those of the operand alone, and those contracted as in `other`.
        order = dict(zip(others.contracted, own.contracted, strict=True))
        lies = [*own.batch, *own.free, *[order[d] for d in sorted(others.contracted)]]
        if lies == sorted(lies):
            return product
        return self.build.transpose(product, [lies.index(d) for d in range(operand.rank)])
