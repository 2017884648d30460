"""From an opcode and the type of its operands to the function that writes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final

from lowtide.codegen.elementwise import floats, integers
from lowtide.codegen.elementwise.formats import CLOSED, arithmetic_to_bfloat
from lowtide.codegen.elementwise.number import Number
from lowtide.codegen.elementwise.operation import Operation, widest
from lowtide.codegen.value import Value
from lowtide.ir.element_type import ElementType
from lowtide.ir.opcode import Opcode
from lowtide.records.late import late_function

HOMES: Final[Mapping[str, tuple[Opcode, ...]]] = {
    "comparison": (Opcode.CLAMP, Opcode.COMPARE, Opcode.SELECT),
    "conversion": (
        *(Opcode.BITCAST_CONVERT, Opcode.CONVERT),
        *(Opcode.REDUCE_PRECISION, Opcode.STOCHASTIC_CONVERT),
    ),
    "exponential": (
        *(Opcode.COSH, Opcode.ERF, Opcode.EXPONENTIAL, Opcode.EXPONENTIAL_MINUS_ONE),
        *(Opcode.LOGISTIC, Opcode.SINH, Opcode.TANH),
    ),
    "hyperbolic": (Opcode.ACOSH, Opcode.ASINH, Opcode.ATANH),
    "logarithm": (Opcode.LOG, Opcode.LOG_PLUS_ONE),
    "power": (Opcode.POWER, Opcode.REMAINDER),
    "roots": (Opcode.CBRT, Opcode.RSQRT),
    "trigonometric": (
        *(Opcode.ACOS, Opcode.ASIN, Opcode.ATAN2),
        *(Opcode.COSINE, Opcode.SINE, Opcode.TAN),
    ),
}
"""The files that are loaded with the first operation of one of their `FUNCTIONS`."""

_OF_ANY_TYPE: Final = ("comparison", "conversion")
"""Those of them whose functions take the operation and look at its types themselves."""


def _late(home: str) -> dict[Opcode, Callable[..., Any]]:
    """The functions of a file by opcode, which is loaded for the first call of one."""
    module = f"lowtide.codegen.elementwise.{home}"
    return {x: late_function(module, "FUNCTIONS", x) for x in HOMES[home]}


FLOATS: Final[Mapping[Opcode, Callable[..., Number]]] = {
    **floats.FUNCTIONS,
    **{x: f for home in HOMES if home not in _OF_ANY_TYPE for x, f in _late(home).items()},
}
"""The functions of real floating point numbers."""

LONG: Final = frozenset(
    {
        *(Opcode.ACOS, Opcode.ACOSH, Opcode.ASIN, Opcode.ASINH, Opcode.ATAN2, Opcode.ATANH),
        *(Opcode.CBRT, Opcode.COSH, Opcode.COSINE, Opcode.ERF, Opcode.LOG_PLUS_ONE),
        *(Opcode.POWER, Opcode.SINE, Opcode.SINH, Opcode.TAN),
    }
)
"""Functions of some 40 lines and more, of which short kernels call what they have many times."""

_WRITTEN_OR_CALLED: Final = late_function("lowtide.codegen.elementwise.repeated", "WRITERS", "one")


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
    **{x: f for home in _OF_ANY_TYPE for x, f in _late(home).items()},
    Opcode.COMPLEX: _complex,
    Opcode.COPY: _copy,
    Opcode.IS_FINITE: _is_finite,
    Opcode.MAP: _map,
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
    numbers = widest(_single(operation))
    if operation.is_short and operation.opcode in LONG:
        found = _WRITTEN_OR_CALLED(operation.opcode, function, numbers)
    else:
        found = function(*numbers)
    is_one_type = all(x.type is operation.type for x in operation.operands)
    if operation.opcode in floats.EXACT and operation.type in CLOSED and is_one_type:
        return operation.result(found)
    if operation.opcode in floats.ARITHMETIC and operation.type is ElementType.BF16 and is_one_type:
        return operation.result(arithmetic_to_bfloat(found))
    return operation.rounded(found)


def _of_complex(operation: Operation) -> Value:
    found: Value = import_module(_COMPLEX).write_complex(operation)
    return found


_COMPLEX: Final = "lowtide.codegen.elementwise.complex_functions"
"""The file of complex numbers, which is loaded with the first operation on them."""


def _single(operation: Operation) -> tuple[Number, ...]:
    return tuple([operation.number(i) for i in range(len(operation.operands))])
