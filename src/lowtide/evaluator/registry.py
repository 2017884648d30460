"""The table of handlers: one function per opcode, gathered from the files of the families.

Each family file exports `HANDLERS`, a dictionary from opcodes to handlers. Who asks for single
handlers loads no family but those that are looked through for them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Final, TypeAlias

from lowtide.evaluator.placement import placing, placing_apart, placing_complex
from lowtide.evaluator.values import Value, Values
from lowtide.ir.opcode import Opcode

if TYPE_CHECKING:
    from lowtide.evaluator.interpreter import Interpreter
    from lowtide.ir.instruction import Instruction

Handler: TypeAlias = Callable[["Interpreter", "Instruction", Values], Value]
"""Computes the value of an instruction from the values of its operands."""

FAMILIES: Final = (
    "elementwise",
    "data_movement",
    "structure",
    "reduction",
    "indexing",
    "contraction",
    "control_flow",
    "windows",
    "sorting",
    "convolution",
    "scan",
    "batch_norm",
    "random",
    "collective",
    "linear_algebra",
    "custom_call",
)
"""The modules of `lowtide.evaluator` that export `HANDLERS`, in the order in which they are looked
through: those first whose operations are computed with constants most often."""

COMPUTING: Final = (
    "batch_norm", "contraction", "convolution", "data_movement", "elementwise", "indexing",
    "linear_algebra", "reduction", "sorting", "windows",
)  # fmt: skip
"""Those whose handlers make values of values and do nothing else."""


@cache
def handler_of(opcode: Opcode) -> Handler | None:
    """Return the handler of an opcode, None where there is none."""
    family = _family_of(opcode)
    return None if family is None else _placed(opcode, _family(family)[opcode])


def is_computing(opcode: Opcode) -> bool:
    """Return whether nothing but the value of the result remains of an operation."""
    return _family_of(opcode) in COMPUTING


def _family_of(opcode: Opcode) -> str | None:
    """The family that has a handler of an opcode, if there is one."""
    return next((x for x in FAMILIES if opcode in _family(x)), None)


def _family(name: str) -> dict[Opcode, Handler]:
    found: dict[Opcode, Handler] = import_module(f"lowtide.evaluator.{name}").HANDLERS
    return found


def _placed(opcode: Opcode, handler: Handler) -> Handler:
    """A handler as it is where results lie in memory, by how its operation rounds."""
    if opcode in ROUNDED:
        return placing(handler)
    if opcode in MULTIPLIED:
        return placing_apart(handler)
    return placing_complex(handler) if opcode in ROUNDED_IF_COMPLEX else handler


@cache
def handlers() -> dict[Opcode, Handler]:
    """Return the handler of each opcode; raises ValueError where two families claim one."""
    table: dict[Opcode, Handler] = {}
    for family in FAMILIES:
        found = _family(family)
        repeated = table.keys() & found.keys()
        if repeated:
            names = ", ".join(sorted([opcode.value for opcode in repeated]))
            raise ValueError(f"{family}: {names} already has a handler")
        table.update({opcode: _placed(opcode, handler) for opcode, handler in found.items()})
    return table


ROUNDED: Final = (
    *(Opcode.ALL_REDUCE, Opcode.ALL_REDUCE_START, Opcode.BATCH_NORM_GRAD),
    *(Opcode.BATCH_NORM_INFERENCE, Opcode.BATCH_NORM_TRAINING, Opcode.CHOLESKY),
    *(Opcode.CUSTOM_CALL, Opcode.FFT, Opcode.MAP, Opcode.REDUCE, Opcode.REDUCE_SCATTER),
    *(Opcode.REDUCE_WINDOW, Opcode.SCAN, Opcode.SCATTER, Opcode.SELECT_AND_SCATTER, Opcode.SORT),
    *(Opcode.ACOS, Opcode.ACOSH, Opcode.ASIN, Opcode.ASINH, Opcode.ATAN2, Opcode.ATANH),
    *(Opcode.CBRT, Opcode.COSH, Opcode.COSINE, Opcode.ERF, Opcode.EXPONENTIAL),
    *(Opcode.EXPONENTIAL_MINUS_ONE, Opcode.LOG, Opcode.LOG_PLUS_ONE, Opcode.LOGISTIC),
    *(Opcode.POWER, Opcode.RSQRT, Opcode.SINE, Opcode.SINH, Opcode.TAN, Opcode.TANH),
)
"""Operations that round in more than one way, or run computations that do."""

MULTIPLIED: Final = (
    *(Opcode.CONVOLUTION, Opcode.DOT, Opcode.RAGGED_DOT, Opcode.SCALED_DOT),
    Opcode.TRIANGULAR_SOLVE,
)
"""Operations whose operands BLAS multiplies with one another."""

ROUNDED_IF_COMPLEX: Final = (Opcode.ABS, Opcode.DIVIDE, Opcode.MULTIPLY, Opcode.SIGN, Opcode.SQRT)
"""Operations that are exact but for their one rounding, unless the numbers are complex."""
