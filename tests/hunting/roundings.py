"""Operations whose results are rounded, unlike those that are determined to the last bit."""

from __future__ import annotations

from typing import Final

from lowtide.ir import Instruction, Module, Opcode
from lowtide.ir.element_type import ElementType

_ROUNDED: Final = frozenset(
    {
        *(Opcode.ACOS, Opcode.ACOSH, Opcode.ASIN, Opcode.ASINH, Opcode.ATAN2, Opcode.ATANH),
        *(Opcode.BATCH_NORM_GRAD, Opcode.BATCH_NORM_INFERENCE, Opcode.BATCH_NORM_TRAINING),
        *(Opcode.CBRT, Opcode.CHOLESKY, Opcode.CONVOLUTION, Opcode.COSH, Opcode.COSINE),
        *(Opcode.DIVIDE, Opcode.DOT, Opcode.ERF, Opcode.EXPONENTIAL),
        *(Opcode.EXPONENTIAL_MINUS_ONE, Opcode.FFT, Opcode.LOG, Opcode.LOG_PLUS_ONE),
        *(Opcode.RAGGED_DOT, Opcode.SCALED_DOT),
        *(Opcode.LOGISTIC, Opcode.POWER, Opcode.REMAINDER, Opcode.RSQRT, Opcode.SINE),
        *(Opcode.SINH, Opcode.SQRT, Opcode.TAN, Opcode.TANH, Opcode.TRIANGULAR_SOLVE),
    }
)
REDUCING: Final = frozenset(
    {
        Opcode.REDUCE,
        Opcode.REDUCE_WINDOW,
        Opcode.SCAN,
        Opcode.SCATTER,
        Opcode.SELECT_AND_SCATTER,
        Opcode.ALL_REDUCE,
    }
)
_ORDERED: Final = frozenset({Opcode.ADD, Opcode.MULTIPLY, Opcode.SUBTRACT})


def rounded_types(module: Module) -> set[ElementType]:
    """Return the element types of floating-point results that may be rounded otherwise."""
    return {
        leaf.element_type
        for computation in module.computations.values()
        for x in computation.instructions.values()
        if rounds(x)
        for _, leaf in x.shape.leaves()
        if leaf.is_array and not leaf.element_type.is_integer
    }


def rounds(x: Instruction) -> bool:
    """Return whether two right implementations of an operation may differ by a rounding."""
    if x.opcode in _ROUNDED:
        return _has_floats(x)
    if x.opcode in REDUCING:
        steps = [y for c in x.called_computations for y in c.instructions.values()]
        return any(y.opcode in _ORDERED and _has_floats(y) for y in steps)
    if x.opcode is Opcode.ABS or x.opcode is Opcode.MULTIPLY:
        return x.operands[0].shape.element_type.is_complex
    return False


def _has_floats(x: Instruction) -> bool:
    leaves = [leaf for y in (x, *x.operands) for _, leaf in y.shape.leaves()]
    types = [leaf.element_type for leaf in leaves if leaf.is_array]
    return any(t.is_floating or t.is_complex for t in types)
