"""Operations on each element alone: arithmetic, comparison, choice, conversion."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from lowtide.ir.attributes import Compare, ReducePrecision
from lowtide.ir.element_type import ElementType
from lowtide.ir.errors import ShapeError
from lowtide.ir.opcode import Opcode
from lowtide.ir.shape import UNBOUNDED, ProgramShape, Shape
from lowtide.ops.checks import (
    COMPLEX_OF,
    Dimension,
    Predicate,
    array,
    dimensions_of,
    higher_precision,
    laid_out_as,
    make_array,
    number_kinds,
    plain,
    same_sizes,
    same_type,
    tighter,
)
from lowtide.ops.definition import Infer, OpDefinition
from lowtide.ops.quantities import Cost, bytes_touched, flop_per_element, moves_all

Shapes = Sequence[Shape]
Called = Sequence[ProgramShape]

# -- cost --------------------------------------------------------------------------------------


def transcendental_per_element(
    result: Shape, operands: Shapes, attributes: Any, called: Sequence[Cost]
) -> Cost:
    """Return one transcendental per element of the result."""
    return Cost(0, result.element_count, bytes_touched(result, operands))


# -- one operand -------------------------------------------------------------------------------

REAL_NUMBERS: Final = number_kinds("integral", "floating", "complex")
FLOATING: Final = number_kinds("floating")
FLOATING_OR_COMPLEX: Final = number_kinds("floating", "complex")
INTEGRAL: Final = number_kinds("integral")
BITS: Final = number_kinds("pred", "integral")


def _infer_unary(kinds: tuple[Predicate, str]) -> Infer:
    accepts, words = kinds

    def infer(operands: Shapes, attributes: Any, called: Called) -> Shape:
        operand = array(operands[0], "the operand")
        if not accepts(operand.element_type):
            raise ShapeError(f"the operand must be {words}, not {plain(operand)}")
        return operand

    return infer


def _infer_component(kinds: tuple[Predicate, str]) -> Infer:
    check = _infer_unary(kinds)

    def infer(operands: Shapes, attributes: Any, called: Called) -> Shape:
        operand = check(operands, attributes, called)
        return operand.with_element_type(operand.element_type.part)

    return infer


def _infer_is_finite(operands: Shapes, attributes: Any, called: Called) -> Shape:
    return _infer_unary(FLOATING)(operands, attributes, called).with_element_type(ElementType.PRED)


def _infer_copy(operands: Shapes, attributes: Any, called: Called) -> Shape:
    return operands[0]


def _verify_convert(result: Shape, operands: Shapes, attributes: Any, called: Called) -> None:
    operand = array(operands[0], "the operand")
    _same_sizes(array(result, "the result"), operand, "the operand")
    if operand.element_type.is_complex and not result.element_type.is_complex:
        raise ShapeError(f"a complex array cannot become {plain(result)}: take real or imag first")


def _verify_stochastic_convert(
    result: Shape, operands: Shapes, attributes: Any, called: Called
) -> None:
    operand, random = operands
    if not array(operand, "the operand").element_type.is_floating:
        raise ShapeError(f"the operand must be floating, not {plain(operand)}")
    if not array(random, "the random bits").element_type.is_unsigned:
        raise ShapeError(f"the random bits must be unsigned, not {plain(random)}")
    if random.element_type.bits != operand.element_type.bits:
        raise ShapeError(f"{plain(random)} must have the width of {plain(operand)}")
    _same_sizes(random, operand, "the operand")
    _same_sizes(array(result, "the result"), operand, "the operand")


def _verify_reduce_precision(
    result: Shape, operands: Shapes, attributes: ReducePrecision, called: Called
) -> None:
    if attributes.exponent_bits < 1:
        raise ShapeError(f"exponent_bits must be at least 1, not {attributes.exponent_bits}")
    if attributes.mantissa_bits < 0:
        raise ShapeError(f"mantissa_bits must be at least 0, not {attributes.mantissa_bits}")


def _same_sizes(shape: Shape, model: Shape, what: str) -> None:
    if not same_sizes(shape, model):
        raise ShapeError(f"{plain(shape)} must have the dimensions of {what}, {plain(model)}")


def verify_no_broadcast(result: Shape, operands: Shapes, attributes: Any, called: Called) -> None:
    """Check that each operand has the dimensions of the result: HLO broadcasts nothing itself."""
    for number, operand in enumerate(operands):
        _same_sizes(operand, result, f"the result (operand {number} is never broadcast)")


# -- two operands ------------------------------------------------------------------------------


def _merged(a: Dimension, b: Dimension) -> Dimension | None:
    """Return the dimension of the result of two operands, None where they do not fit."""
    if a[0] == b[0]:
        return a[0], a[1] or b[1]
    if a[0] == 1:
        return b
    if b[0] == 1:
        return a
    if UNBOUNDED in (a[0], b[0]):
        return tighter(a, b)
    return None


def merged_shape(lhs: Shape, rhs: Shape, element_type: ElementType) -> Shape:
    """Return the shape on which both arrays meet, laid out as `lhs` where that has its sizes.

    A scalar and sizes of 1 stretch, as in XLA, whose verifier rejects such a program later.
    """
    if lhs.rank != rhs.rank:
        if lhs.rank and rhs.rank:
            raise ShapeError(f"the operands differ in rank: {plain(lhs)} and {plain(rhs)}")
        return make_array(element_type, dimensions_of(lhs if lhs.rank else rhs))
    if lhs.dimensions == rhs.dimensions and not lhs.dynamic and not rhs.dynamic:
        return lhs if lhs.element_type is element_type else lhs.with_element_type(element_type)
    dimensions = []
    for a, b in zip(dimensions_of(lhs), dimensions_of(rhs), strict=True):
        dimension = _merged(a, b)
        if dimension is None:
            raise ShapeError(f"the operands differ in size: {plain(lhs)} and {plain(rhs)}")
        dimensions.append(dimension)
    result = make_array(element_type, dimensions)
    return laid_out_as(result, lhs) if result.dimensions == lhs.dimensions else result


def _binary_operands(operands: Shapes) -> tuple[Shape, Shape]:
    lhs, rhs = operands
    array(lhs, "operand 0")
    array(rhs, "operand 1")
    if not same_type(lhs.element_type, rhs.element_type):
        raise ShapeError(f"the operands differ in type: {plain(lhs)} and {plain(rhs)}")
    return lhs, rhs


def _infer_binary(kinds: tuple[Predicate, str] | None) -> Infer:
    def infer(operands: Shapes, attributes: Any, called: Called) -> Shape:
        lhs, rhs = _binary_operands(operands)
        if kinds is not None and not kinds[0](lhs.element_type):
            raise ShapeError(f"the operands must be {kinds[1]}, not {plain(lhs)}")
        return merged_shape(lhs, rhs, higher_precision(lhs.element_type, rhs.element_type))

    return infer


def _infer_compare(operands: Shapes, attributes: Any, called: Called) -> Shape:
    lhs, rhs = _binary_operands(operands)
    return merged_shape(lhs, rhs, ElementType.PRED)


def _infer_complex(operands: Shapes, attributes: Any, called: Called) -> Shape:
    lhs, rhs = _binary_operands(operands)
    whole = COMPLEX_OF.get(lhs.element_type)
    if whole is None:
        raise ShapeError(f"the operands must be f32 or f64, not {plain(lhs)}")
    return merged_shape(lhs, rhs, whole)


_DIRECTIONS: Final = frozenset({"EQ", "NE", "GE", "GT", "LE", "LT"})


def _verify_compare(result: Shape, operands: Shapes, attributes: Compare, called: Called) -> None:
    if attributes.direction not in _DIRECTIONS:
        raise ShapeError(f"direction {attributes.direction!r} is none of {sorted(_DIRECTIONS)}")
    if operands[0].element_type.is_complex and attributes.direction not in ("EQ", "NE"):
        raise ShapeError(f"complex numbers compare by EQ and NE only, not {attributes.direction}")
    verify_no_broadcast(result, operands, attributes, called)


# -- three operands ----------------------------------------------------------------------------


def _infer_select(operands: Shapes, attributes: Any, called: Called) -> Shape:
    pred, on_true, on_false = operands
    for number, operand in enumerate(operands):
        array(operand, f"operand {number}")
    if pred.element_type is not ElementType.PRED:
        raise ShapeError(f"operand 0 must be pred, not {plain(pred)}")
    if not same_type(on_true.element_type, on_false.element_type) or not same_sizes(
        on_true, on_false
    ):
        raise ShapeError(f"operands 1 and 2 differ: {plain(on_true)} and {plain(on_false)}")
    if pred.rank and not same_sizes(pred, on_true):
        raise ShapeError(f"{plain(pred)} must be a scalar or have the sizes of {plain(on_true)}")
    element_type = higher_precision(on_true.element_type, on_false.element_type)
    whole = pred if pred.rank else on_true
    if not any(x.dynamic for x in operands):
        return whole.with_element_type(element_type)
    dimensions = [
        tighter(a, b) for a, b in zip(dimensions_of(on_true), dimensions_of(on_false), strict=True)
    ]
    if pred.rank:
        dimensions = [tighter(a, b) for a, b in zip(dimensions, dimensions_of(pred), strict=True)]
    return laid_out_as(make_array(element_type, dimensions), whole)


def _verify_select(result: Shape, operands: Shapes, attributes: Any, called: Called) -> None:
    for number in (1, 2):
        _same_sizes(operands[number], result, "the result")


def _infer_clamp(operands: Shapes, attributes: Any, called: Called) -> Shape:
    low, operand, high = operands
    for number, shape in enumerate(operands):
        array(shape, f"operand {number}")
    for bound in (low, high):
        if not same_type(bound.element_type, operand.element_type):
            raise ShapeError(f"a bound {plain(bound)} differs in type from {plain(operand)}")
        if bound.rank and not same_sizes(bound, operand):
            raise ShapeError(f"a bound must be a scalar or {plain(operand)}, not {plain(bound)}")
    return operand


# -- the table ---------------------------------------------------------------------------------


_per_element: Final = partial(OpDefinition, cost=flop_per_element, elementwise=True)
"""The row of an operation that computes each element of the result by itself."""


def _unary(
    opcode: Opcode, kinds: tuple[Predicate, str], summary: str, *, slow: bool
) -> OpDefinition:
    return _per_element(
        opcode,
        summary,
        infer=_infer_unary(kinds),
        verify=verify_no_broadcast,
        cost=transcendental_per_element if slow else flop_per_element,
    )


def _binary(
    opcode: Opcode,
    kinds: tuple[Predicate, str] | None,
    summary: str,
    *,
    slow: bool = False,
    commutative: bool = False,
) -> OpDefinition:
    return _per_element(
        opcode,
        summary,
        arity=(2, 2),
        infer=_infer_binary(kinds),
        verify=verify_no_broadcast,
        cost=transcendental_per_element if slow else flop_per_element,
        commutative=commutative,
    )


_UNARY: Final = tuple(
    [
        _unary(opcode, kinds, summary, slow=False)
        for opcode, kinds, summary in (
            (Opcode.CEIL, FLOATING, "the least integer not below x"),
            (Opcode.COUNT_LEADING_ZEROS, INTEGRAL, "the number of zero bits before the first one"),
            (Opcode.FLOOR, FLOATING, "the greatest integer not above x"),
            (Opcode.NEGATE, REAL_NUMBERS, "-x"),
            (Opcode.NOT, BITS, "the complement of each bit"),
            (Opcode.POPULATION_COUNT, INTEGRAL, "the number of one bits"),
            (Opcode.ROUND_NEAREST_AFZ, FLOATING, "the nearest integer, halves away from zero"),
            (Opcode.ROUND_NEAREST_EVEN, FLOATING, "the nearest integer, halves to even"),
            (Opcode.SIGN, REAL_NUMBERS, "-1, 0 or 1; x / |x| of complex numbers"),
        )
    ]
)

_TRANSCENDENTAL: Final = tuple(
    [
        _unary(opcode, kinds, summary, slow=True)
        for opcode, kinds, summary in (
            (Opcode.ACOS, FLOATING_OR_COMPLEX, "the inverse cosine"),
            (Opcode.ACOSH, FLOATING_OR_COMPLEX, "the inverse hyperbolic cosine"),
            (Opcode.ASIN, FLOATING_OR_COMPLEX, "the inverse sine"),
            (Opcode.ASINH, FLOATING_OR_COMPLEX, "the inverse hyperbolic sine"),
            (Opcode.ATANH, FLOATING_OR_COMPLEX, "the inverse hyperbolic tangent"),
            (Opcode.CBRT, FLOATING, "the cube root"),
            (Opcode.COSH, FLOATING_OR_COMPLEX, "the hyperbolic cosine"),
            (Opcode.COSINE, FLOATING_OR_COMPLEX, "the cosine"),
            (Opcode.ERF, FLOATING, "the error function"),
            (Opcode.EXPONENTIAL, FLOATING_OR_COMPLEX, "e to the x"),
            (Opcode.EXPONENTIAL_MINUS_ONE, FLOATING_OR_COMPLEX, "e to the x, minus 1"),
            (Opcode.LOG, FLOATING_OR_COMPLEX, "the natural logarithm"),
            (Opcode.LOG_PLUS_ONE, FLOATING_OR_COMPLEX, "the natural logarithm of 1 + x"),
            (Opcode.LOGISTIC, FLOATING_OR_COMPLEX, "1 / (1 + exp(-x))"),
            (Opcode.RSQRT, FLOATING_OR_COMPLEX, "1 / sqrt(x)"),
            (Opcode.SINE, FLOATING_OR_COMPLEX, "the sine"),
            (Opcode.SINH, FLOATING_OR_COMPLEX, "the hyperbolic sine"),
            (Opcode.SQRT, FLOATING_OR_COMPLEX, "the square root"),
            (Opcode.TAN, FLOATING_OR_COMPLEX, "the tangent"),
            (Opcode.TANH, FLOATING_OR_COMPLEX, "the hyperbolic tangent"),
        )
    ]
)

_BINARY: Final = (
    _binary(Opcode.ADD, None, "a + b, logical or of predicates", commutative=True),
    _binary(Opcode.AND, BITS, "the bits set in both", commutative=True),
    _binary(Opcode.ATAN2, FLOATING_OR_COMPLEX, "the angle of the point (b, a)", slow=True),
    _binary(Opcode.DIVIDE, REAL_NUMBERS, "a / b, towards zero for integers"),
    _binary(Opcode.MAXIMUM, None, "the greater one", commutative=True),
    _binary(Opcode.MINIMUM, None, "the lesser one", commutative=True),
    _binary(Opcode.MULHI, None, "the upper half of the bits of a * b", commutative=True),
    _binary(Opcode.MULTIPLY, None, "a * b, logical and of predicates", commutative=True),
    _binary(Opcode.OR, BITS, "the bits set in either", commutative=True),
    _binary(Opcode.POWER, REAL_NUMBERS, "a to the power of b", slow=True),
    _binary(Opcode.REMAINDER, REAL_NUMBERS, "the rest of a / b, with the sign of a"),
    _binary(Opcode.SHIFT_LEFT, REAL_NUMBERS, "a shifted left by b bits"),
    _binary(Opcode.SHIFT_RIGHT_ARITHMETIC, REAL_NUMBERS, "a shifted right, copying the sign"),
    _binary(Opcode.SHIFT_RIGHT_LOGICAL, REAL_NUMBERS, "a shifted right, filling with zeros"),
    _binary(Opcode.SUBTRACT, REAL_NUMBERS, "a - b"),
    _binary(Opcode.XOR, BITS, "the bits set in exactly one", commutative=True),
)

_OTHERS: Final = (
    _per_element(
        Opcode.ABS,
        "the absolute value; of complex numbers a real one",
        infer=_infer_component(REAL_NUMBERS),
        verify=verify_no_broadcast,
    ),
    _per_element(
        Opcode.REAL,
        "the real part",
        infer=_infer_component(FLOATING_OR_COMPLEX),
        verify=verify_no_broadcast,
    ),
    _per_element(
        Opcode.IMAG,
        "the imaginary part",
        infer=_infer_component(FLOATING_OR_COMPLEX),
        verify=verify_no_broadcast,
    ),
    _per_element(
        Opcode.IS_FINITE,
        "whether x is neither infinite nor NaN",
        infer=_infer_is_finite,
        verify=verify_no_broadcast,
    ),
    _per_element(
        Opcode.COPY,
        "the operand, in a buffer of its own and perhaps another layout",
        infer=_infer_copy,
        cost=moves_all,
        exact_type=True,
    ),
    _per_element(
        Opcode.CONVERT, "the value in another element type", verify=_verify_convert, declared=True
    ),
    _per_element(
        Opcode.STOCHASTIC_CONVERT,
        "the value in another type, rounded up or down by random bits",
        arity=(2, 2),
        verify=_verify_stochastic_convert,
        declared=True,
    ),
    _per_element(
        Opcode.REDUCE_PRECISION,
        "the value rounded to a narrower format, in its own type",
        attributes=ReducePrecision,
        infer=_infer_unary(FLOATING),
        verify=_verify_reduce_precision,
        declared=True,
    ),
    _per_element(
        Opcode.COMPARE,
        "whether a and b stand in an order relation",
        arity=(2, 2),
        attributes=Compare,
        infer=_infer_compare,
        verify=_verify_compare,
    ),
    _per_element(
        Opcode.COMPLEX, "a + bi", arity=(2, 2), infer=_infer_complex, verify=verify_no_broadcast
    ),
    _per_element(
        Opcode.SELECT,
        "operand 1 where operand 0 is true, else operand 2",
        arity=(3, 3),
        infer=_infer_select,
        verify=_verify_select,
    ),
    _per_element(
        Opcode.CLAMP,
        "operand 1 kept between operand 0 and operand 2",
        arity=(3, 3),
        infer=_infer_clamp,
    ),
)

OPERATIONS: Final = _UNARY + _TRANSCENDENTAL + _BINARY + _OTHERS
