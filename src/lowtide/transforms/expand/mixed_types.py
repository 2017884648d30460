"""Element-wise operations of several floating point types as such of one type, and conversions."""

from __future__ import annotations

from typing import Final

from lowtide.ir import ElementType, Instruction, Opcode
from lowtide.ops.table import TABLE
from lowtide.passes.rewriting import Rewriter
from lowtide.transforms.expand.support import expander, narrowed
from lowtide.transforms.simplify.support import Made

_CHANGING: Final = frozenset(
    {
        *(Opcode.BITCAST_CONVERT, Opcode.COMPARE, Opcode.COMPLEX, Opcode.CONVERT, Opcode.IMAG),
        *(Opcode.IS_FINITE, Opcode.MAP, Opcode.REAL, Opcode.SELECT, Opcode.STOCHASTIC_CONVERT),
    }
)
"""Element-wise operations whose result need not be of the type of their operands."""

_UNIFORM: Final = tuple([x for x in Opcode if TABLE[x].elementwise and x not in _CHANGING])


@expander(*_UNIFORM)
def write_conversions(x: Instruction, at: Rewriter) -> Made:
    """f(x, y) => convert(f(convert(x), convert(y))), where the types are not one."""
    types = list(dict.fromkeys([y.shape.element_type for y in (x, *x.operands)]))
    if len(types) < 2 or not all(y.is_floating for y in types):
        return None
    widest = max([y.bits for y in types])
    wide = [y for y in types if y.bits == widest]
    chosen = wide[0] if len(wide) == 1 else ElementType.F32
    operands = [narrowed(at(y), chosen) for y in x.operands]
    return narrowed(at.build.emit(x.opcode, operands, x.attributes), x.shape.element_type)


@expander(Opcode.REAL, Opcode.IMAG, Opcode.ABS)
def write_parts(x: Instruction, at: Rewriter) -> Made:
    """real(z) => convert(real(z)), where the result is of another type than parts of z are."""
    type_ = x.operands[0].shape.element_type
    if not type_.is_complex or x.shape.element_type is type_.part:
        return None
    made = at.build.emit(x.opcode, [at(x.operands[0])], x.attributes)
    return narrowed(made, x.shape.element_type)


RULES: Final = (write_conversions, write_parts)
