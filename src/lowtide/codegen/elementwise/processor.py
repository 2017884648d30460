"""Instructions of AVX-512 that shorten arithmetic, and portable forms of the same meaning."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from lowtide.codegen.elementwise.number import Number, by_registers, constant_text, fma
from lowtide.llvm.callee import external

_SUFFIX: Final = {"float": "ps", "double": "pd"}
_LANES: Final = {"float": 16, "double": 8}
_MASK: Final = {"float": "i16", "double": "i8"}


def has_wide(x: Number) -> bool:
    """Whether the target has AVX-512's floating point instructions on vectors of 64 bytes."""
    return x.target.vector_bytes == 64 and x.target.has("avx512f")


def scaled(x: Number, exponent: Number, whole: Number) -> Number:
    """Return x * 2**exponent, rounded once, for x of magnitude about 1.

    `whole` is the exponent as an integer; half of it must be the exponent of a normal number.
    """
    if has_wide(x) and x.lanes:
        return scaled_where(None, x, exponent)
    half = whole.ashr(1)
    return (x * power_of_two(half)) * power_of_two(whole - half)


def power_of_two(exponent: Number) -> Number:
    """Return 2**exponent for an integer exponent of a normal number."""
    mantissa, bias = (52, 1023) if exponent.width == 64 else (23, 127)
    return ((exponent + bias) << mantissa).from_bits()


def scaled_where(kept: Number | None, x: Number, exponent: Number) -> Number:
    """Return x * 2**exponent, rounded once, where an i1 holds, else 0; needs `has_wide`.

    Other lanes are not computed: to underflow takes processors a hundred cycles.
    """
    name = f"llvm.x86.avx512.mask.scalef.{_SUFFIX[x.element]}.512"
    mask = _MASK[x.element]

    def scale(a: Number, b: Number, where: Number | None = None) -> Number:
        types = [a.type, a.type, a.type, mask, "i32"]
        chosen = "-1"
        if where is not None:
            chosen = where.fn.op(f"bitcast {where.type} {where.name} to {mask}")
        values = [a.name, b.name, "zeroinitializer", chosen, "4"]
        return a.named(a.element, a.fn.call(external(name, a.type, *types), values))

    given = (x, exponent) if kept is None else (x, exponent, kept)
    return by_registers(_LANES[x.element], scale, *given)


def reciprocal_root_estimate(x: Number) -> Number:
    """Return 1 / sqrt(x) to 14 bits, for normal x; needs `has_wide`."""
    return _estimate("rsqrt14", x)


def looked_up(index: Number, table: Sequence[float]) -> Number:
    """Return the floats of a table of 32 at the last five bits of integers; needs `has_wide`."""
    name = "llvm.x86.avx512.vpermi2var.ps.512"
    halves = [", ".join([constant_text("float", x) for x in table[i : i + 16]]) for i in (0, 16)]
    low, high = [f"<{x.replace('0x', 'float 0x')}>" for x in halves]

    def pick(at: Number) -> Number:
        type_ = at.named("float", "").type
        types = [type_, at.type, type_]
        return at.named("float", at.fn.call(external(name, type_, *types), [low, at.name, high]))

    return by_registers(16, pick, index)


def quotient(a: Number, b: Number, rest: Number) -> Number:
    """Return a / (b + rest), half an ulp off and a little.

    `rest` is the rounding error of b; b and its reciprocal are normal.
    """
    fast = has_wide(b) and not b.is_double
    inverse = _estimate("rcp14", b) if fast else 1.0 / b
    first = a * inverse
    return fma(fma(-rest, first, fma(-b, first, a)), inverse, first)


def extremum(which: str, a: Number, b: Number) -> Number:
    """Return the "maximum" or the "minimum": 0 is greater than -0, and NaN wins.

    vrange orders zeros, but prefers numbers to NaN.
    """
    lanes = _LANES[a.element]
    if not (has_wide(a) and a.target.has("avx512dq") and a.lanes and a.lanes % lanes == 0):
        return _of_both_orders(which, a, b) if _has_ordered(which, a, b) else a.intrinsic(which, b)
    name = f"llvm.x86.avx512.mask.range.{_SUFFIX[a.element]}.512"
    choice = _RANGE[which]

    def of_registers(x: Number, y: Number) -> Number:
        types = [x.type, x.type, "i32", x.type, _MASK[x.element], "i32"]
        values = [x.name, y.name, str(choice), "zeroinitializer", "-1", "4"]
        return x.named(x.element, x.fn.call(external(name, x.type, *types), values))

    return by_registers(lanes, of_registers, a, b).where(a.compare("uno", b), a + b)


def _has_ordered(which: str, a: Number, b: Number) -> bool:
    """Whether both orders take fewer instructions than LLVM's own code, which tests a sign first.

    That code is as short beside a constant, and for the greater one on vectors without masks.
    """
    if a.is_constant or b.is_constant or not a.target.has("avx2"):
        return False
    return which == "minimum" or not a.lanes or a.target.has("avx512vl")


def _of_both_orders(which: str, a: Number, b: Number) -> Number:
    """The extremum by minps or maxps, whose result is its second operand for NaN and two zeros.

    The bits of both orders are those of -0 together if one zero is -0, and of NaN if one is NaN.
    """
    if which == "minimum":
        return (_lesser(a, b).bits() | _lesser(b, a).bits()).from_bits()
    common = (_greater(a, b).bits() & _greater(b, a).bits()).from_bits()
    return common.where(a.compare("uno", b), math.nan)


def _lesser(a: Number, b: Number) -> Number:
    return (a < b).select(a, b)


def _greater(a: Number, b: Number) -> Number:
    return (a > b).select(a, b)


_RANGE: Final = {"minimum": 4, "maximum": 5}
"""The operation of vrange, with the sign of the result that of the operand chosen."""


def exponent_and_mantissa(x: Number) -> tuple[Number, Number]:
    """Return e and m with x = m * 2**e, m from 1 to 2; needs `has_wide`.

    e is infinite for 0 and infinity, and m is NaN for what is negative or NaN.
    """
    kind, mask = _SUFFIX[x.element], _MASK[x.element]

    def exponent(a: Number) -> Number:
        name = f"llvm.x86.avx512.mask.getexp.{kind}.512"
        values = [a.name, "zeroinitializer", "-1", "4"]
        types = [a.type, a.type, mask, "i32"]
        return a.named(a.element, a.fn.call(external(name, a.type, *types), values))

    def mantissa(a: Number) -> Number:
        name = f"llvm.x86.avx512.mask.getmant.{kind}.512"
        values = [a.name, str(_NAN_IF_NEGATIVE), "zeroinitializer", "-1", "4"]
        types = [a.type, "i32", a.type, mask, "i32"]
        return a.named(a.element, a.fn.call(external(name, a.type, *types), values))

    lanes = _LANES[x.element]
    return by_registers(lanes, exponent, x), by_registers(lanes, mantissa, x)


_NAN_IF_NEGATIVE: Final = 8
"""The choice of signs in vgetmant; mantissas are from 1 to 2."""


def _estimate(name: str, x: Number) -> Number:
    full = f"llvm.x86.avx512.{name}.{_SUFFIX[x.element]}.512"
    mask = _MASK[x.element]

    def estimate(piece: Number) -> Number:
        types = [piece.type, piece.type, mask]
        values = [piece.name, "zeroinitializer", "-1"]
        found = piece.fn.call(external(full, piece.type, *types), values)
        return piece.named(piece.element, found)

    return by_registers(_LANES[x.element], estimate, x)
