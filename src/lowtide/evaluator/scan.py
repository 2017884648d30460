"""Scan: a computation stepped along one dimension of its inputs, with carries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from lowtide.evaluator.values import Value, Values, as_array
from lowtide.ir.attributes import Scan
from lowtide.ir.literal import DTYPES
from lowtide.ir.opcode import Opcode

if TYPE_CHECKING:
    from lowtide.evaluator.interpreter import Interpreter
    from lowtide.evaluator.registry import Handler
    from lowtide.ir.instruction import Instruction


def scan(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    """Return the outputs of all steps, stacked along the dimension, then the last carries.

    The computation takes a slice of each input, without the dimension, and the carries; it returns
    a slice of each output and the next carries. A reverse scan steps from the last slice to the
    first. An associative one is stepped in order too.
    """
    attributes = instruction.attributes_as(Scan)
    count = len(operands) - attributes.num_carries
    axis = attributes.dimension
    inputs = [np.moveaxis(as_array(x), axis, 0) for x in operands[:count]]
    carries = tuple(operands[count:])
    shapes = instruction.shape.tuple_shapes if instruction.shape.is_tuple else (instruction.shape,)
    outputs = [
        np.zeros(shape.dimensions, DTYPES[shape.element_type])
        for shape in shapes[: len(shapes) - attributes.num_carries]
    ]
    stacks = [np.moveaxis(x, axis, 0) for x in outputs]
    steps = range((inputs + stacks)[0].shape[0] if inputs or stacks else 0)
    body = instruction.called_computations[0]
    for i in reversed(steps) if attributes.is_reverse else steps:
        result = interpreter.run(body, [*[x[i, ...] for x in inputs], *carries])
        parts = result if isinstance(result, tuple) else (result,)
        for stack, part in zip(stacks, parts[: len(stacks)], strict=True):
            stack[i] = as_array(part)
        carries = parts[len(stacks) :]
    results = (*outputs, *carries)
    return results if instruction.shape.is_tuple else results[0]


HANDLERS: Final[dict[Opcode, Handler]] = {Opcode.SCAN: scan}
