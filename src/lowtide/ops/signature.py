"""Signatures: agreement of result shape, operand shapes, attributes and callees.

A check here depends on nothing else, so one answer serves all instructions that agree in these. The
verifier and the builder remember it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lowtide.ir.attributes import Attributes
from lowtide.ir.errors import ShapeError
from lowtide.ir.opcode import Opcode
from lowtide.ir.shape import UNBOUNDED, ProgramShape, Shape
from lowtide.ops.checks import agree, plain, same_sizes
from lowtide.ops.definition import OpDefinition
from lowtide.ops.infer import check_counts
from lowtide.ops.table import TABLE

LARGEST: Final = 2**63 - 1
"""The greatest number of bytes that an array may have."""


def check_signature(
    opcode: Opcode,
    result: Shape,
    operands: Sequence[Shape],
    attributes: Attributes,
    called: Sequence[ProgramShape],
) -> None:
    """Check one signature; raises ShapeError with what was expected and what was found.

    The floating point precision of a result may differ from the inferred one where the operation
    computes, and nowhere where it only passes data on. Layouts are free.
    """
    definition = TABLE[opcode]
    if type(attributes) is not definition.attributes:
        expected, found = definition.attributes.__name__, type(attributes).__name__
        raise ShapeError(f"the attributes must be {expected}, not {found}")
    check_counts(definition, len(operands), len(called))
    if definition.infer is not None:
        inferred = definition.infer(operands, attributes, called)
        if result is not inferred and not _matches(definition, result, inferred):
            raise ShapeError(f"the result must be {plain(inferred)}, but is {plain(result)}")
    definition.verify(result, operands, attributes, called)


def _matches(definition: OpDefinition, result: Shape, inferred: Shape) -> bool:
    if definition.free_element_type and result.is_array and inferred.is_array:
        return same_sizes(result, inferred)
    return agree(result, inferred, exact=definition.exact_type)


def check_shape(shape: Shape) -> None:
    """Check sizes, bytes and layouts of a shape and its elements; raises ShapeError."""
    for _, part in shape.subshapes():
        if part.is_buffer:
            part = part.tuple_shapes[0]
        if not part.element_type.is_array:
            continue
        _check_sizes(part)
        layout = part.layout
        if layout is not None and sorted(layout.minor_to_major) != list(range(part.rank)):
            raise ShapeError(f"the layout of {part} must be a permutation of 0..{part.rank - 1}")


def _check_sizes(shape: Shape) -> None:
    if any(size < 0 and size != UNBOUNDED for size in shape.dimensions):
        raise ShapeError(f"{plain(shape)} has a negative size")
    if shape.nbytes > LARGEST:
        raise ShapeError(f"{plain(shape)} has {shape.nbytes} bytes, more than 2^63 - 1")
