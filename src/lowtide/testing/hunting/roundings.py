"""Results of a module that are determined to the last bit, unlike those that are rounded."""

from __future__ import annotations

from typing import Final

from lowtide.ir import Computation, Instruction, Module, Opcode
from lowtide.ir.element_type import ElementType
from lowtide.ir.traversal import computation_post_order, post_order

_ROUNDED: Final = frozenset(
    {
        *(Opcode.ACOS, Opcode.ACOSH, Opcode.ASIN, Opcode.ASINH, Opcode.ATAN2, Opcode.ATANH),
        *(Opcode.BATCH_NORM_GRAD, Opcode.BATCH_NORM_INFERENCE, Opcode.BATCH_NORM_TRAINING),
        *(Opcode.CBRT, Opcode.CHOLESKY, Opcode.CONVOLUTION, Opcode.COSH, Opcode.COSINE),
        *(Opcode.DIVIDE, Opcode.DOT, Opcode.ERF, Opcode.EXPONENTIAL),
        *(Opcode.EXPONENTIAL_MINUS_ONE, Opcode.FFT, Opcode.LOG, Opcode.LOG_PLUS_ONE),
        *(Opcode.LOGISTIC, Opcode.POWER, Opcode.REMAINDER, Opcode.RSQRT, Opcode.SINE),
        *(Opcode.SINH, Opcode.SQRT, Opcode.TAN, Opcode.TANH, Opcode.TRIANGULAR_SOLVE),
    }
)
_REDUCING: Final = frozenset(
    {
        Opcode.REDUCE,
        Opcode.REDUCE_WINDOW,
        Opcode.SCATTER,
        Opcode.SELECT_AND_SCATTER,
        Opcode.ALL_REDUCE,
    }
)
_ORDERED: Final = frozenset({Opcode.ADD, Opcode.MULTIPLY, Opcode.SUBTRACT})


def exact_outputs(module: Module) -> list[bool]:
    """Return for each operand of a tuple at the root, or for the root, whether it is exact."""
    rounding: set[Computation] = set()
    inexact: dict[Computation, set[Instruction]] = {}
    for computation in computation_post_order(module):
        found: set[Instruction] = set()
        for x in post_order(computation):
            own = _rounds(x) or any(callee in rounding for callee in x.called_computations)
            if own or any(operand in found for operand in x.operands):
                found.add(x)
        inexact[computation] = found
        if found:
            rounding.add(computation)
    root, found = module.entry.root, inexact[module.entry]
    if root.opcode is not Opcode.TUPLE:
        return [root not in found]
    return [operand not in found for operand in root.operands]


def rounded_types(module: Module) -> set[ElementType]:
    """Return the element types of floating-point results that may be rounded otherwise."""
    return {
        leaf.element_type
        for computation in module.computations.values()
        for x in computation.instructions.values()
        if _rounds(x)
        for _, leaf in x.shape.leaves()
        if leaf.is_array and not leaf.element_type.is_integer
    }


def _rounds(x: Instruction) -> bool:
    if x.opcode in _ROUNDED:
        return _has_floats(x)
    if x.opcode in _REDUCING:
        steps = [y for c in x.called_computations for y in c.instructions.values()]
        return any(y.opcode in _ORDERED and _has_floats(y) for y in steps)
    if x.opcode is Opcode.ABS or x.opcode is Opcode.MULTIPLY:
        return x.operands[0].shape.element_type.is_complex
    return False


def _has_floats(x: Instruction) -> bool:
    leaves = [leaf for y in (x, *x.operands) for _, leaf in y.shape.leaves()]
    types = [leaf.element_type for leaf in leaves if leaf.is_array]
    return any(t.is_floating or t.is_complex for t in types)


def reads_bits(module: Module) -> bool:
    """Whether bits of floating-point numbers may show: the sign of a NaN is nobody's."""
    return any(
        x.opcode in (Opcode.BITCAST, Opcode.BITCAST_CONVERT)
        and not x.operands[0].shape.element_type.is_integer
        and x.shape.element_type is not x.operands[0].shape.element_type
        for computation in module.computations.values()
        for x in computation.instructions.values()
    )
