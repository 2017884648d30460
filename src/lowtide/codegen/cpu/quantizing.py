"""Quantization in vectors of x86: a quotient that is rounded, shifted and stored in 8 bits.

It is one conversion that rounds to nearest, and packing that saturates, in place of rounding,
clamping and taking bytes out of words. Division by a constant c is two products: with r = 1 / c
rounded and r + t = 1 / c to twice the bits, x t + x r, rounded once, is next to the quotient. Only
the integer next to that is wanted, of which some hundreds are told apart: that each of these begins
and ends at the same x is tested when the code is written.
"""

from __future__ import annotations

from functools import cache
from typing import Final, NamedTuple

import numpy as np

from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elements.table import elementwise_rule
from lowtide.codegen.elements.values import Element, Request, Rule
from lowtide.codegen.elementwise import memory
from lowtide.codegen.elementwise.number import Number, by_registers, fma
from lowtide.codegen.value import Value
from lowtide.ir import ElementType, Instruction, Opcode
from lowtide.ir.attributes import Constant
from lowtide.llvm.callee import external
from lowtide.llvm.target import Target


class _Quantization(NamedTuple):
    """What is rounded: a value, divided by a constant, 1 if by none; then `zero` is added."""

    value: Instruction
    divisor: float
    zero: int


def quantized(elements: Elements, request: Request) -> Rule:
    """Return a conversion of f32 to 8 bits, of what is rounded to integers in one step."""
    found = _quantization(request.instruction)
    if found is None or not elements.lanes or not _has_conversion(elements.target):
        return (yield from elementwise_rule(elements, request))
    element = yield Request(found.value, request.at, request.mask, request.frame)
    (value,) = element.values
    if not value.lanes:
        return (yield from elementwise_rule(elements, request))
    type_ = request.instruction.shape.element_type
    place = elements.scopes.placed(element.level)
    with elements.scopes.at_level(place):
        (x,) = memory.numbers(elements.function, elements.target, value)
        number = _bytes(x, found, type_)
    return Element((Value((number.name,), type_, number.lanes),), place)


def _bytes(x: Number, how: _Quantization, type_: ElementType) -> Number:
    """The numbers of 8 bits.

    What is too small is the least integer, as is NaN: packing makes the least number of it.
    """
    low, high = type_.bounds
    inside = x.at_most(float(np.float32((high - how.zero + 1) * how.divisor)))
    quotient = inside
    if how.divisor != 1:
        inverse, rest = _inverse(how.divisor)
        quotient = fma(inside, float(inverse), inside * float(rest))
    whole = by_registers(_LANES[x.target.vector_bytes], _converted, quotient)
    words = _narrowed(whole, "i16", -(1 << 15), (1 << 15) - 1)
    if how.zero:
        words = words.intrinsic("sadd.sat", how.zero)
    found = _narrowed(words, "i8", low, high)
    return found.where(x.is_nan(), 0) if type_.is_signed else found


def _narrowed(x: Number, element: str, low: int, high: int) -> Number:
    return x.intrinsic("smax", low).intrinsic("smin", high).cast("trunc", element)


# -- conversion ------------------------------------------------------------------------------------

_LANES: Final = {32: 8, 64: 16}
"""Lanes of the registers that are converted, by the bytes of a vector."""


def _has_conversion(target: Target) -> bool:
    is_wide = target.vector_bytes != 64 or target.has("avx512f")
    return target.triple.startswith("x86_64") and target.vector_bytes in _LANES and is_wide


def _converted(x: Number) -> Number:
    """The nearest integers, ties to even; the least one for NaN and what 32 bits do not hold."""
    to = x.named("i32", "").type
    if x.lanes == _LANES[32]:
        called = external("llvm.x86.avx.cvt.ps2dq.256", to, x.type)
        return x.named("i32", x.fn.call(called, [x.name]))
    called = external("llvm.x86.avx512.mask.cvtps2dq.512", to, x.type, to, "i16", "i32")
    return x.named("i32", x.fn.call(called, [x.name, "zeroinitializer", "-1", "4"]))


# -- what is computed ------------------------------------------------------------------------------


def _quantization(convert: Instruction) -> _Quantization | None:
    """What a conversion to 8 bits rounds, None where it does not round to nearest."""
    rounded, zero = convert.operands[0], 0.0
    if rounded.opcode is Opcode.ADD:
        for x, other in (rounded.operands, rounded.operands[::-1]):
            number = _constant(other)
            if number is not None:
                rounded, zero = x, number
                break
    is_shift = abs(zero) <= _MOST and zero == int(zero)
    if rounded.opcode is not Opcode.ROUND_NEAREST_EVEN or not is_shift:
        return None
    value, divisor = rounded.operands[0], 1.0
    if value.opcode is Opcode.DIVIDE:
        by = _constant(value.operands[1])
        low, high = convert.shape.element_type.bounds
        if by is not None and is_exact(by, low - int(zero), high - int(zero)):
            value, divisor = value.operands[0], by
    return _Quantization(value, divisor, int(zero))


_MOST: Final = 255
"""The greatest zero point."""


def _constant(x: Instruction) -> float | None:
    """The number that all elements are, None where they may be several."""
    while x.opcode in (Opcode.BROADCAST, Opcode.RESHAPE):
        (x,) = x.operands
    if x.opcode is not Opcode.CONSTANT or x.shape.element_count != 1:
        return None
    literal = x.attributes_as(Constant).literal
    return None if literal.elided else float(literal.array.reshape(-1)[0])


# -- division --------------------------------------------------------------------------------------

_NEAR: Final = 2.0**-20
"""Divisors of at least this, and at most its reciprocal: no product is infinite on the way."""

_STEPS: Final = 4
"""Numbers on each side of the one whose quotient is next to a half."""

_UNKNOWN: Final = 2.0**-50
"""The part by which a sum of doubles may be off."""


def _inverse(divisor: float) -> tuple[np.float32, np.float32]:
    """The reciprocal of a number of f32, and what is left of it."""
    inverse = np.float32(1 / divisor)
    rest = 1 - divisor * float(inverse)
    return inverse, np.float32(rest / divisor)


@cache
def is_exact(divisor: float, low: int, high: int) -> bool:
    """Return whether two products tell all integers from `low` to `high` as the quotient does.

    Quotients grow with what is divided, and both ways differ by a unit in the last place at most:
    so only what is about a half more than an integer has to be tried.
    """
    if not _NEAR <= divisor <= 1 / _NEAR:
        return False
    halves = np.arange(low - 1, high + 1) + 0.5
    middle = (halves * divisor).astype(np.float32)
    found = [middle]
    below = above = middle
    for _ in range(_STEPS):
        below = np.nextafter(below, np.float32(-np.inf))
        above = np.nextafter(above, np.float32(np.inf))
        found += [below, above]
    x = np.stack(found)
    inverse, rest = _inverse(divisor)
    wanted = np.rint(x / np.float32(divisor))
    total = x.astype(np.float64) * float(inverse) + (x * rest).astype(np.float64)
    sides = [(total * y).astype(np.float32) for y in (1 - _UNKNOWN, 1 + _UNKNOWN)]
    return all(bool((np.rint(y) == wanted).all()) for y in sides)


RULES: Final = {Opcode.CONVERT: quantized}
"""Rules of vectors that few kernels need."""
