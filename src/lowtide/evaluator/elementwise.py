"""Elementwise operations: the tables of functions by opcode and kind of element.

Operands broadcast against one another, so that the same functions serve arrays and, in
`vectorized`, scalar computations evaluated at many positions at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from lowtide.evaluator import complex_functions, float_functions, integer_functions
from lowtide.evaluator.bits import bitcast_convert
from lowtide.evaluator.comparison import compare
from lowtide.evaluator.conversion import convert, reduce_precision, stochastic_convert
from lowtide.evaluator.numeric import element_type_of, narrow, widen
from lowtide.evaluator.values import Value, Values, as_array
from lowtide.ir.attributes import Compare, ReducePrecision
from lowtide.ir.element_type import ElementType
from lowtide.ir.errors import unsupported
from lowtide.ir.instruction import Instruction
from lowtide.ir.literal import Array
from lowtide.ir.opcode import Opcode

if TYPE_CHECKING:
    from lowtide.evaluator.interpreter import Interpreter
    from lowtide.evaluator.registry import Handler

Function: TypeAlias = Callable[..., Any]

PRED_FUNCTIONS: Final[Mapping[Opcode, Function]] = {
    Opcode.NOT: np.logical_not,
    Opcode.AND: np.logical_and,
    Opcode.OR: np.logical_or,
    Opcode.XOR: np.logical_xor,
    Opcode.ADD: np.logical_or,
    Opcode.SUBTRACT: np.logical_xor,
    Opcode.MULTIPLY: np.logical_and,
    Opcode.MAXIMUM: np.logical_or,
    Opcode.MINIMUM: np.logical_and,
    Opcode.ABS: np.positive,
}
"""Functions of truth values."""


def _by_kind() -> dict[ElementType, Mapping[Opcode, Function]]:
    table: dict[ElementType, Mapping[Opcode, Function]] = {ElementType.PRED: PRED_FUNCTIONS}
    for element_type in ElementType:
        if element_type.is_integer:
            table[element_type] = integer_functions.functions(element_type)
        elif element_type.is_floating:
            table[element_type] = float_functions.FUNCTIONS
        elif element_type.is_complex:
            table[element_type] = complex_functions.FUNCTIONS
    return table


FUNCTIONS: Final = _by_kind()
"""By element type of the first operand and opcode, the function in the computing dtype."""


def _arrays(instruction: Instruction, operands: Values) -> list[Array]:
    """Return the operands; where sizes are dynamic, the part that all of them have."""
    arrays = [as_array(x) for x in operands]
    if not instruction.shape.dynamic:
        return arrays
    rank = instruction.shape.rank
    sizes = [x.shape for x in arrays if x.ndim == rank]
    common = tuple([slice(min(lengths)) for lengths in zip(*sizes, strict=True)])
    return [x[common] if x.ndim == rank else x for x in arrays]


def arithmetic(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Array:
    """Return the result of a function of the tables, rounded once to the result type."""
    arrays = _arrays(instruction, operands)
    function = FUNCTIONS[element_type_of(arrays[0])].get(instruction.opcode)
    if function is None:
        kind = element_type_of(arrays[0]).value
        raise unsupported(instruction, f"it has no meaning for elements of type {kind}")
    result = function(*[widen(x) for x in arrays])
    return narrow(result, instruction.shape.element_type)


def compare_values(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Array:
    """Return where the comparison holds."""
    attributes = instruction.attributes_as(Compare)
    lhs, rhs = _arrays(instruction, operands)
    total = attributes.type == "TOTALORDER"
    return compare(attributes.direction, lhs, rhs, total_order=total)


def select(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    """Return elements of operand 1 where the predicate holds, else of operand 2."""
    if not instruction.shape.is_array:
        return operands[1] if as_array(operands[0]) else operands[2]
    predicate, on_true, on_false = _arrays(instruction, operands)
    return np.where(predicate, on_true, on_false)


def clamp(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Array:
    """Return operand 1 between the bounds operand 0 and operand 2; NaN stays."""
    low, value, high = [widen(x) for x in _arrays(instruction, operands)]
    bounded = np.minimum(np.maximum(value, low), high)
    return narrow(bounded, instruction.shape.element_type)


def _convert(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Array:
    return convert(as_array(operands[0]), instruction.shape.element_type)


def _bitcast_convert(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Array:
    return bitcast_convert(as_array(operands[0]), instruction.shape.element_type)


def _reduce_precision(
    interpreter: Interpreter, instruction: Instruction, operands: Values
) -> Array:
    attributes = instruction.attributes_as(ReducePrecision)
    exponent, mantissa = attributes.exponent_bits, attributes.mantissa_bits
    return reduce_precision(as_array(operands[0]), exponent, mantissa)


def _stochastic_convert(
    interpreter: Interpreter, instruction: Instruction, operands: Values
) -> Array:
    operand, random = [as_array(x) for x in operands]
    return stochastic_convert(operand, random, instruction.shape.element_type)


ARITHMETIC: Final = frozenset({*PRED_FUNCTIONS} | {op for t in FUNCTIONS.values() for op in t})
"""The opcodes which `arithmetic` serves."""

HANDLERS: Final[dict[Opcode, Handler]] = {
    **dict.fromkeys(sorted(ARITHMETIC), arithmetic),
    Opcode.COMPARE: compare_values,
    Opcode.SELECT: select,
    Opcode.CLAMP: clamp,
    Opcode.CONVERT: _convert,
    Opcode.BITCAST_CONVERT: _bitcast_convert,
    Opcode.REDUCE_PRECISION: _reduce_precision,
    Opcode.STOCHASTIC_CONVERT: _stochastic_convert,
}
