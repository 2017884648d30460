"""Shape inference: the result shape that operands, attributes and callees determine."""

from __future__ import annotations

from collections.abc import Sequence

from lowtide.ir.attributes import Attributes, Dimensions
from lowtide.ir.errors import CannotInferError, ShapeError
from lowtide.ir.opcode import Opcode
from lowtide.ir.shape import ProgramShape, Shape
from lowtide.ops.checks import array, dimensions_of, make_array
from lowtide.ops.definition import OpDefinition, arity_text
from lowtide.ops.table import TABLE


def infer_shape(
    opcode: Opcode,
    operands: Sequence[Shape],
    attributes: Attributes,
    called: Sequence[ProgramShape] = (),
) -> Shape:
    """Return the result shape of an operation, with the layouts that XLA would give it.

    Raises ShapeError where operands, attributes and called computations do not fit together, and
    CannotInferError where the result shape is a free choice, e.g. of a convert.
    """
    definition = TABLE[opcode]
    if definition.infer is None:
        raise CannotInferError(f"the result shape of {opcode.value} must be declared")
    check_counts(definition, len(operands), len(called))
    return definition.infer(operands, attributes, called)


def infer_omitted_shape(
    opcode: Opcode,
    operands: Sequence[Shape],
    attributes: Attributes,
    called: Sequence[ProgramShape] = (),
) -> Shape:
    """Return the shape of an instruction whose text states none, as XLA's parser does.

    As `infer_shape`, but raises CannotInferError for further operations, e.g. slice, whose shape
    HLO text must state although it could be inferred.
    """
    if TABLE[opcode].declared:
        raise CannotInferError(f"the text of {opcode.value} must state the result shape")
    check_counts(TABLE[opcode], len(operands), len(called))
    if opcode is Opcode.BROADCAST and isinstance(attributes, Dimensions):
        # XLA reads `dimensions` as the sizes of new major dimensions here.
        operand = array(operands[0], "the operand")
        sizes = [(size, False) for size in attributes.dimensions]
        return make_array(operand.element_type, [*sizes, *dimensions_of(operand)])
    if opcode is Opcode.SCALED_DOT:
        # XLA takes the scale of lhs for rhs here.
        operands = (operands[0], operands[2])
        opcode = Opcode.DOT
    if opcode is Opcode.REDUCE_WINDOW:
        # XLA looks at one input and one initial value here.
        operands = operands[:2]
    return infer_shape(opcode, operands, attributes, called)


def check_counts(definition: OpDefinition, operands: int, called: int) -> None:
    """Check the numbers of operands and of called computations; raises ShapeError."""
    if not definition.operand_count_fits(operands):
        expected = arity_text(definition.arity)
        raise ShapeError(f"{definition.opcode.value} takes {expected} operands, not {operands}")
    if not definition.call_count_fits(called):
        expected = arity_text(definition.calls_arity or (len(definition.calls),) * 2)
        raise ShapeError(f"{definition.opcode.value} calls {expected} computations, not {called}")
