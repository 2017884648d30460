"""Implicit broadcasting: HLO itself has none, so the builder spells it out.

A scalar fits any array. An operand of lower rank fits with `broadcast_dimensions`, which name the
result dimension of each of its dimensions. Then sizes of 1 stretch.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from lowtide.builder.core import BuilderCore
from lowtide.builder.values import BuildError, Op, Value
from lowtide.ir.attributes import NO_ATTRIBUTES, Attributes, Dimensions, Reshape
from lowtide.ir.errors import ShapeError
from lowtide.ir.opcode import Opcode
from lowtide.ops.checks import (
    Dimension,
    array,
    compatible_size,
    dimensions_of,
    listed,
    make_array,
    plain,
    tighter,
)


class Broadcasting(BuilderCore):
    """Elementwise operations on operands that first have to meet in one shape."""

    def elementwise(
        self,
        opcode: Opcode,
        values: Sequence[Value],
        attributes: Attributes = NO_ATTRIBUTES,
        broadcast_dimensions: Sequence[int] = (),
    ) -> Op:
        """Add an elementwise operation, its operands broadcast to one shape."""
        known = next((value for value in values if isinstance(value, Op)), None)
        like = None if known is None or not known.shape.is_array else known.element_type
        ops = [self._own(self.op(value, like), opcode, i) for i, value in enumerate(values)]
        try:
            met = self.broadcast_together(ops, broadcast_dimensions)
        except ShapeError as error:
            raise BuildError(str(error), operation=opcode.value) from error
        return self.emit(opcode, met, attributes)

    def binary(
        self, opcode: Opcode, lhs: Value, rhs: Value, broadcast_dimensions: Sequence[int] = ()
    ) -> Op:
        """Add an elementwise operation of two operands."""
        return self.elementwise(opcode, [lhs, rhs], NO_ATTRIBUTES, broadcast_dimensions)

    def broadcast_together(self, ops: Sequence[Op], at: Sequence[int] = ()) -> list[Op]:
        """Return the operands with equal dimensions; raises ShapeError where they do not fit."""
        for number, op in enumerate(ops):
            array(op.shape, f"operand {number}")
        rank = max([op.rank for op in ops])
        if all(op.dimensions == ops[0].dimensions for op in ops) and not at:
            return list(ops)
        target = [self._spread(op, rank, at) for op in ops]
        met: list[Dimension] = []
        for dimension in range(rank):
            sizes = [spread[dimension] for spread in target if dimension in spread]
            size = sizes[0]
            for other in sizes[1:]:
                size = _stretched(size, other, ops)
            met.append(size)
        return [self._expand(op, met, list(spread)) for op, spread in zip(ops, target, strict=True)]

    def _spread(self, op: Op, rank: int, at: Sequence[int]) -> dict[int, Dimension]:
        """Return the sizes of an operand by the result dimensions on which they come to lie."""
        own = dimensions_of(op.shape)
        if op.rank in (0, rank):
            if at and op.rank == rank and rank == len(at) and list(at) != list(range(rank)):
                raise ShapeError(f"broadcast_dimensions {listed(at)} would transpose the operands")
            return dict(enumerate(own))
        if not at:
            raise ShapeError(
                f"{plain(op.shape)} has a lower rank than {rank}: say with broadcast_dimensions "
                "where its dimensions lie in the result"
            )
        if len(at) != op.rank or any(a >= b for a, b in pairwise(at)):
            raise ShapeError(
                f"broadcast_dimensions {listed(at)} must name one result dimension for each "
                f"dimension of {plain(op.shape)}, in increasing order"
            )
        if at[0] < 0 or at[-1] >= rank:
            raise ShapeError(f"broadcast_dimensions {listed(at)} exceed rank {rank}")
        return dict(zip(at, own, strict=True))

    def _expand(self, op: Op, target: list[Dimension], at: list[int]) -> Op:
        """Return the operand with the dimensions `target`; its own ones lie at `at` there."""
        own = [size for size, _ in dimensions_of(op.shape)]
        wide = [i for i, size in enumerate(own) if compatible_size(size, target[at[i]][0])]
        if len(wide) == len(target):
            return op
        if len(wide) != len(own):
            kept = [dimensions_of(op.shape)[i] for i in wide]
            op = self.emit(Opcode.RESHAPE, [op], Reshape(), shape=make_array(op.element_type, kept))
        return self.emit(
            Opcode.BROADCAST,
            [op],
            Dimensions(tuple([at[i] for i in wide])),
            shape=make_array(op.element_type, target),
        )


def _stretched(a: Dimension, b: Dimension, ops: Sequence[Op]) -> Dimension:
    if compatible_size(a[0], b[0]):
        return tighter(a, b)
    if a[0] == 1:
        return b
    if b[0] == 1:
        return a
    shapes = ", ".join([plain(op.shape) for op in ops])
    raise ShapeError(f"the operands differ in size: {shapes}")
