"""Declared aliasing: which outputs of an instruction overwrite which operands."""

from __future__ import annotations

from collections.abc import Sequence

from lowtide.ir.attributes import Aliasing
from lowtide.ir.errors import ShapeError
from lowtide.ir.shape import Shape, ShapeIndex
from lowtide.ops.checks import plain


def check_aliasing(result: Shape, operands: Sequence[Shape], pairs: Sequence[Aliasing]) -> None:
    """Check that both sides of each pair exist and agree, and that no output is named twice."""
    seen: set[ShapeIndex] = set()
    for pair in pairs:
        if not 0 <= pair.operand < len(operands):
            raise ShapeError(
                f"output_to_operand_aliasing names operand {pair.operand} of {len(operands)}"
            )
        output = _subshape(result, pair.output_index, "the result")
        operand = _subshape(operands[pair.operand], pair.operand_index, f"operand {pair.operand}")
        if not _array(output).compatible(_array(operand)):
            raise ShapeError(
                f"output_to_operand_aliasing pairs {plain(output)} with {plain(operand)}"
            )
        if pair.output_index in seen:
            raise ShapeError(f"output_to_operand_aliasing names output {pair.output_index} twice")
        seen.add(pair.output_index)


def _array(shape: Shape) -> Shape:
    """Return the array in a mutable buffer, or the shape itself: pinning keeps the storage."""
    return shape.tuple_shapes[0] if shape.is_buffer else shape


def _subshape(shape: Shape, index: ShapeIndex, what: str) -> Shape:
    try:
        return shape.at(index)
    except IndexError:
        raise ShapeError(f"output_to_operand_aliasing: {what} has no index {list(index)}") from None
