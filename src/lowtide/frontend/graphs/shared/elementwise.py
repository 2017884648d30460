"""Functions of single elements that frameworks name, and ops that are one such function each."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.context import OpKernelContext
from lowtide.frontend.graphs.registry import Compute, op
from lowtide.frontend.graphs.shared import elementwise
from lowtide.frontend.graphs.shared.broadcasting import together
from lowtide.ir import Opcode
from lowtide.ir.attributes import Constant
from lowtide.ir.element_type import ElementType

Unary: TypeAlias = Callable[[Builder, Op], Op]
Binary: TypeAlias = Callable[[Builder, Op, Op], Op]

SELU_ALPHA: Final = 1.6732632423543772
SELU_SCALE: Final = 1.0507009873554805
"""The constants of Klambauer et al. 2017, Self-Normalizing Neural Networks."""


def _is_whole(x: Op) -> bool:
    return x.element_type.is_integer or x.element_type is ElementType.PRED


def _of_floats(function: Unary) -> Unary:
    """Leave integers as they are: for roundings."""
    return lambda b, x: x if _is_whole(x) else function(b, x)


def relu(b: Builder, x: Op) -> Op:
    """Return max(x, 0)."""
    return b.maximum(x, 0)


def relu6(b: Builder, x: Op) -> Op:
    """Return x within [0, 6]."""
    return b.clamp(b.constant(0, x.element_type), x, b.constant(6, x.element_type))


def leaky_relu(b: Builder, x: Op, alpha: float) -> Op:
    """Return x where it is positive, else alpha x."""
    return b.select(x.gt(0), x, x * alpha)


def elu(b: Builder, x: Op, alpha: float = 1.0) -> Op:
    """Return x where it is positive, else alpha (e^x - 1)."""
    return b.select(x.gt(0), x, b.exponential_minus_one(x) * alpha)


def celu(b: Builder, x: Op, alpha: float) -> Op:
    """Return max(0, x) + min(0, alpha (e^(x / alpha) - 1))."""
    return b.maximum(x, 0.0) + b.minimum(b.exponential_minus_one(x / alpha) * alpha, 0.0)


def selu(b: Builder, x: Op, alpha: float = SELU_ALPHA, scale: float = SELU_SCALE) -> Op:
    """Return elu of `alpha`, scaled."""
    return elu(b, x, alpha) * scale


def softplus(b: Builder, x: Op) -> Op:
    """Return log(1 + e^x), without overflow."""
    return b.maximum(x, 0.0) + b.log_plus_one(b.exponential(-b.abs(x)))


def softsign(b: Builder, x: Op) -> Op:
    """Return x / (1 + |x|)."""
    return x / (b.abs(x) + 1.0)


def gelu(b: Builder, x: Op) -> Op:
    """Return x Phi(x), where Phi is the normal distribution function."""
    return x * 0.5 * (b.erf(x * math.sqrt(0.5)) + 1.0)


def gelu_tanh(b: Builder, x: Op) -> Op:
    """Return the approximation of gelu by tanh (Hendrycks and Gimpel 2016)."""
    inner = (x + x * x * x * 0.044715) * math.sqrt(2 / math.pi)
    return x * 0.5 * (b.tanh(inner) + 1.0)


def hard_sigmoid(b: Builder, x: Op, alpha: float, beta: float) -> Op:
    """Return alpha x + beta within [0, 1]."""
    one = b.constant(1.0, x.element_type)
    return b.clamp(b.constant(0.0, x.element_type), x * alpha + beta, one)


def hard_swish(b: Builder, x: Op) -> Op:
    """Return x times hard_sigmoid of x with alpha 1/6 and beta 1/2."""
    return x * hard_sigmoid(b, x, 1 / 6, 0.5)


def is_nan(b: Builder, x: Op) -> Op:
    """Return whether x is no number."""
    return x.ne(x)


def is_inf(b: Builder, x: Op) -> Op:
    """Return whether x is infinite."""
    return b.abs(x).eq(math.inf)


def atan(b: Builder, x: Op) -> Op:
    """Return the inverse of the tangent."""
    return b.atan2(x, 1.0)


def reciprocal(b: Builder, x: Op) -> Op:
    """Return 1 / x."""
    return b.divide(1, x) if _is_whole(x) else b.divide(1.0, x)


def zeros_like(b: Builder, x: Op) -> Op:
    """Return zeros."""
    return b.broadcast(b.constant(0, x.element_type), x.dimensions, [])


def ones_like(b: Builder, x: Op) -> Op:
    """Return ones."""
    return b.broadcast(b.constant(1, x.element_type), x.dimensions, [])


def mish(b: Builder, x: Op) -> Op:
    """Return x tanh(softplus(x))."""
    return x * b.tanh(softplus(b, x))


UNARY: Final[dict[str, Unary]] = {
    "abs": Builder.abs,
    "acos": Builder.acos,
    "acosh": Builder.acosh,
    "asin": Builder.asin,
    "asinh": Builder.asinh,
    "atan": atan,
    "atanh": Builder.atanh,
    "ceil": _of_floats(Builder.ceil),
    "cos": Builder.cosine,
    "cosh": Builder.cosh,
    "elu": elu,
    "erf": Builder.erf,
    "erfc": lambda b, x: b.subtract(1.0, b.erf(x)),
    "exp": Builder.exponential,
    "expm1": Builder.exponential_minus_one,
    "floor": _of_floats(Builder.floor),
    "hard_swish": hard_swish,
    "identity": lambda b, x: x,
    "is_finite": Builder.is_finite,
    "is_inf": is_inf,
    "is_nan": is_nan,
    "log": Builder.log,
    "log1p": Builder.log_plus_one,
    "mish": mish,
    "neg": Builder.negate,
    "not": Builder.not_,
    "ones_like": ones_like,
    "reciprocal": reciprocal,
    "relu": relu,
    "relu6": relu6,
    "round": _of_floats(Builder.round_nearest_even),
    "rsqrt": Builder.rsqrt,
    "selu": selu,
    "sigmoid": Builder.logistic,
    "sign": Builder.sign,
    "sin": Builder.sine,
    "sinh": Builder.sinh,
    "softplus": softplus,
    "softsign": softsign,
    "sqrt": Builder.sqrt,
    "square": lambda b, x: x * x,
    "tan": Builder.tan,
    "tanh": Builder.tanh,
    "zeros_like": zeros_like,
}
"""Functions of one operand."""


def divide_no_nan(b: Builder, x: Op, y: Op) -> Op:
    """Return x / y, 0 where y is 0."""
    is_zero = y.eq(0)
    safe = b.select(is_zero, ones_like(b, y), y)
    return b.select(is_zero, zeros_like(b, x), x / safe)


def squared_difference(b: Builder, x: Op, y: Op) -> Op:
    """Return the square of x - y."""
    difference = x - y
    return difference * difference


def _compared(direction: str) -> Binary:
    return lambda b, x, y: b.compare(x, y, direction)


def shift_right(b: Builder, x: Op, y: Op) -> Op:
    """Return x with its bits moved down; the sign comes in for signed integers."""
    return x >> y


def power(b: Builder, x: Op, y: Op) -> Op:
    """Return x to the power y; x * x * x for a third power of f32 or f64, which rounds twice.

    Forms of GELU have one: a power in general takes several times as long as all the rest of them.
    """
    is_wide = x.element_type in (ElementType.F32, ElementType.F64)
    return x * x * x if is_wide and _is_everywhere(y, 3) else b.power(x, y)


def _is_everywhere(x: Op, number: float) -> bool:
    """Whether all elements are constants of this value."""
    made = x.instruction
    while made.opcode in (Opcode.BROADCAST, Opcode.RESHAPE):
        made = made.operands[0]
    if made.opcode is not Opcode.CONSTANT:
        return False
    literal = made.attributes_as(Constant).literal
    return not literal.elided and bool((literal.array == number).all())


BINARY: Final[dict[str, Binary]] = {
    "add": Builder.add,
    "and": Builder.and_,
    "atan2": Builder.atan2,
    "div": Builder.divide,
    "div_no_nan": divide_no_nan,
    "equal": _compared("EQ"),
    "floor_div": Builder.floor_divide,
    "floor_mod": Builder.modulo,
    "greater": _compared("GT"),
    "greater_equal": _compared("GE"),
    "less": _compared("LT"),
    "less_equal": _compared("LE"),
    "max": Builder.maximum,
    "min": Builder.minimum,
    "mul": Builder.multiply,
    "not_equal": _compared("NE"),
    "or": Builder.or_,
    "pow": power,
    "shift_left": Builder.shift_left,
    "shift_right": shift_right,
    "squared_difference": squared_difference,
    "sub": Builder.subtract,
    "trunc_mod": Builder.remainder,
    "xor": Builder.xor,
}
"""Functions of two operands of equal dimensions."""


def unary(name: str, b: Builder, x: Op) -> Op:
    """Return a function of the table for one operand."""
    return UNARY[name](b, x)


def binary(name: str, b: Builder, x: Op, y: Op) -> Op:
    """Return a function of the table for two operands, which are broadcast as in NumPy."""
    return BINARY[name](b, *together(b, [x, y]))


def select(b: Builder, condition: Op, on_true: Op, on_false: Op) -> Op:
    """Return elements of one or the other operand; all three are broadcast as in NumPy."""
    return b.select(*together(b, [condition, on_true, on_false]))


def clip(b: Builder, x: Op, low: Op | None, high: Op | None) -> Op:
    """Return x, not below `low` and not above `high` where these are given."""
    if low is not None:
        x = binary("max", b, x, low)
    return x if high is None else binary("min", b, x, high)


def cast(b: Builder, x: Op, target: ElementType) -> Op:
    """Return x in another type; floats are truncated to integers, and what is not 0 is true.

    Of complex numbers all but complex types take the real part.
    """
    if x.element_type is target:
        return x
    if target is ElementType.PRED:
        return x.ne(0)
    if x.element_type.is_complex and not target.is_complex:
        x = b.real(x)
    return b.convert(x, target)


def register_unary(domain: str, table: Mapping[str, str]) -> None:
    """Register ops of one input: their names, and those in `elementwise.UNARY`."""
    for name, function in table.items():
        op(name, domain=domain, inputs=1)(_unary(function))


def register_binary(domain: str, table: Mapping[str, str]) -> None:
    """Register ops of two inputs that broadcast: their names, and those in `elementwise.BINARY`."""
    for name, function in table.items():
        op(name, domain=domain, inputs=2)(_binary(function))


def _unary(function: str) -> Compute:
    def compute(context: OpKernelContext) -> None:
        context.set_output(0, elementwise.unary(function, context.builder, context.input(0)))

    return compute


def _binary(function: str) -> Compute:
    def compute(context: OpKernelContext) -> None:
        x, y = context.input(0), context.input(1)
        context.set_output(0, elementwise.binary(function, context.builder, x, y))

    return compute
