"""Absolute values, signs, rounding to whole numbers, complex parts."""

from __future__ import annotations

from lowtide.ir import Instruction, Opcode
from lowtide.passes.matching import has_one_user, is_all
from lowtide.passes.rewriting import Rewriter
from lowtide.transforms.simplify.bounds import ROUNDING, is_whole, never_infinite, never_negative
from lowtide.transforms.simplify.support import (
    COMPLEX,
    FLOATS,
    NUMBERS,
    REALS,
    Made,
    arrays,
    elementwise,
    splat,
)

# -- signs -------------------------------------------------------------------------------------


@elementwise(Opcode.ABS, on=REALS)
def abs_of_positive(abs_: Instruction, at: Rewriter) -> Made:
    """|x| => x, where x is an absolute value, a square or else has no sign"""
    x = abs_.operands[0]
    return x if never_negative(x) or x.opcode is Opcode.ABS else None


@elementwise(Opcode.ABS, Opcode.COSINE, Opcode.COSH, on=REALS)
def even_function_of_negated(x: Instruction, at: Rewriter) -> Made:
    """|-x| => |x|, cos(-x) => cos(x), cosh(-x) => cosh(x)"""
    inner = x.operands[0]
    if inner.opcode is not Opcode.NEGATE:
        return None
    return at.build.emit(x.opcode, [at(inner.operands[0])])


@elementwise(Opcode.COSINE, Opcode.COSH, on=FLOATS)
def even_function_of_abs(x: Instruction, at: Rewriter) -> Made:
    """cos(|x|) => cos(x), cosh(|x|) => cosh(x)"""
    inner = x.operands[0]
    if inner.opcode is not Opcode.ABS or inner.operands[0].shape is not x.shape:
        return None
    return at.build.emit(x.opcode, [at(inner.operands[0])])


@elementwise(Opcode.MULTIPLY, on=REALS, of=(Opcode.ABS, Opcode.NEGATE))
def square_of_unsigned(multiply: Instruction, at: Rewriter) -> Made:
    """|x| * |x| => x * x, (-x) * (-x) => x * x"""
    inner, other = multiply.operands
    if inner is not other or inner.opcode not in (Opcode.ABS, Opcode.NEGATE):
        return None
    if inner.operands[0].shape is not inner.shape:
        return None
    x = at(inner.operands[0])
    return x * x


@elementwise(Opcode.SIGN, on=NUMBERS)
def sign_of_sign(sign: Instruction, at: Rewriter) -> Made:
    """sign(sign(x)) => sign(x)"""
    inner = sign.operands[0]
    if sign.shape.element_type in COMPLEX:
        return None
    return inner if inner.opcode is Opcode.SIGN else None


@elementwise(Opcode.MULTIPLY, on=REALS, of=(Opcode.ABS,))
def sign_times_abs(multiply: Instruction, at: Rewriter) -> Made:
    """sign(x) * |x| => x"""
    left, right = multiply.operands
    for a, b in ((left, right), (right, left)):
        if a.opcode is Opcode.SIGN and b.opcode is Opcode.ABS and a.operands == b.operands:
            # A float zero keeps its sign: sign(-0) * |-0| = -0 * 0 = -0.
            return a.operands[0]
    return None


@elementwise(Opcode.MAXIMUM, on=REALS)
def maximum_of_positive_and_zero(maximum: Instruction, at: Rewriter) -> Made:
    """max(x, 0) => x, where x has no sign"""
    x, y = maximum.operands
    return x if is_all(y, 0) and never_negative(x) else None


# -- whole numbers -----------------------------------------------------------------------------


@elementwise(*[x for x in sorted(ROUNDING) if x is not Opcode.SIGN], on=FLOATS)
def round_whole(x: Instruction, at: Rewriter) -> Made:
    """floor(x) => x, and so for all roundings, where x is whole already"""
    inner = x.operands[0]
    return inner if is_whole(inner) else None


@arrays(Opcode.IS_FINITE, on=FLOATS)
def is_finite_of_finite(x: Instruction, at: Rewriter) -> Made:
    """is-finite(x) => true, where x was an integer that the type can hold"""
    return splat(at, True, x.shape) if never_infinite(x.operands[0]) else None


@arrays(Opcode.IS_FINITE, on=FLOATS)
def is_finite_of_signed(x: Instruction, at: Rewriter) -> Made:
    """is-finite(-x) => is-finite(x), is-finite(|x|) => is-finite(x)"""
    inner = x.operands[0]
    source = inner.operands[0] if inner.opcode in (Opcode.NEGATE, Opcode.ABS) else None
    if source is None or source.shape is not inner.shape:
        return None
    return at.build.is_finite(at(source))


# -- complex numbers ---------------------------------------------------------------------------


@arrays(Opcode.REAL, Opcode.IMAG)
def part_of_complex(x: Instruction, at: Rewriter) -> Made:
    """real(complex(a, b)) => a, imag(complex(a, b)) => b"""
    inner = x.operands[0]
    if inner.opcode is not Opcode.COMPLEX:
        return None
    part = inner.operands[0 if x.opcode is Opcode.REAL else 1]
    return part if part.shape is x.shape else None


@arrays(Opcode.COMPLEX)
def complex_of_parts(x: Instruction, at: Rewriter) -> Made:
    """complex(real(z), imag(z)) => z"""
    a, b = x.operands
    if a.opcode is not Opcode.REAL or b.opcode is not Opcode.IMAG:
        return None
    z = a.operands[0]
    return z if z is b.operands[0] and z.shape is x.shape else None


@elementwise(Opcode.REAL, on=FLOATS)
def real_of_real(x: Instruction, at: Rewriter) -> Made:
    """real(x) => x, where x is real"""
    return x.operands[0]


@elementwise(Opcode.IMAG, on=FLOATS)
def imag_of_real(x: Instruction, at: Rewriter) -> Made:
    """imag(x) => 0, where x is real"""
    return splat(at, 0, x.shape)


@arrays(Opcode.REAL, Opcode.IMAG, on=COMPLEX)
def part_of_negated(x: Instruction, at: Rewriter) -> Made:
    """real(-z) => -real(z), imag(-z) => -imag(z)"""
    inner = x.operands[0]
    if inner.opcode is not Opcode.NEGATE or not has_one_user(inner):
        return None
    return -at.build.emit(x.opcode, [at(inner.operands[0])])


@arrays(Opcode.REAL, Opcode.IMAG, on=COMPLEX)
def part_of_sum(x: Instruction, at: Rewriter) -> Made:
    """real(w + z) => real(w) + real(z), and so for imag and for differences"""
    inner = x.operands[0]
    if inner.opcode not in (Opcode.ADD, Opcode.SUBTRACT) or not has_one_user(inner):
        return None
    if x.shape.element_type.nbytes * 2 != inner.shape.element_type.nbytes:
        return None
    parts = [at.build.emit(x.opcode, [at(z)]) for z in inner.operands]
    return at.build.emit(inner.opcode, parts)


@arrays(Opcode.REAL, Opcode.IMAG)
def part_of_converted(x: Instruction, at: Rewriter) -> Made:
    """real(convert(x)) => convert(x), imag(convert(x)) => 0, where x is real"""
    inner = x.operands[0]
    if inner.opcode is not Opcode.CONVERT or inner.operands[0].shape.element_type not in REALS:
        return None
    if x.opcode is Opcode.IMAG:
        return splat(at, 0, x.shape)
    return at.build.convert(at(inner.operands[0]), x.shape.element_type)
