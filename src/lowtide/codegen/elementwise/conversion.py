"""Conversion between element types by value, by bits, at random, and rounding to other precisions.

Floating point to integer truncates, stays within the range of the type, and makes 0 of NaN;
integers wrap around; everything but 0 is true; the imaginary part is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from lowtide.codegen.elementwise.formats import decoded, encoded, rounded
from lowtide.codegen.elementwise.memory import wrapped
from lowtide.codegen.elementwise.number import Number
from lowtide.codegen.elementwise.operation import Operation
from lowtide.codegen.value import Value, memory_type, register_type
from lowtide.ir.attributes import ReducePrecision
from lowtide.ir.element_type import ElementType
from lowtide.ir.opcode import Opcode


def convert(operation: Operation) -> Value:
    """Return the operand's value in the result type."""
    source, type_ = operation.operand_type, operation.type
    parts = operation.numbers(0)
    if source is type_:
        return operation.result(*parts)
    if type_.is_complex:
        element = register_type(type_)
        kind = ElementType.F64 if element == "double" else ElementType.F32
        real = converted(source, kind, parts[0]) if not source.is_complex else parts[0]
        imaginary = parts[1] if source.is_complex else real.constant(0.0)
        return operation.result(*[rounded(kind, x) for x in (real, imaginary)])
    if source.is_complex:
        if type_ is ElementType.PRED:
            return operation.result(parts[0].differs(0.0) | parts[1].differs(0.0))
        source = ElementType.F64 if parts[0].is_double else ElementType.F32
    return operation.result(converted(source, type_, parts[0]))


def converted(source: ElementType, type_: ElementType, x: Number) -> Number:
    """Return the value of an element of a type that is not complex in another such type."""
    if type_ is ElementType.PRED:
        return x.differs(0)
    if source.is_floating:
        return rounded(type_, x) if type_.is_floating else float_to_integer(x, type_)
    if type_.is_floating:
        return _integer_to_float(source, type_, x)
    return wrapped(type_, _resized(source, register_type(type_), x))


def _resized(source: ElementType, element: str, x: Number) -> Number:
    width = int(element[1:])
    if width < x.width:
        return x.cast("trunc", element)
    return x.cast("sext" if source.is_signed else "zext", element)


def _integer_to_float(source: ElementType, type_: ElementType, x: Number) -> Number:
    instruction = "sitofp" if source.is_signed else "uitofp"
    element = "double" if type_ in (ElementType.F64, ElementType.F16) else "float"
    return rounded(type_, x.cast(instruction, element))


def float_to_integer(x: Number, type_: ElementType) -> Number:
    """Return a number truncated and clamped to an integer type; 0 for NaN."""
    signed = type_.is_signed
    if type_.bits >= 32:
        return x.saturated(f"i{type_.bits}", signed)
    low = -(1 << (type_.bits - 1)) if signed else 0
    high = (1 << (type_.bits - int(signed))) - 1
    if signed:
        inside = x.where(x.is_nan(), 0.0)
        inside = inside.where(inside < float(low), float(low))
    else:
        inside = (x > 0.0).select(x, x.like(0.0))
    inside = inside.where(inside > float(high), float(high))
    return inside.cast("fptosi", "i32").cast("trunc", register_type(type_))


# -- bits --------------------------------------------------------------------------------------


def bitcast_convert(operation: Operation) -> Value:
    """Return the bits of the operand as elements of another type of the same width."""
    source, type_ = operation.operand_type, operation.type
    parts = operation.numbers(0)
    if source is type_:
        return operation.result(*parts)
    if source.bits != type_.bits:
        raise operation.unsupported(
            f"its bits are {source.bits}, those of {type_.value} {type_.bits}; "
            "elements are split and joined where memory is read"
        )
    if source.is_complex or type_.is_complex:
        return _bitcast_complex(operation)
    return operation.result(_from_bits(type_, _to_bits(source, parts[0])))


def _bitcast_complex(operation: Operation) -> Value:
    """c64 from and to integers and f64 of 64 bits: the real part is the lower half."""
    parts = operation.numbers(0)
    if operation.operand_type.is_complex:
        low, high = (x.bits().cast("zext", "i64") for x in parts)
        return operation.result(_from_bits(operation.type, low | (high << 32)))
    whole = _to_bits(operation.operand_type, parts[0])
    halves = (whole, whole >> 32)
    return operation.result(*[x.cast("trunc", "i32").from_bits() for x in halves])


def _to_bits(type_: ElementType, x: Number) -> Number:
    """The bits of an element as an integer of at least a byte, zeros above."""
    if type_ is ElementType.PRED:
        return x.cast("zext", "i8")
    if type_.is_integer:
        return x & ((1 << type_.bits) - 1) if type_.bits < 8 else x
    if type_.bits >= 32:
        return x.bits()
    return encoded(type_, x).cast("bitcast", f"i{max(8, type_.bits)}")


def _from_bits(type_: ElementType, bits: Number) -> Number:
    if type_ is ElementType.PRED:
        return bits.differs(0)
    if type_.is_integer:
        return wrapped(type_, bits)
    if type_.bits >= 32:
        return bits.from_bits()
    return decoded(type_, bits.cast("bitcast", memory_type(type_)))


# -- reduce-precision --------------------------------------------------------------------------


def reduce_precision(operation: Operation) -> Value:
    """Return the values rounded to the nearest of a format, ties to even.

    What is too large becomes infinity, and what is below the least normal number a zero of the
    same sign; NaN stays.
    """
    attributes = operation.attributes
    if not isinstance(attributes, ReducePrecision):
        raise operation.unsupported("it needs the sizes of a format")
    x = operation.number(0)
    if operation.operand_type is ElementType.F16:
        half = x.cast("fptrunc", "half")
        bits = half.cast("bitcast", "i16")
        done = _reduced(bits, (5, 10), attributes).cast("bitcast", "half")
        return operation.result(done.cast("fpext", "float").where(x.is_nan(), x))
    own = (11, 52) if x.is_double else (8, 23)
    if operation.operand_type is ElementType.BF16 and attributes.mantissa_bits >= 7:
        attributes = ReducePrecision(attributes.exponent_bits, 23)
    done = _reduced(x.bits(), own, attributes).from_bits().where(x.is_nan(), x)
    return operation.rounded(done)


def _reduced(bits: Number, own: tuple[int, int], to: ReducePrecision) -> Number:
    exponent, mantissa = own
    dropped = mantissa - to.mantissa_bits
    if dropped > 0:
        up = bits + ((bits >> dropped) & 1) + ((1 << (dropped - 1)) - 1)
        bits = up & -(1 << dropped)
    if to.exponent_bits >= exponent:
        return bits
    bias = (1 << (exponent - 1)) - 1
    reach = (1 << (to.exponent_bits - 1)) - 1
    sign = bits & (1 << (exponent + mantissa))
    infinity = ((1 << exponent) - 1) << mantissa
    biased = (bits & infinity) >> mantissa
    large = biased > bias + reach
    tiny = biased <= bias - reach
    return bits.where(large, sign | infinity).where(tiny, sign)


# -- stochastic-convert ------------------------------------------------------------------------


def stochastic_convert(operation: Operation) -> Value:
    """Return values rounded up or down with the odds of their distance, by given random bits.

    A value is rounded away from zero where the fraction beyond its neighbour toward zero, in units
    of the width of the random bits, exceeds these.
    """
    x = operation.number(0).extended()
    random = operation.number(1)
    scale = 2.0**random.width
    draw = random.cast("uitofp", "double")
    type_ = operation.type
    if type_.is_integer:
        whole = x.intrinsic("trunc")
        away = ((x - whole).abs() * scale).intrinsic("floor") > draw
        stepped = whole.where(away, whole + x.constant(1.0).copysign(x))
        return operation.result(float_to_integer(stepped.where(x.is_nan(), 0.0), type_))
    if not type_.is_floating:
        raise operation.unsupported(f"it has no meaning for results of type {type_.value}")
    return operation.result(_stochastic_float(x, draw * (1.0 / scale), type_))


def _stochastic_float(x: Number, chance: Number, type_: ElementType) -> Number:
    nearest = rounded(type_, x)
    back = nearest.extended()
    beyond = back.abs() > x.abs()
    low = nearest.where(beyond, _stepped(type_, nearest, -1))
    high = _stepped(type_, low, 1)
    start, end = low.extended(), high.extended()
    away = (x - start).abs() > chance * (end - start).abs()
    finite = (x.abs() < float("inf")) & (end.abs() < float("inf"))
    exact = back.equals(x) | ~finite
    return away.select(high, low).where(exact, nearest)


def _stepped(type_: ElementType, x: Number, steps: int) -> Number:
    """The number of the type that many places further from zero."""
    return _from_bits(type_, _to_bits(type_, x) + steps)


FUNCTIONS: Final[Mapping[Opcode, Callable[[Operation], Value]]] = {
    Opcode.BITCAST_CONVERT: bitcast_convert,
    Opcode.CONVERT: convert,
    Opcode.REDUCE_PRECISION: reduce_precision,
    Opcode.STOCHASTIC_CONVERT: stochastic_convert,
}
