"""Elements as unsigned integers in the same order."""

from __future__ import annotations

from lowtide.codegen.elementwise.formats import with_sign_of_nan
from lowtide.codegen.elementwise.number import Number
from lowtide.codegen.value import Value, register_type
from lowtide.ir import ElementType
from lowtide.llvm.function import Function
from lowtide.llvm.target import Target


def ordered(
    fn: Function, target: Target, value: Value, *, total_order: bool, descending: bool
) -> Number:
    """Return unsigned integers in the order of real elements, or in the opposite one.

    NaN lies before or behind all numbers, by its sign. -0 equals +0 unless `total_order` is set.
    Integers have the width of elements in registers, floating point numbers 32 or 64 bits.
    """
    type_ = value.type
    x = Number(fn, target, register_type(type_), value.lanes, value.name)
    if type_ is ElementType.PRED:
        x = x.cast("zext", "i8")
    elif type_.is_floating:
        x = _of_float(with_sign_of_nan(type_, x), total_order=total_order)
    elif type_.is_signed:
        x = x ^ (1 << x.width - 1)
    return ~x if descending else x


def _of_float(x: Number, *, total_order: bool) -> Number:
    """Negative numbers with all bits flipped, others with the sign flipped."""
    if not total_order:
        x = x.where(x.equals(0.0), 0.0)
    bits = x.bits()
    sign = bits.ashr(bits.width - 1)
    return bits ^ (sign | (1 << bits.width - 1))


def joined(numbers: list[Number]) -> Number:
    """Return integers as one of 64 bits, the first in the highest bits that they take."""
    total = numbers[0].cast("zext", "i64")
    for x in numbers[1:]:
        total = (total << x.width) | x.cast("zext", "i64")
    return total
