"""Ops of ONNX on single elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.context import OpKernelContext, flag, real
from lowtide.frontend.graphs.registry import Compute, op
from lowtide.frontend.graphs.shared import elementwise
from lowtide.frontend.graphs.shared.elementwise import binary
from lowtide.frontend.graphs.shared.tables import register_binary, register_unary
from lowtide.frontend.onnx.node_list import DOMAIN

_UNARY: Final = {
    "Abs": "abs",
    "Acos": "acos",
    "Acosh": "acosh",
    "Asin": "asin",
    "Asinh": "asinh",
    "Atan": "atan",
    "Atanh": "atanh",
    "BitwiseNot": "not",
    "Ceil": "ceil",
    "Cos": "cos",
    "Cosh": "cosh",
    "Erf": "erf",
    "Exp": "exp",
    "Floor": "floor",
    "HardSwish": "hard_swish",
    "IsNaN": "is_nan",
    "Log": "log",
    "Mish": "mish",
    "Neg": "neg",
    "Not": "not",
    "Reciprocal": "reciprocal",
    "Relu": "relu",
    "Round": "round",
    "Sigmoid": "sigmoid",
    "Sign": "sign",
    "Sin": "sin",
    "Sinh": "sinh",
    "Softplus": "softplus",
    "Softsign": "softsign",
    "Sqrt": "sqrt",
    "Tan": "tan",
    "Tanh": "tanh",
}

_BINARY: Final = {
    "Add": "add",
    "And": "and",
    "BitwiseAnd": "and",
    "BitwiseOr": "or",
    "BitwiseXor": "xor",
    "Div": "div",
    "Equal": "equal",
    "Greater": "greater",
    "GreaterOrEqual": "greater_equal",
    "Less": "less",
    "LessOrEqual": "less_equal",
    "Mul": "mul",
    "Or": "or",
    "Sub": "sub",
    "Xor": "xor",
}

register_unary(DOMAIN, _UNARY)
register_binary(DOMAIN, _BINARY)


Parameterized = Callable[..., Op]

_WITH_NUMBERS: Final[dict[str, tuple[Parameterized, dict[str, float]]]] = {
    "Celu": (elementwise.celu, {"alpha": 1.0}),
    "Elu": (elementwise.elu, {"alpha": 1.0}),
    "HardSigmoid": (elementwise.hard_sigmoid, {"alpha": 0.2, "beta": 0.5}),
    "LeakyRelu": (elementwise.leaky_relu, {"alpha": 0.01}),
    "Selu": (elementwise.selu, {"alpha": elementwise.SELU_ALPHA, "gamma": elementwise.SELU_SCALE}),
    "ThresholdedRelu": (
        lambda b, x, alpha: b.select(x.gt(alpha), x, elementwise.zeros_like(b, x)),
        {"alpha": 1.0},
    ),
}
"""Functions of one input with numbers among the attributes, and their defaults, in order."""


def _with_numbers(function: Parameterized, defaults: dict[str, float]) -> Compute:
    def compute(context: OpKernelContext) -> None:
        numbers = [context.attribute(name, real, default) for name, default in defaults.items()]
        context.set_output(0, function(context.builder, context.input(0), *numbers))

    return compute


for _name, (_function, _defaults) in _WITH_NUMBERS.items():
    op(_name, domain=DOMAIN, inputs=1)(_with_numbers(_function, _defaults))


def _folded(name: str) -> Compute:
    def compute(context: OpKernelContext) -> None:
        first, *rest = context.inputs()
        for value in rest:
            first = binary(name, context.builder, first, value)
        context.set_output(0, first)

    return compute


for _name, _function_name in (("Max", "max"), ("Min", "min"), ("Sum", "add")):
    op(_name, domain=DOMAIN, inputs=(1, 1 << 30))(_folded(_function_name))


@op("Mean", domain=DOMAIN, inputs=(1, 1 << 30))
def mean(context: OpKernelContext) -> None:
    """Give the mean of all inputs."""
    first, *rest = context.inputs()
    for value in rest:
        first = binary("add", context.builder, first, value)
    context.set_output(0, first / float(context.input_count))


@op("Pow", domain=DOMAIN, inputs=2)
def power(context: OpKernelContext) -> None:
    """Give x to the power y, in the type of x."""
    b, (x, y) = context.builder, context.inputs()
    if x.element_type is not y.element_type:
        y = b.convert(y, x.element_type)
    context.set_output(0, binary("pow", b, x, y))


@op("Mod", domain=DOMAIN, inputs=2)
def mod(context: OpKernelContext) -> None:
    """Give the remainder with the sign of the divisor, or with `fmod` that of the dividend."""
    name = "trunc_mod" if context.attribute("fmod", flag, False) else "floor_mod"
    context.set_output(0, binary(name, context.builder, *context.inputs()))


@op("BitShift", domain=DOMAIN, inputs=2)
def bit_shift(context: OpKernelContext) -> None:
    """Give bits moved LEFT or RIGHT."""
    names = {"LEFT": "shift_left", "RIGHT": "shift_right"}
    name = context.choice("direction", names, "")
    context.set_output(0, binary(name, context.builder, *context.inputs()))


@op("PRelu", domain=DOMAIN, inputs=2)
def p_relu(context: OpKernelContext) -> None:
    """Give x where it is positive, else slope x."""
    b, (x, slope) = context.builder, context.inputs()
    context.set_output(0, b.select(x.lt(0), binary("mul", b, x, slope), x))


@op("Gelu", domain=DOMAIN, inputs=1)
def gelu(context: OpKernelContext) -> None:
    """Give x Phi(x), or its approximation by tanh."""
    functions: dict[str, Callable[[Builder, Op], Op]] = {
        "none": elementwise.gelu,
        "tanh": elementwise.gelu_tanh,
    }
    function = context.choice("approximate", functions, "none")
    context.set_output(0, function(context.builder, context.input(0)))


@op("IsInf", domain=DOMAIN, inputs=1)
def is_inf(context: OpKernelContext) -> None:
    """Give whether x is one of the infinities that count."""
    x = context.input(0)
    signs = [
        x.eq(sign * np.inf)
        for sign, name in ((1.0, "detect_positive"), (-1.0, "detect_negative"))
        if context.attribute(name, flag, True)
    ]
    result = x.ne(x) & x.eq(x) if not signs else signs[0]
    context.set_output(0, result | signs[1] if len(signs) == 2 else result)


@op("Clip", domain=DOMAIN, inputs=(1, 3))
def clip(context: OpKernelContext) -> None:
    """Give x within the bounds that are given, as inputs or, before opset 11, as attributes."""
    b, x = context.builder, context.input(0)
    bounds = []
    for number, name in ((1, "min"), (2, "max")):
        value = context.attribute(name, real, None)
        given = None if value is None else b.constant(np.asarray(value), x.element_type)
        bounds.append(context.optional(number) if context.has_input(number) else given)
    context.set_output(0, elementwise.clip(b, x, *bounds))


@op("Where", domain=DOMAIN, inputs=3)
def where(context: OpKernelContext) -> None:
    """Give one or the other input; all three broadcast."""
    context.set_output(0, elementwise.select(context.builder, *context.inputs()))


@op("Cast", domain=DOMAIN, inputs=1)
def cast(context: OpKernelContext) -> None:
    """Give the input in the type `to`."""
    target = context.element_type("to")
    context.set_output(0, elementwise.cast(context.builder, context.input(0), target))


@op("CastLike", domain=DOMAIN, inputs=2)
def cast_like(context: OpKernelContext) -> None:
    """Give the input in the type of another one."""
    x, like = context.inputs()
    context.set_output(0, elementwise.cast(context.builder, x, like.element_type))


@op("Identity", domain=DOMAIN, inputs=1)
def identity(context: OpKernelContext) -> None:
    """Give the input."""
    context.set_output(0, context.expression(0))


@op("Dropout", domain=DOMAIN, inputs=(1, 3))
def dropout(context: OpKernelContext) -> None:
    """Give the input, and a mask of all: nothing is dropped but in training, which is refused."""
    training = context.known(2)
    if context.has_input(2) and (training is None or bool(training)):
        raise context.error("training_mode has to be false: random masks are not supported")
    x = context.expression(0)
    context.set_output(0, x)
    context.set_output(1, np.ones(x.shape.dimensions, np.bool_))
