"""Stand-ins for tensors between op kernels: constants, and values of operations."""

from __future__ import annotations

from typing import Any, Final, final

import numpy as np

from lowtide.builder import Builder, Op
from lowtide.evaluator.interpreter import Interpreter
from lowtide.evaluator.registry import handlers
from lowtide.evaluator.values import from_literal
from lowtide.ir import Instruction, Opcode, Shape, array_shape
from lowtide.ir.attributes import Constant
from lowtide.ir.errors import UnsupportedOpError
from lowtide.ir.literal import ELEMENT_TYPES, Array
from lowtide.ops.table import TABLE


class Expression:
    """A constant array, which becomes an operation where one is asked for, or an operation."""

    __slots__ = ("_array", "_op")

    def __init__(self, value: Op | Array) -> None:
        self._op = value if isinstance(value, Op) else None
        self._array = None if isinstance(value, Op) else value

    @property
    def array(self) -> Array | None:
        """The value of a constant; None for an operation."""
        return self._array

    @property
    def shape(self) -> Shape:
        """The shape."""
        if self._array is not None:
            return array_shape(ELEMENT_TYPES[self._array.dtype], self._array.shape)
        assert self._op is not None
        return self._op.shape

    def op(self, builder: Builder) -> Op:
        """Return the value as an operand in `builder`; a constant is added there, once.

        Raises ValueError for an operation of another builder.
        """
        if self._op is not None and self._op.builder is builder:
            return self._op
        if self._array is None:
            raise ValueError(f"{self._op} belongs to another computation")
        self._op = builder.constant(self._array)
        return self._op


_MOVES: Final = frozenset(
    {
        Opcode.BITCAST_CONVERT,
        Opcode.BROADCAST,
        Opcode.CONCATENATE,
        Opcode.COPY,
        Opcode.DOT,
        Opcode.DYNAMIC_SLICE,
        Opcode.GATHER,
        Opcode.GET_TUPLE_ELEMENT,
        Opcode.IOTA,
        Opcode.PAD,
        Opcode.REDUCE,
        Opcode.RESHAPE,
        Opcode.REVERSE,
        Opcode.SLICE,
        Opcode.SORT,
        Opcode.TRANSPOSE,
        Opcode.TUPLE,
    }
)
_FOLDABLE: Final = _MOVES | {opcode for opcode, row in TABLE.items() if row.elementwise}


@final
class ConstantValues:
    """Values of operations that depend on constants only, computed by the evaluator on demand."""

    def __init__(self) -> None:
        self._known: dict[Instruction, Any] = {}

    def of(self, op: Op) -> Array | None:
        """Return the value of an operation; None where it depends on an argument.

        Each instruction is looked at once, however often values are asked for.
        """
        known = self._known
        stack = [op.instruction]
        while stack:
            top = stack[-1]
            if top in known:
                stack.pop()
            elif (top.opcode is not Opcode.CONSTANT and top.opcode not in _FOLDABLE) or any(
                x in known and known[x] is None for x in top.operands
            ):
                known[top] = None
            else:
                waiting = [x for x in top.operands if x not in known]
                stack += waiting[:1]
                if not waiting:
                    known[top] = _value(top, known)
        value = known[op.instruction]
        return value if isinstance(value, np.ndarray) else None


def _value(instruction: Instruction, known: dict[Instruction, Any]) -> Any:
    if instruction.opcode is Opcode.CONSTANT:
        return from_literal(instruction.attributes_as(Constant).literal)
    operands = [known[x] for x in instruction.operands]
    try:
        with np.errstate(all="ignore"):
            handler = handlers()[instruction.opcode]
            value = handler(Interpreter(instruction.parent.module), instruction, operands)
    except UnsupportedOpError:
        return None
    return value if isinstance(value, tuple) else np.asarray(value)
