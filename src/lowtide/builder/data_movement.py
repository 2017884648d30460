"""Operations that rearrange, select and combine elements without computing."""

from __future__ import annotations

from collections.abc import Sequence

from lowtide.builder.core import BuilderCore
from lowtide.builder.values import BuildError, Op, SubComputation, Value
from lowtide.ir.attributes import (
    Dimensions,
    DynamicSlice,
    Gather,
    Iota,
    Pad,
    PaddingDimension,
    Reshape,
    Scatter,
    Slice,
)
from lowtide.ir.opcode import Opcode
from lowtide.ir.shape import Shape, array_shape

Part = int | slice
Padding = PaddingDimension | tuple[int, int] | tuple[int, int, int]


class DataMovementOps(BuilderCore):
    """Broadcast, reshape, slices, gather, scatter and the like."""

    # -- whole arrays --------------------------------------------------------------------------

    def iota(self, shape: Shape, dimension: int = 0) -> Op:
        """Return an array that counts from 0 along a dimension."""
        return self.emit(Opcode.IOTA, (), Iota(dimension), shape=shape)

    def broadcast(self, operand: Value, sizes: Sequence[int], dimensions: Sequence[int]) -> Op:
        """Return the operand repeated to `sizes`; its dimension i becomes `dimensions[i]`."""
        op = self.op(operand)
        shape = array_shape(op.element_type, tuple(sizes))
        return self.emit(Opcode.BROADCAST, [op], Dimensions(tuple(dimensions)), shape=shape)

    def reshape(self, operand: Value, sizes: Sequence[int], inferred_dimension: int = -1) -> Op:
        """Return the same elements, in row-major order, with other dimensions."""
        op = self.op(operand)
        shape = array_shape(op.element_type, tuple(sizes))
        return self.emit(Opcode.RESHAPE, [op], Reshape(inferred_dimension), shape=shape)

    def dynamic_reshape(self, operand: Value, sizes: Sequence[Value], bounds: Sequence[int]) -> Op:
        """Return the operand with the dimensions `sizes`, scalars known at run time."""
        op = self.op(operand)
        dynamic = (True,) * len(bounds)
        shape = array_shape(op.element_type, tuple(bounds), dynamic=dynamic)
        return self.emit(Opcode.DYNAMIC_RESHAPE, [op, *sizes], shape=shape)

    def transpose(self, operand: Value, permutation: Sequence[int]) -> Op:
        """Return the operand with dimension i taken from `permutation[i]`, laid out row major."""
        op = self.op(operand)
        shape = None
        if op.shape.is_array and sorted(permutation) == list(range(op.rank)):
            flags = op.shape.dynamic or (False,) * op.rank
            shape = array_shape(
                op.element_type,
                tuple([op.dimensions[i] for i in permutation]),
                dynamic=tuple([flags[i] for i in permutation]),
            )
        return self.emit(Opcode.TRANSPOSE, [op], Dimensions(tuple(permutation)), shape=shape)

    def reverse(self, operand: Value, dimensions: Sequence[int]) -> Op:
        """Return the operand with some dimensions running backwards."""
        return self.emit(Opcode.REVERSE, [operand], Dimensions(tuple(dimensions)))

    def bitcast(self, operand: Value, shape: Shape) -> Op:
        """Return the same bytes under another shape and layout."""
        return self.emit(Opcode.BITCAST, [operand], shape=shape)

    def concatenate(self, operands: Sequence[Value], dimension: int) -> Op:
        """Return the operands one after another along a dimension."""
        return self.emit(Opcode.CONCATENATE, operands, Dimensions((dimension,)))

    def pad(self, operand: Value, value: Value, padding: Sequence[Padding]) -> Op:
        """Return the operand with `value` before, after and between its elements.

        `padding` has (low, high) or (low, high, interior) for each dimension.
        """
        op = self.op(operand)
        entries = [x if isinstance(x, PaddingDimension) else PaddingDimension(*x) for x in padding]
        return self.emit(Opcode.PAD, [op, self.op(value, op.element_type)], Pad(tuple(entries)))

    # -- parts ---------------------------------------------------------------------------------

    def slice(
        self,
        operand: Value,
        starts: Sequence[int],
        limits: Sequence[int],
        strides: Sequence[int] = (),
    ) -> Op:
        """Return elements start, start + stride, ... below the limit in each dimension."""
        steps = tuple(strides) or (1,) * len(starts)
        if not len(starts) == len(limits) == len(steps):
            counts = f"{len(starts)} starts, {len(limits)} limits, {len(steps)} strides"
            raise BuildError(f"{counts}: they must be as many", operation="slice")
        return self.emit(Opcode.SLICE, [operand], Slice(tuple(starts), tuple(limits), steps))

    def static_index(self, operand: Value, index: Sequence[Part]) -> Op:
        """Return the part of an array that a Python index names; a number drops its dimension."""
        op = self.op(operand)
        if len(index) > op.rank:
            raise BuildError(f"{len(index)} indices for {op.shape}", operation="slice")
        starts, limits, strides, kept = [], [], [], []
        for i, size in enumerate(op.dimensions):
            part = index[i] if i < len(index) else slice(None)
            if isinstance(part, int):
                if not -size <= part < size:
                    raise BuildError(f"index {part} is out of range for {op.shape}")
                part = slice(part % size, part % size + 1)
            else:
                kept.append(i)
            start, limit, stride = part.indices(size)
            if stride < 1:
                raise BuildError(f"the stride {stride} is not positive: use reverse")
            starts.append(start)
            limits.append(max(limit, start))
            strides.append(stride)
        part_op = self.slice(op, starts, limits, strides)
        if len(kept) == op.rank:
            return part_op
        return self.reshape(part_op, [part_op.dimensions[i] for i in kept])

    def dynamic_slice(self, operand: Value, starts: Sequence[Value], sizes: Sequence[int]) -> Op:
        """Return a part of fixed size at scalar positions known at run time.

        A part that would reach over the border is moved inside.
        """
        return self.emit(Opcode.DYNAMIC_SLICE, [operand, *starts], DynamicSlice(tuple(sizes)))

    def dynamic_update_slice(self, operand: Value, update: Value, starts: Sequence[Value]) -> Op:
        """Return the operand with `update` in place of a part at scalar positions."""
        return self.emit(Opcode.DYNAMIC_UPDATE_SLICE, [operand, update, *starts])

    def gather(self, operand: Value, indices: Value, attributes: Gather) -> Op:
        """Return slices of the operand at the index vectors in `indices`."""
        return self.emit(Opcode.GATHER, [operand, indices], attributes)

    def scatter(
        self,
        operands: Op | Sequence[Value],
        indices: Value,
        updates: Op | Sequence[Value],
        to_apply: SubComputation,
        attributes: Scatter,
    ) -> Op:
        """Return the operands with updates combined into windows at the index vectors.

        `to_apply` takes an element of each operand, then of each update.
        """
        values = [*one_or_more(operands), indices, *one_or_more(updates)]
        return self.emit(Opcode.SCATTER, values, attributes, [to_apply])

    # -- dynamic sizes -------------------------------------------------------------------------

    def get_dimension_size(self, operand: Value, dimension: int) -> Op:
        """Return the actual size of a dimension."""
        return self.emit(Opcode.GET_DIMENSION_SIZE, [operand], Dimensions((dimension,)))

    def set_dimension_size(self, operand: Value, size: Value, dimension: int) -> Op:
        """Return the operand, of which only the first `size` elements of a dimension count."""
        return self.emit(Opcode.SET_DIMENSION_SIZE, [operand, size], Dimensions((dimension,)))


def one_or_more(values: Op | Sequence[Value]) -> Sequence[Value]:
    """Return the operands of an argument that is one value or several."""
    return [values] if isinstance(values, Op) else values
