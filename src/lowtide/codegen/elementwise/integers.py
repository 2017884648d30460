"""Functions of integers, which wrap around and are defined for every operand, and of truth values.

Division by zero gives all bits set, its remainder the dividend; the least integer divided by -1 is
itself. Shift counts are unsigned; one that reaches the width shifts everything out. Types narrower
than a byte come extended to one; results are wrapped by the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from lowtide.codegen.elementwise.number import Number
from lowtide.ir.element_type import ElementType
from lowtide.ir.opcode import Opcode
from lowtide.llvm.callee import external

IntegerFunction: TypeAlias = Callable[..., Number]
"""Of the element type and the operands."""


def _absolute(type_: ElementType, x: Number) -> Number:
    return (x < 0).select(-x, x) if type_.is_signed else x


def _sign(type_: ElementType, x: Number) -> Number:
    positive = x.differs(0).cast("zext", x.element)
    return positive | x.ashr(x.width - 1) if type_.is_signed else positive


def _maximum(type_: ElementType, a: Number, b: Number) -> Number:
    return a.intrinsic("smax" if type_.is_signed else "umax", b)


def _minimum(type_: ElementType, a: Number, b: Number) -> Number:
    return a.intrinsic("smin" if type_.is_signed else "umin", b)


# -- division ----------------------------------------------------------------------------------


def divide(type_: ElementType, a: Number, b: Number) -> Number:
    """Return the quotient, rounded toward zero."""
    zero = b.equals(0)
    divide_ = _by_instruction if b.is_constant else _quotient
    if not type_.is_signed:
        return divide_(type_, a, b.where(zero, 1)).where(zero, -1)
    minus_one = b.equals(-1)
    safe = divide_(type_, a, b.where(zero | minus_one, 1))
    return safe.where(minus_one, -a).where(zero, -1)


def remainder(type_: ElementType, a: Number, b: Number) -> Number:
    """Return what `divide` leaves over; it has the sign of the dividend."""
    zero = b.equals(0)
    unsafe = zero | b.equals(-1) if type_.is_signed else zero
    divisor = b.where(unsafe, 1)
    divide_ = _by_instruction if b.is_constant else _quotient
    rest = a - divide_(type_, a, divisor) * divisor
    return rest.where(zero, a)


def floor_remainder(x: Number, divisor: int) -> Number:
    """Return x - floor(x / divisor) * divisor of one i32, for a constant divisor of 2 or more.

    floor(x / d) is floor((2 x + 1) / 2 d), whose fraction is at least 1 / 2 d away from a whole
    number. The product with 2**64 / 2 d, rounded up, is 2**-32 / 2 d further off at most.
    """
    odd = x.cast("sext", "i64") * 2 + 1
    factor = (1 << 64) // (2 * divisor) + 1
    product = odd.cast("sext", "i128") * factor
    quotient = (product >> 64).cast("trunc", "i64").cast("trunc", "i32")
    return x - quotient * divisor


def _quotient(type_: ElementType, a: Number, b: Number) -> Number:
    """The quotient by a divisor that is not 0, nor -1 of the least integer.

    No processor divides vectors of integers. Floating point numbers do it exactly where they have
    as many bits: a quotient that is no integer differs from the next by a 2**-width of itself.
    """
    if not a.lanes or a.width > 32:
        return _by_instruction(type_, a, b)
    float_ = "float" if a.width <= 16 else "double"
    up, down = ("sitofp", "fptosi") if type_.is_signed else ("uitofp", "fptoui")
    return (a.cast(up, float_) / b.cast(up, float_)).cast(down, a.element)


def _by_instruction(type_: ElementType, a: Number, b: Number) -> Number:
    """The quotient as LLVM knows it, who multiplies instead where the divisor is a constant."""
    return a.op("sdiv" if type_.is_signed else "udiv", b)


# -- powers and products -----------------------------------------------------------------------


def power(type_: ElementType, a: Number, b: Number) -> Number:
    """Return `a` to the power of `b`, wrapped; for negative `b` the truncated quotient 1/a**-b."""
    fn, one = a.fn, a.constant(1)
    carry = [(a.type, one.name), (a.type, a.name), (a.type, b.name)]
    with fn.loop(0, a.width, carry=carry) as loop:
        product, base, exponent = [a.named(a.element, x) for x in loop.values]
        multiplied = product.where((exponent & 1).differs(0), product * base)
        loop.next = [multiplied.name, (base * base).name, (exponent >> 1).name]
    result = a.named(a.element, loop.results[0])
    if not type_.is_signed:
        return result
    odd_sign = (b & 1).differs(0).select(a, one)
    inverse = (a.equals(1) | a.equals(-1)).select(odd_sign, 0)
    return result.where(b < 0, inverse)


def multiply_high(type_: ElementType, a: Number, b: Number) -> Number:
    """Return the upper half of the product of twice the width; of its byte, for narrow types."""
    extend, wide = ("sext" if type_.is_signed else "zext"), f"i{2 * a.width}"
    product = a.cast(extend, wide) * b.cast(extend, wide)
    return (product >> a.width).cast("trunc", a.element)


# -- bits --------------------------------------------------------------------------------------


def raw_bits(type_: ElementType, x: Number) -> Number:
    """Return the bits of the type, zeros above."""
    return x & ((1 << type_.bits) - 1) if type_.bits < x.width else x


def shift_left(type_: ElementType, a: Number, count: Number) -> Number:
    """Return `a` with its bits moved up, zeros from below."""
    distance = raw_bits(type_, count)
    return distance.compare("ult", type_.bits).select(a << distance, 0)


def shift_right_logical(type_: ElementType, a: Number, count: Number) -> Number:
    """Return `a` with its bits moved down, zeros from above."""
    distance = raw_bits(type_, count)
    return distance.compare("ult", type_.bits).select(raw_bits(type_, a) >> distance, 0)


def shift_right_arithmetic(type_: ElementType, a: Number, count: Number) -> Number:
    """Return `a` with its bits moved down, the top bit copied from above."""
    unused = a.width - type_.bits
    value = (a << unused).ashr(unused) if unused and not type_.is_signed else a
    return value.ashr(raw_bits(type_, count).intrinsic("umin", type_.bits - 1))


def count_leading_zeros(type_: ElementType, x: Number) -> Number:
    """Return how many bits stand clear above the first that is set; all of them for 0."""
    raw = raw_bits(type_, x)
    name = f"llvm.ctlz.{_suffix(raw)}"
    callee = external(name, x.type, x.type, "i1")
    found = x.named(x.element, x.fn.call(callee, [raw.name, "false"]))
    return found - (x.width - type_.bits) if x.width > type_.bits else found


def _suffix(x: Number) -> str:
    return f"v{x.lanes}{x.element}" if x.lanes else x.element


def population_count(type_: ElementType, x: Number) -> Number:
    """Return the number of bits set."""
    return raw_bits(type_, x).intrinsic("ctpop")


FUNCTIONS: Final[Mapping[Opcode, IntegerFunction]] = {
    Opcode.ABS: _absolute,
    Opcode.ADD: lambda type_, a, b: a + b,
    Opcode.AND: lambda type_, a, b: a & b,
    Opcode.COUNT_LEADING_ZEROS: count_leading_zeros,
    Opcode.DIVIDE: divide,
    Opcode.MAXIMUM: _maximum,
    Opcode.MINIMUM: _minimum,
    Opcode.MULHI: multiply_high,
    Opcode.MULTIPLY: lambda type_, a, b: a * b,
    Opcode.NEGATE: lambda type_, x: -x,
    Opcode.NOT: lambda type_, x: ~x,
    Opcode.OR: lambda type_, a, b: a | b,
    Opcode.POPULATION_COUNT: population_count,
    Opcode.POWER: power,
    Opcode.REMAINDER: remainder,
    Opcode.SHIFT_LEFT: shift_left,
    Opcode.SHIFT_RIGHT_ARITHMETIC: shift_right_arithmetic,
    Opcode.SHIFT_RIGHT_LOGICAL: shift_right_logical,
    Opcode.SIGN: _sign,
    Opcode.SUBTRACT: lambda type_, a, b: a - b,
    Opcode.XOR: lambda type_, a, b: a ^ b,
}


def _and(a: Number, b: Number) -> Number:
    return a & b


def _or(a: Number, b: Number) -> Number:
    return a | b


def _xor(a: Number, b: Number) -> Number:
    return a ^ b


PREDICATES: Final[Mapping[Opcode, Callable[..., Number]]] = {
    Opcode.ABS: lambda x: x,
    Opcode.ADD: _or,
    Opcode.AND: _and,
    Opcode.MAXIMUM: _or,
    Opcode.MINIMUM: _and,
    Opcode.MULTIPLY: _and,
    Opcode.NOT: lambda x: ~x,
    Opcode.OR: _or,
    Opcode.SUBTRACT: _xor,
    Opcode.XOR: _xor,
}
