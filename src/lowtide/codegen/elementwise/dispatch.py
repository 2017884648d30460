"""From an opcode and the type of its operands to the function that writes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from lowtide.codegen.elementwise import (
    comparison,
    conversion,
    exponential,
    floats,
    hyperbolic,
    integers,
    logarithm,
    power,
    roots,
    trigonometric,
)
from lowtide.codegen.elementwise.complex_functions import AS_THEY_ARE, IN_DOUBLE
from lowtide.codegen.elementwise.complex_number import Complex
from lowtide.codegen.elementwise.exponential import erf
from lowtide.codegen.elementwise.formats import CLOSED, arithmetic_to_bfloat
from lowtide.codegen.elementwise.number import Number
from lowtide.codegen.elementwise.operation import Operation, widest
from lowtide.codegen.value import Value
from lowtide.ir.element_type import ElementType
from lowtide.ir.opcode import Opcode

FLOATS: Final[Mapping[Opcode, Callable[..., Number]]] = {
    **floats.FUNCTIONS,
    **exponential.FUNCTIONS,
    **logarithm.FUNCTIONS,
    **hyperbolic.FUNCTIONS,
    **power.FUNCTIONS,
    **roots.FUNCTIONS,
    **trigonometric.FUNCTIONS,
    Opcode.ERF: erf,
}
"""The functions of real floating point numbers."""


def _copy(operation: Operation) -> Value:
    return operation.operands[0]


def _complex(operation: Operation) -> Value:
    return operation.result(operation.number(0), operation.number(1))


def _map(operation: Operation) -> Value:
    raise operation.unsupported("its computation is written instruction by instruction")


def _is_finite(operation: Operation) -> Value:
    if not operation.operand_type.is_floating:
        raise operation.unsupported("only real floating point numbers can be infinite")
    return operation.result(floats.is_finite(operation.number(0)))


OF_ANY_TYPE: Final[Mapping[Opcode, Callable[[Operation], Value]]] = {
    Opcode.BITCAST_CONVERT: conversion.bitcast_convert,
    Opcode.CLAMP: comparison.clamp,
    Opcode.COMPARE: comparison.compare,
    Opcode.COMPLEX: _complex,
    Opcode.CONVERT: conversion.convert,
    Opcode.COPY: _copy,
    Opcode.IS_FINITE: _is_finite,
    Opcode.MAP: _map,
    Opcode.REDUCE_PRECISION: conversion.reduce_precision,
    Opcode.SELECT: comparison.select,
    Opcode.STOCHASTIC_CONVERT: conversion.stochastic_convert,
}
"""Operations whose functions look at the types themselves."""


def write(operation: Operation) -> Value:
    """Return the result of an operation; raises UnsupportedOpError where it has no meaning."""
    general = OF_ANY_TYPE.get(operation.opcode)
    if general is not None:
        return general(operation)
    type_ = operation.operand_type
    if type_ is ElementType.PRED:
        return _of_predicates(operation)
    if type_.is_integer:
        return _of_integers(operation)
    if type_.is_floating:
        return _of_floats(operation)
    return _of_complex(operation)


def _of_predicates(operation: Operation) -> Value:
    function = integers.PREDICATES.get(operation.opcode)
    if function is None:
        raise operation.unsupported("it has no meaning for truth values; convert them first")
    return operation.result(function(*_single(operation)))


def _of_integers(operation: Operation) -> Value:
    function = integers.FUNCTIONS.get(operation.opcode)
    if function is None:
        raise operation.unsupported("it has no meaning for integers; convert them first")
    return operation.rounded(function(operation.operand_type, *_single(operation)))


def _of_floats(operation: Operation) -> Value:
    function = FLOATS.get(operation.opcode)
    if function is None:
        raise operation.unsupported("it has no meaning for floating point numbers")
    found = function(*widest(_single(operation)))
    is_one_type = all(x.type is operation.type for x in operation.operands)
    if operation.opcode in floats.EXACT and operation.type in CLOSED and is_one_type:
        return operation.result(found)
    if operation.opcode in floats.ARITHMETIC and operation.type is ElementType.BF16 and is_one_type:
        return operation.result(arithmetic_to_bfloat(found))
    return operation.rounded(found)


def _of_complex(operation: Operation) -> Value:
    operands = [Complex(*operation.numbers(i)) for i in range(len(operation.operands))]
    function = AS_THEY_ARE.get(operation.opcode)
    if function is not None:
        return _parts(operation, function(*operands))
    function = IN_DOUBLE.get(operation.opcode)
    if function is None:
        raise operation.unsupported("it has no meaning for complex numbers")
    wide = [Complex(x.real.extended(), x.imag.extended()) for x in operands]
    return _parts(operation, function(*wide))


def _parts(operation: Operation, found: Complex | Number) -> Value:
    """A real or complex result in the type of the operation's parts."""
    parts = (found.real, found.imag) if isinstance(found, Complex) else (found,)
    if operation.type in (ElementType.C128, ElementType.F64):
        return operation.result(*[x.extended() for x in parts])
    return operation.result(*[x.shortened() for x in parts])


def _single(operation: Operation) -> tuple[Number, ...]:
    return tuple([operation.number(i) for i in range(len(operation.operands))])
