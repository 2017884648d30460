"""Operations on each element alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lowtide.builder.broadcasting import Broadcasting
from lowtide.builder.values import Op, Value
from lowtide.ir.attributes import Compare, ReducePrecision
from lowtide.ir.element_type import ElementType
from lowtide.ir.opcode import Opcode
from lowtide.ir.shape import Shape, array_shape
from lowtide.ops.table import TABLE

Unary = Callable[[Broadcasting, Value], Op]


def _unary(opcode: Opcode) -> Unary:
    def method(self: Broadcasting, operand: Value) -> Op:
        return self.emit(opcode, [operand])

    method.__name__ = opcode.value.replace("-", "_")
    method.__doc__ = f"Return {TABLE[opcode].summary}."
    return method


class ElementwiseOps(Broadcasting):
    """Elementwise operations; those of several operands broadcast them (see `broadcasting`)."""

    abs = _unary(Opcode.ABS)
    acos = _unary(Opcode.ACOS)
    acosh = _unary(Opcode.ACOSH)
    asin = _unary(Opcode.ASIN)
    asinh = _unary(Opcode.ASINH)
    atanh = _unary(Opcode.ATANH)
    cbrt = _unary(Opcode.CBRT)
    ceil = _unary(Opcode.CEIL)
    copy = _unary(Opcode.COPY)
    cosh = _unary(Opcode.COSH)
    cosine = _unary(Opcode.COSINE)
    count_leading_zeros = _unary(Opcode.COUNT_LEADING_ZEROS)
    erf = _unary(Opcode.ERF)
    exponential = _unary(Opcode.EXPONENTIAL)
    exponential_minus_one = _unary(Opcode.EXPONENTIAL_MINUS_ONE)
    floor = _unary(Opcode.FLOOR)
    imag = _unary(Opcode.IMAG)
    is_finite = _unary(Opcode.IS_FINITE)
    log = _unary(Opcode.LOG)
    log_plus_one = _unary(Opcode.LOG_PLUS_ONE)
    logistic = _unary(Opcode.LOGISTIC)
    negate = _unary(Opcode.NEGATE)
    not_ = _unary(Opcode.NOT)
    popcnt = _unary(Opcode.POPULATION_COUNT)
    real = _unary(Opcode.REAL)
    round_nearest_afz = _unary(Opcode.ROUND_NEAREST_AFZ)
    round_nearest_even = _unary(Opcode.ROUND_NEAREST_EVEN)
    rsqrt = _unary(Opcode.RSQRT)
    sign = _unary(Opcode.SIGN)
    sine = _unary(Opcode.SINE)
    sinh = _unary(Opcode.SINH)
    sqrt = _unary(Opcode.SQRT)
    tan = _unary(Opcode.TAN)
    tanh = _unary(Opcode.TANH)

    # -- two operands --------------------------------------------------------------------------

    def add(self, lhs: Value, rhs: Value, broadcast_dimensions: Sequence[int] = ()) -> Op:
        """Return lhs + rhs; of pred, whether one of them is true."""
        return self.binary(Opcode.ADD, lhs, rhs, broadcast_dimensions)

    def and_(self, lhs: Value, rhs: Value, broadcast_dimensions: Sequence[int] = ()) -> Op:
        """Return the bits, or truth values, that are set in both."""
        return self.binary(Opcode.AND, lhs, rhs, broadcast_dimensions)

    def atan2(self, lhs: Value, rhs: Value, broadcast_dimensions: Sequence[int] = ()) -> Op:
        """Return the angle of the point (rhs, lhs) in the plane."""
        return self.binary(Opcode.ATAN2, lhs, rhs, broadcast_dimensions)

    def complex(self, lhs: Value, rhs: Value, broadcast_dimensions: Sequence[int] = ()) -> Op:
        """Return the complex number lhs + rhs i."""
        return self.binary(Opcode.COMPLEX, lhs, rhs, broadcast_dimensions)

    def divide(self, lhs: Value, rhs: Value, broadcast_dimensions: Sequence[int] = ()) -> Op:
        """Return lhs / rhs, of integers rounded towards zero."""
        return self.binary(Opcode.DIVIDE, lhs, rhs, broadcast_dimensions)

    def maximum(self, lhs: Value, rhs: Value, broadcast_dimensions: Sequence[int] = ()) -> Op:
        """Return the greater one; NaN where one of them is NaN."""
        return self.binary(Opcode.MAXIMUM, lhs, rhs, broadcast_dimensions)

    def minimum(self, lhs: Value, rhs: Value, broadcast_dimensions: Sequence[int] = ()) -> Op:
        """Return the smaller one; NaN where one of them is NaN."""
        return self.binary(Opcode.MINIMUM, lhs, rhs, broadcast_dimensions)

    def mulhi(self, lhs: Value, rhs: Value, broadcast_dimensions: Sequence[int] = ()) -> Op:
        """Return the upper half of the bits of the product."""
        return self.binary(Opcode.MULHI, lhs, rhs, broadcast_dimensions)

    def multiply(self, lhs: Value, rhs: Value, broadcast_dimensions: Sequence[int] = ()) -> Op:
        """Return lhs * rhs."""
        return self.binary(Opcode.MULTIPLY, lhs, rhs, broadcast_dimensions)

    def or_(self, lhs: Value, rhs: Value, broadcast_dimensions: Sequence[int] = ()) -> Op:
        """Return the bits, or truth values, that are set in one or both."""
        return self.binary(Opcode.OR, lhs, rhs, broadcast_dimensions)

    def power(self, lhs: Value, rhs: Value, broadcast_dimensions: Sequence[int] = ()) -> Op:
        """Return lhs to the power rhs."""
        return self.binary(Opcode.POWER, lhs, rhs, broadcast_dimensions)

    def remainder(self, lhs: Value, rhs: Value, broadcast_dimensions: Sequence[int] = ()) -> Op:
        """Return what is left of lhs after `divide`: it has the sign of lhs."""
        return self.binary(Opcode.REMAINDER, lhs, rhs, broadcast_dimensions)

    def shift_left(self, lhs: Value, rhs: Value, broadcast_dimensions: Sequence[int] = ()) -> Op:
        """Return lhs with its bits moved up by rhs places."""
        return self.binary(Opcode.SHIFT_LEFT, lhs, rhs, broadcast_dimensions)

    def shift_right_arithmetic(
        self, lhs: Value, rhs: Value, broadcast_dimensions: Sequence[int] = ()
    ) -> Op:
        """Return lhs with its bits moved down by rhs places, the sign bit coming in."""
        return self.binary(Opcode.SHIFT_RIGHT_ARITHMETIC, lhs, rhs, broadcast_dimensions)

    def shift_right_logical(
        self, lhs: Value, rhs: Value, broadcast_dimensions: Sequence[int] = ()
    ) -> Op:
        """Return lhs with its bits moved down by rhs places, zeros coming in."""
        return self.binary(Opcode.SHIFT_RIGHT_LOGICAL, lhs, rhs, broadcast_dimensions)

    def subtract(self, lhs: Value, rhs: Value, broadcast_dimensions: Sequence[int] = ()) -> Op:
        """Return lhs - rhs."""
        return self.binary(Opcode.SUBTRACT, lhs, rhs, broadcast_dimensions)

    def xor(self, lhs: Value, rhs: Value, broadcast_dimensions: Sequence[int] = ()) -> Op:
        """Return the bits, or truth values, that are set in exactly one."""
        return self.binary(Opcode.XOR, lhs, rhs, broadcast_dimensions)

    def compare(
        self,
        lhs: Value,
        rhs: Value,
        direction: str,
        order: str = "",
        broadcast_dimensions: Sequence[int] = (),
    ) -> Op:
        """Return whether lhs stands in a relation to rhs: EQ, NE, GE, GT, LE or LT.

        `order` is FLOAT, TOTALORDER, SIGNED or UNSIGNED; by default the usual one of the type.
        """
        if not order:
            types = [x.element_type for x in (lhs, rhs) if isinstance(x, Op)]
            order = default_order(types[0] if types else self.op(lhs).element_type)
        attributes = Compare(direction, order)
        return self.elementwise(Opcode.COMPARE, [lhs, rhs], attributes, broadcast_dimensions)

    # -- three operands ------------------------------------------------------------------------

    def select(self, pred: Value, on_true: Value, on_false: Value) -> Op:
        """Return on_true where `pred` holds, else on_false."""
        known = [x.element_type for x in (on_true, on_false) if isinstance(x, Op)]
        like = known[0] if known else None
        values = [self.op(pred), self.op(on_true, like), self.op(on_false, like)]
        return self.elementwise(Opcode.SELECT, values)

    def clamp(self, low: Value, operand: Value, high: Value) -> Op:
        """Return the operand, raised to `low` where it is less, then lowered to `high`."""
        return self.elementwise(Opcode.CLAMP, [low, operand, high])

    # -- conversions ---------------------------------------------------------------------------

    def convert(self, operand: Value, element_type: ElementType) -> Op:
        """Return the values in another element type."""
        op = self.op(operand)
        return self.emit(Opcode.CONVERT, [op], shape=_retyped(op.shape, element_type))

    def bitcast_convert(self, operand: Value, element_type: ElementType) -> Op:
        """Return the bits read as another element type.

        Types of other widths split an element along a new last dimension, or join along the last.
        """
        op = self.op(operand)
        shape = op.shape
        if shape.is_array and shape.element_type.bits != element_type.bits:
            old, new = shape.element_type.bits, element_type.bits
            sizes = (*shape.dimensions, old // new) if old > new else shape.dimensions[:-1]
            shape = array_shape(element_type, sizes)
        return self.emit(Opcode.BITCAST_CONVERT, [op], shape=_retyped(shape, element_type))

    def stochastic_convert(self, operand: Value, random: Value, element_type: ElementType) -> Op:
        """Return the values in another element type, rounded up or down by random bits."""
        op = self.op(operand)
        shape = _retyped(op.shape, element_type)
        return self.emit(Opcode.STOCHASTIC_CONVERT, [op, random], shape=shape)

    def reduce_precision(self, operand: Value, exponent_bits: int, mantissa_bits: int) -> Op:
        """Return the values rounded to a narrower format, in their own type."""
        attributes = ReducePrecision(exponent_bits, mantissa_bits)
        return self.emit(Opcode.REDUCE_PRECISION, [operand], attributes)

    # -- composites ----------------------------------------------------------------------------

    def floor_divide(self, lhs: Value, rhs: Value) -> Op:
        """Return lhs / rhs rounded down, as `//` of Python."""
        a, b = self._pair(lhs, rhs)
        quotient = self.divide(a, b)
        if not quotient.element_type.is_integer:
            return self.floor(quotient)
        if not quotient.element_type.is_signed:
            return quotient
        return self.select(self._is_rounded_up(self.remainder(a, b), b), quotient - 1, quotient)

    def modulo(self, lhs: Value, rhs: Value) -> Op:
        """Return lhs - rhs * (lhs // rhs), which has the sign of rhs, as `%` of Python."""
        a, b = self._pair(lhs, rhs)
        rest = self.remainder(a, b)
        if rest.element_type.is_unsigned:
            return rest
        return self.select(self._is_rounded_up(rest, b), rest + b, rest)

    def _pair(self, lhs: Value, rhs: Value) -> tuple[Op, Op]:
        known = lhs if isinstance(lhs, Op) else self.op(rhs)
        return self.op(lhs, known.element_type), self.op(rhs, known.element_type)

    def _is_rounded_up(self, rest: Op, divisor: Op) -> Op:
        """Return whether a division with this rest was rounded up when it was truncated."""
        return rest.ne(0) & self.compare(rest.lt(0), divisor.lt(0), "NE")


def default_order(element_type: ElementType) -> str:
    """Return the order in which the values of an element type usually compare."""
    if element_type.is_floating or element_type.is_complex:
        return "FLOAT"
    return "SIGNED" if element_type.is_signed else "UNSIGNED"


def _retyped(shape: Shape, element_type: ElementType) -> Shape:
    return shape.with_element_type(element_type) if shape.is_array else shape
