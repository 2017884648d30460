"""Values that are exactly conversions of a narrower type, also after operations that keep that."""

from __future__ import annotations

from typing import Final

from lowtide.builder import Builder
from lowtide.builder.values import Op
from lowtide.ir import ElementType, Instruction, Opcode, array_shape
from lowtide.ir.attributes import ReducePrecision
from lowtide.passes.matching import is_plain

_F: Final = (ElementType.F32, ElementType.F64)
_HOLDS: Final[dict[ElementType, tuple[ElementType, ...]]] = {
    ElementType.PRED: (
        *(ElementType.S8, ElementType.U8, ElementType.S16, ElementType.U16, ElementType.S32),
        *(ElementType.U32, ElementType.S64, ElementType.U64, ElementType.F16, ElementType.BF16),
        *_F,
    ),
    ElementType.S8: (ElementType.S16, ElementType.S32, ElementType.S64, ElementType.F16, *_F),
    ElementType.U8: (
        *(ElementType.S16, ElementType.U16, ElementType.S32, ElementType.U32, ElementType.S64),
        *(ElementType.U64, ElementType.F16, *_F),
    ),
    ElementType.S16: (ElementType.S32, ElementType.S64, *_F),
    ElementType.U16: (ElementType.S32, ElementType.U32, ElementType.S64, ElementType.U64, *_F),
    ElementType.S32: (ElementType.S64, ElementType.F64),
    ElementType.U32: (ElementType.S64, ElementType.U64, ElementType.F64),
    ElementType.F16: _F,
    ElementType.BF16: _F,
    ElementType.F32: (ElementType.F64,),
}
"""By type the wider types that hold all of its values; NaN stays NaN."""

_ROUNDED: Final = {(8, 7): ElementType.BF16}
"""By exponent and mantissa bits the type in which rounded values are exact."""

_MOVES: Final = frozenset(
    {Opcode.COPY, Opcode.RESHAPE, Opcode.REVERSE, Opcode.SLICE, Opcode.TRANSPOSE}
)
"""Operations of one operand that only move its elements."""


def has_narrow_form(x: Instruction) -> bool:
    """Whether an array is exactly a conversion of what a narrower type holds, perhaps moved."""
    source = _moves(x)[-1]
    if not is_plain(x.shape) or not all(is_plain(y.shape) for y in source.operands[:1]):
        return False
    if source.opcode is Opcode.CONVERT:
        held = _HOLDS.get(source.operands[0].shape.element_type, ())
        return source.shape.element_type in held
    return _rounds_to(source) is not None


def narrow_form(build: Builder, x: Instruction) -> Op:
    """Return an array with such a form in the narrower type; a conversion gives all of its bits."""
    *moves, source = _moves(x)
    if source.opcode is Opcode.CONVERT:
        value = build.value(source.operands[0])
    else:
        kind = _rounds_to(source)
        assert kind is not None
        value = build.convert(build.value(source.operands[0]), kind)
    for move in reversed(moves):
        shape = array_shape(value.element_type, move.shape.dimensions)
        value = build.emit(move.opcode, [value], move.attributes, shape=shape)
    return value


def _moves(x: Instruction) -> list[Instruction]:
    """The operations that move elements, last first, then the one that made these."""
    found = [x]
    while found[-1].opcode in _MOVES and is_plain(found[-1].shape):
        found.append(found[-1].operands[0])
    return found


def _rounds_to(x: Instruction) -> ElementType | None:
    if x.opcode is not Opcode.REDUCE_PRECISION or x.shape.element_type is not ElementType.F32:
        return None
    attributes = x.attributes_as(ReducePrecision)
    return _ROUNDED.get((attributes.exponent_bits, attributes.mantissa_bits))
