"""The table of handlers: one function per opcode, gathered from the files of the families.

Each family file exports `HANDLERS`, a dictionary from opcodes to handlers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from lowtide.evaluator.values import Value
from lowtide.ir.opcode import Opcode

if TYPE_CHECKING:
    from lowtide.evaluator.interpreter import Interpreter
    from lowtide.ir.instruction import Instruction

Handler: TypeAlias = Callable[["Interpreter", "Instruction", Sequence[Value]], Value]
"""Computes the value of an instruction from the values of its operands."""

FAMILIES: Final = (
    "batch_norm",
    "collective",
    "contraction",
    "control_flow",
    "convolution",
    "custom_call",
    "data_movement",
    "elementwise",
    "indexing",
    "linear_algebra",
    "random",
    "reduction",
    "scan",
    "sorting",
    "structure",
    "windows",
)
"""The modules of `lowtide.evaluator` that export `HANDLERS`."""


@cache
def handlers() -> dict[Opcode, Handler]:
    """Return the handler of each opcode; raises ValueError where two families claim one."""
    table: dict[Opcode, Handler] = {}
    for family in FAMILIES:
        found: dict[Opcode, Handler] = import_module(f"lowtide.evaluator.{family}").HANDLERS
        repeated = table.keys() & found.keys()
        if repeated:
            names = ", ".join(sorted([opcode.value for opcode in repeated]))
            raise ValueError(f"{family}: {names} already has a handler")
        table.update(found)
    table.update({opcode: _row_major(table[opcode]) for opcode in STRIDED})
    return table


STRIDED: Final = (
    *(Opcode.BATCH_NORM_GRAD, Opcode.BATCH_NORM_TRAINING, Opcode.CHOLESKY, Opcode.CONVOLUTION),
    *(Opcode.CUSTOM_CALL, Opcode.DOT, Opcode.RAGGED_DOT, Opcode.REDUCE, Opcode.REDUCE_WINDOW),
    *(Opcode.SCALED_DOT, Opcode.TRIANGULAR_SOLVE),
    *(Opcode.ATAN2, Opcode.CBRT, Opcode.COSINE, Opcode.ERF, Opcode.EXPONENTIAL),
    *(Opcode.EXPONENTIAL_MINUS_ONE, Opcode.LOG, Opcode.LOG_PLUS_ONE, Opcode.LOGISTIC),
    *(Opcode.POWER, Opcode.RSQRT, Opcode.SINE, Opcode.TAN, Opcode.TANH),
)
"""Operations in which NumPy rounds as the strides of the operands make it: it adds up in their
order, and has one loop for arrays without gaps and another one for the rest. Their operands are
made row major, so that a value has the same bits wherever it comes from."""


def _row_major(handler: Handler) -> Handler:
    def run(interpreter: Interpreter, instruction: Instruction, operands: Sequence[Value]) -> Value:
        return handler(interpreter, instruction, [_contiguous(x) for x in operands])

    return run


def _contiguous(value: Value) -> Value:
    return np.asarray(value, order="C") if isinstance(value, np.ndarray) else value
