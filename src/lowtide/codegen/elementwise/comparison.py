"""Comparison, by value or in the total order; choice by a predicate; clamping."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from lowtide.codegen.elementwise.formats import FORMATS, encoded, with_sign_of_nan
from lowtide.codegen.elementwise.number import Number
from lowtide.codegen.elementwise.operation import Operation, is_float_register, widest
from lowtide.codegen.value import Value
from lowtide.ir.attributes import Compare
from lowtide.ir.element_type import ElementType
from lowtide.ir.opcode import Opcode

_FLOAT: Final = {"EQ": "oeq", "NE": "une", "GE": "oge", "GT": "ogt", "LE": "ole", "LT": "olt"}
_SIGNED: Final = {"EQ": "eq", "NE": "ne", "GE": "sge", "GT": "sgt", "LE": "sle", "LT": "slt"}
_UNSIGNED: Final = {"EQ": "eq", "NE": "ne", "GE": "uge", "GT": "ugt", "LE": "ule", "LT": "ult"}


def compare(operation: Operation) -> Value:
    """Return where the comparison holds; by value, NaN is unequal to and unordered with all."""
    attributes = operation.attributes
    if not isinstance(attributes, Compare):
        raise operation.unsupported("a comparison needs its direction")
    type_ = operation.operand_type
    if type_.is_complex:
        return operation.result(_compare_complex(operation, attributes.direction))
    a, b = operation.number(0), operation.number(1)
    if not type_.is_floating:
        table = _SIGNED if type_.is_signed else _UNSIGNED
        return operation.result(a.compare(table[attributes.direction], b))
    if attributes.type == "TOTALORDER":
        a, b = (total_order_key(type_, x) for x in (a, b))
        return operation.result(a.compare(_SIGNED[attributes.direction], b))
    a, b = widest((a, b))
    return operation.result(a.compare(_FLOAT[attributes.direction], b))


def _compare_complex(operation: Operation, direction: str) -> Number:
    (ar, ai), (br, bi) = operation.numbers(0), operation.numbers(1)
    if direction == "EQ":
        return ar.equals(br) & ai.equals(bi)
    if direction == "NE":
        return ar.differs(br) | ai.differs(bi)
    raise operation.unsupported("complex numbers compare by EQ and NE only")


def total_order_key(type_: ElementType, x: Number) -> Number:
    """Return signed integers that stand in the total order: -NaN < -inf < -0 < 0 < inf < NaN."""
    if type_ is ElementType.F8E8M0FNU:
        return encoded(type_, x).cast("zext", "i16")
    if type_ in FORMATS:
        x = with_sign_of_nan(type_, x).bits()  # Among codes a NaN may stand where others have -0.
    elif is_float_register(type_) and type_.bits < 32:
        x = encoded(type_, x).cast("bitcast", f"i{type_.bits}")
    else:
        x = x.bits()
    magnitude = (1 << (x.width - 1)) - 1
    return x ^ (x.ashr(x.width - 1) & magnitude)


def select(operation: Operation) -> Value:
    """Return elements of operand 1 where the predicate holds, else of operand 2."""
    predicate = operation.number(0)
    on_true, on_false = operation.numbers(1), operation.numbers(2)
    chosen = []
    for a, b in zip(on_true, on_false, strict=True):
        yes, no = widest((a, b)) if a.is_float else (a, b)
        chosen.append(predicate.select(yes, no))
    return operation.result(*chosen)


def clamp(operation: Operation) -> Value:
    """Return operand 1 between the bounds operand 0 and operand 2; NaN wins.

    Complex numbers are ordered by their real parts, equal ones by their imaginary parts.
    """
    type_ = operation.operand_type
    if type_.is_complex:
        bottom, middle, top = (operation.numbers(i) for i in range(3))
        return operation.result(*_chosen(_chosen(middle, bottom, "ogt"), top, "olt"))
    low, x, high = (operation.number(i) for i in range(3))
    if type_.is_floating:
        low, x, high = widest((low, x, high))
        up = ((x < low) | low.is_nan()).select(low, x).where(x.is_nan(), x)
        down = ((up > high) | high.is_nan()).select(high, up).where(up.is_nan(), up)
        return operation.rounded(down)
    kind = "s" if type_.is_signed else "u"
    return operation.result(x.intrinsic(f"{kind}max", low).intrinsic(f"{kind}min", high))


def _chosen(kept: Sequence[Number], other: Sequence[Number], beyond: str) -> list[Number]:
    """Return a complex number, or the other one where that is beyond it or alone has a NaN."""
    (kr, ki), (tr, ti) = kept, other
    is_beyond = tr.compare(beyond, kr) | (tr.equals(kr) & ti.compare(beyond, ki))
    takes = (is_beyond | tr.is_nan() | ti.is_nan()) & ~(kr.is_nan() | ki.is_nan())
    return [takes.select(t, k) for k, t in zip(kept, other, strict=True)]


FUNCTIONS: Final[Mapping[Opcode, Callable[[Operation], Value]]] = {
    Opcode.CLAMP: clamp,
    Opcode.COMPARE: compare,
    Opcode.SELECT: select,
}
