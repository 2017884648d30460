"""Random operations on each element alone."""

from __future__ import annotations

from typing import Final

from tests.random_modules.drawing import Drawing

from lowtide.builder import Op
from lowtide.ir.element_type import ElementType
from lowtide.ir.opcode import Opcode
from lowtide.ir.shape import Shape, array_shape

E = ElementType

UNARY: Final = (
    Opcode.NEGATE,
    Opcode.ABS,
    Opcode.SIGN,
    Opcode.NOT,
    Opcode.COPY,
    Opcode.FLOOR,
    Opcode.CEIL,
    Opcode.ROUND_NEAREST_AFZ,
    Opcode.ROUND_NEAREST_EVEN,
    Opcode.IS_FINITE,
    Opcode.POPULATION_COUNT,
    Opcode.COUNT_LEADING_ZEROS,
    Opcode.REAL,
    Opcode.IMAG,
)
BINARY: Final = (
    Opcode.ADD,
    Opcode.MULTIPLY,
    Opcode.SUBTRACT,
    Opcode.MAXIMUM,
    Opcode.MINIMUM,
    Opcode.AND,
    Opcode.OR,
    Opcode.XOR,
    Opcode.DIVIDE,
    Opcode.REMAINDER,
    Opcode.SHIFT_LEFT,
    Opcode.SHIFT_RIGHT_ARITHMETIC,
    Opcode.SHIFT_RIGHT_LOGICAL,
    Opcode.COMPLEX,
)
TRANSCENDENTAL: Final = (
    Opcode.EXPONENTIAL,
    Opcode.TANH,
    Opcode.LOGISTIC,
    Opcode.LOG,
    Opcode.LOG_PLUS_ONE,
    Opcode.EXPONENTIAL_MINUS_ONE,
    Opcode.SQRT,
    Opcode.RSQRT,
    Opcode.CBRT,
    Opcode.SINE,
    Opcode.COSINE,
    Opcode.TAN,
    Opcode.ERF,
    Opcode.SINH,
    Opcode.COSH,
    Opcode.ASIN,
    Opcode.ACOS,
    Opcode.ASINH,
    Opcode.ACOSH,
    Opcode.ATANH,
)
TRANSCENDENTAL_BINARY: Final = (Opcode.POWER, Opcode.ATAN2)


def _unary(drawing: Drawing, opcodes: tuple[Opcode, ...]) -> Op | None:
    opcode = drawing.choice(opcodes)
    operand = drawing.array(lambda t: drawing.accepts(opcode, t, 1))
    return None if operand is None else drawing.builder.emit(opcode, [operand])


def _binary(drawing: Drawing, opcodes: tuple[Opcode, ...]) -> Op | None:
    opcode = drawing.choice(opcodes)
    operand = drawing.array(lambda t: drawing.accepts(opcode, t, 2))
    if operand is None:
        return None
    return drawing.builder.emit(opcode, [operand, drawing.like(operand.shape)])


def unary(drawing: Drawing) -> Op | None:
    """Draw an exact operation of one operand."""
    return _unary(drawing, UNARY)


def binary(drawing: Drawing) -> Op | None:
    """Draw an exact operation of two operands."""
    return _binary(drawing, BINARY)


def transcendental(drawing: Drawing) -> Op | None:
    """Draw an operation whose result is rounded."""
    if drawing.chance(4):
        return _binary(drawing, TRANSCENDENTAL_BINARY)
    return _unary(drawing, TRANSCENDENTAL)


def scalar_operand(drawing: Drawing) -> Op | None:
    """Draw an operation of an array and a scalar, which is broadcast."""
    opcode = drawing.choice(BINARY[:5])
    operand = drawing.array(lambda t: drawing.accepts(opcode, t, 2))
    if operand is None:
        return None
    return drawing.builder.binary(opcode, operand, drawing.like(array_shape(operand.element_type)))


def changed(drawing: Drawing, operand: Op) -> Op:
    """Return another array of exactly the shape of `operand`, which reads that one."""
    is_pred = operand.element_type is E.PRED
    if drawing.chance(3):
        opcode = Opcode.NOT if is_pred else Opcode.NEGATE
        return drawing.builder.emit(opcode, [operand])
    opcode = drawing.choice((Opcode.XOR, Opcode.OR) if is_pred else BINARY[:3])
    pair = [operand, drawing.like(operand.shape)]
    return drawing.builder.emit(opcode, pair[::-1] if drawing.chance(3) else pair)


def compare(drawing: Drawing) -> Op | None:
    """Draw a comparison, some of them in total order."""
    operand = drawing.array()
    if operand is None:
        return None
    kind = operand.element_type
    directions = ("EQ", "NE") if kind.is_complex else ("LT", "EQ", "NE", "GE", "GT", "LE")
    order = "TOTALORDER" if kind.is_floating and drawing.chance(4) else ""
    other = drawing.like(operand.shape)
    return drawing.builder.compare(operand, other, drawing.choice(directions), order)


def select(drawing: Drawing) -> Op | None:
    """Draw a choice between two arrays."""
    operand = drawing.array()
    if operand is None:
        return None
    pred = drawing.like(array_shape(E.PRED, operand.dimensions))
    return drawing.builder.select(pred, operand, drawing.like(operand.shape))


def clamp(drawing: Drawing) -> Op | None:
    """Draw a clamp between bounds that may be scalars."""
    operand = drawing.array(lambda t: drawing.accepts(Opcode.MAXIMUM, t, 2) and not t.is_complex)
    if operand is None:
        return None
    whole = drawing.chance(2)
    shape = operand.shape if whole else array_shape(operand.element_type)
    return drawing.builder.emit(Opcode.CLAMP, [drawing.like(shape), operand, drawing.like(shape)])


# -- conversions -------------------------------------------------------------------------------


def convert(drawing: Drawing) -> Op | None:
    """Draw a conversion to another element type."""
    operand = drawing.array()
    if operand is None:
        return None
    is_complex = operand.element_type.is_complex
    wanted = drawing.element_type(lambda t: t.is_complex if is_complex else True)
    return None if wanted is None else drawing.builder.convert(operand, wanted)


def bitcast_convert(drawing: Drawing) -> Op | None:
    """Draw a look at the bits of each element, in a type of equal or other width."""
    operand = drawing.array(_has_plain_bits)
    if operand is None:
        return None
    wanted = drawing.element_type(lambda t: _has_plain_bits(t) and _splits(operand.shape, t))
    return None if wanted is None else drawing.builder.bitcast_convert(operand, wanted)


def _has_plain_bits(element_type: ElementType) -> bool:
    is_number = element_type.is_integer or element_type.is_floating
    return is_number and element_type.bits in (8, 16, 32, 64)


def _splits(shape: Shape, element_type: ElementType) -> bool:
    if shape.element_type.bits >= element_type.bits:
        return True
    return shape.dimensions[-1:] == (element_type.bits // shape.element_type.bits,)


def reduce_precision(drawing: Drawing) -> Op | None:
    """Draw a rounding to a narrower format."""
    operand = drawing.array(lambda t: t in (E.F32, E.F64, E.F16, E.BF16))
    if operand is None:
        return None
    exponent, mantissa = drawing.choice(((8, 7), (5, 10), (8, 23), (5, 2)))
    return drawing.builder.reduce_precision(operand, exponent, mantissa)
