"""Division of vectors by a value that stays the same along a loop: by its reciprocal, as exactly.

With r = 1 / b rounded and r + t = 1 / b to twice the bits, q = a r + a t rounded once is less than
an ulp off, so that a - q b is exact, and q + (a - q b) r is a / b rounded to nearest. Source:
P. W. Markstein (1990), Computation of elementary functions on the IBM RISC System/6000 processor.

Of bf16 a r is enough. A number halfway between two of bf16 has 9 bits to the first and the last
one, so it times b, of 8 bits, is never a, but differs by one part in 2**17 at least.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Final

from lowtide.codegen import elementwise
from lowtide.codegen.cpu.fetching import has_quick_division
from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elements.table import operation
from lowtide.codegen.elements.values import Element, Request, Rule
from lowtide.codegen.elementwise import memory
from lowtide.codegen.elementwise.formats import arithmetic_to_bfloat
from lowtide.codegen.elementwise.number import Number, any_lane, fma
from lowtide.codegen.elementwise.processor import has_wide
from lowtide.codegen.value import Value
from lowtide.ir import ElementType, Instruction
from lowtide.records import dataclass


@dataclass(frozen=True, slots=True)
class _Range:
    """Nothing underflows if quotients are 2**-quotient or more, divisors 2**-divisor to 2**divisor.

    The units of the last place of the two, multiplied, are then a number of the type.
    """

    quotient: int
    divisor: int


_RANGES: Final = {
    ElementType.BF16: _Range(60, 30),
    ElementType.F32: _Range(60, 30),
    ElementType.F64: _Range(500, 300),
}


def division(elements: Elements, request: Request) -> Rule:
    """Return the quotient of two elements."""
    return operation(elements, request, _divided)


def _divided(
    elements: Elements, instruction: Instruction, found: Sequence[Element], values: Sequence[Value]
) -> Value:
    quotient = _by_reciprocal(elements, instruction, found)
    if quotient is not None:
        return quotient
    return elementwise.emit(elements.function, elements.target, instruction, values)


def _by_reciprocal(
    elements: Elements, instruction: Instruction, found: Sequence[Element]
) -> Value | None:
    """The quotient of two elements, None where the usual way is as good."""
    type_ = instruction.shape.element_type
    range_ = _RANGES.get(type_)
    if range_ is None or has_quick_division(elements.target):
        return None
    (whole,), (by,) = [x.values for x in found]
    dividend, divisor = [elements.scopes.placed(x.level) for x in found]
    if divisor >= dividend:
        return None
    (a,) = memory.numbers(elements.function, elements.target, whole)
    if not has_wide(a) or a.lanes * a.width < _WIDE:
        return None
    vector = by if by.lanes else elements.vectors.splat(by, found[1].level)
    (b,) = memory.numbers(elements.function, elements.target, vector)
    key = ("divisor", b.name)
    known: _Divisor = elements.scopes.once(key, found[1].level, partial(_divisor, b, range_))
    return Value((_quotient(type_, a, known).name,), type_, a.lanes)


_WIDE: Final = 512
"""Bits of a vector, of which a division takes many cycles."""


@dataclass(frozen=True, slots=True)
class _Divisor:
    """b, r, t, and the least magnitude of a quotient that is right; NaN where none is.

    `nothing` is 0, the dividend whose quotient is itself times r, or NaN likewise.
    """

    b: Number
    inverse: Number
    rest: Number
    least: Number
    nothing: Number


def _divisor(b: Number, range_: _Range) -> _Divisor:
    inverse = 1.0 / b
    rest = fma(-b, inverse, 1.0) * inverse
    size = b.abs()
    is_near = (size >= 2.0**-range_.divisor) & (size <= 2.0**range_.divisor)
    never = b.constant(math.nan)
    least, nothing = never.where(is_near, 2.0**-range_.quotient), never.where(is_near, 0.0)
    return _Divisor(b, inverse, rest, least, nothing)


def _quotient(type_: ElementType, a: Number, divisor: _Divisor) -> Number:
    if type_ is ElementType.BF16:
        return arithmetic_to_bfloat(_chosen(a, divisor, a * divisor.inverse))
    near = fma(a, divisor.inverse, a * divisor.rest)
    found = fma(fma(-near, divisor.b, a), divisor.inverse, near)
    is_zero = a.equals(divisor.nothing)
    return _chosen(a, divisor, found.where(is_zero, a * divisor.inverse))


def _chosen(a: Number, divisor: _Divisor, found: Number) -> Number:
    """The quotient found; where it is not known to be right by division, of infinities too.

    A dividend of 0 is common, of what was quantized, and its quotient is easy.
    """
    is_zero = a.equals(divisor.nothing)
    is_wrong = found.abs().compare("ult", divisor.least) & ~is_zero
    (name,) = a.fn.choose(
        any_lane(is_wrong), [a.type], lambda: [(a / divisor.b).name], lambda: [found.name]
    )
    return a.named(a.element, name)
