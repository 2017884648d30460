"""Ops of ONNX on single elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.context import OpKernelContext, flag, integer, real, text
from lowtide.frontend.graphs.graph import NoTensorFormError
from lowtide.frontend.graphs.registry import Compute, name_table, op
from lowtide.frontend.graphs.shared import elementwise
from lowtide.frontend.graphs.shared.broadcasting import scalar
from lowtide.frontend.graphs.shared.elementwise import binary, register_unary
from lowtide.frontend.graphs.shared.narrow import power_of_two, saturated
from lowtide.frontend.onnx.node_list import DOMAIN
from lowtide.ir.element_type import ElementType

_UNARY: Final = name_table(
    """
    Abs=abs Acos=acos Acosh=acosh Asin=asin Asinh=asinh Atan=atan Atanh=atanh BitwiseNot=not
    Ceil=ceil Cos=cos Cosh=cosh Erf=erf Exp=exp Floor=floor HardSwish=hard_swish IsNaN=is_nan
    Log=log Mish=mish Neg=neg Not=not Reciprocal=reciprocal Relu=relu Round=round
    Sigmoid=sigmoid Sign=sign Sin=sin Sinh=sinh Softplus=softplus Softsign=softsign Sqrt=sqrt
    Tan=tan Tanh=tanh
    """
)

_BINARY: Final = name_table(
    """
    Add=add And=and BitwiseAnd=and BitwiseOr=or BitwiseXor=xor Div=div Equal=equal
    Greater=greater GreaterOrEqual=greater_equal Less=less LessOrEqual=less_equal Mul=mul Or=or
    Sub=sub Xor=xor
    """
)

register_unary(DOMAIN, _UNARY)


def _pairwise(name: str) -> Compute:
    def compute(context: OpKernelContext) -> None:
        b, x, y = context.builder, context.input(0), context.input(1)
        if context.version < 7 and context.attribute("broadcast", flag, False) and y.rank:
            start = context.attribute("axis", integer, x.rank - y.rank) % max(x.rank, 1)
            y = b.reshape(y, [*y.dimensions, *[1] * (x.rank - start - y.rank)])
        context.set_output(0, binary(name, b, x, y))

    return compute


for _op_name, _function_name in _BINARY.items():
    op(_op_name, domain=DOMAIN, inputs=2)(_pairwise(_function_name))


Parameterized = Callable[..., Op]

_WITH_NUMBERS: Final[dict[str, tuple[Parameterized, dict[str, float]]]] = {
    "Celu": (elementwise.celu, {"alpha": 1.0}),
    "Elu": (elementwise.elu, {"alpha": 1.0}),
    "HardSigmoid": (elementwise.hard_sigmoid, {"alpha": 0.2, "beta": 0.5}),
    "LeakyRelu": (elementwise.leaky_relu, {"alpha": 0.01}),
    "Selu": (elementwise.selu, {"alpha": elementwise.SELU_ALPHA, "gamma": elementwise.SELU_SCALE}),
    "Swish": (lambda b, x, alpha: x * b.logistic(x * alpha), {"alpha": 1.0}),
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
    if context.version < 7 and slope.rank == 1 and x.rank > 1:
        slope = b.reshape(slope, [*slope.dimensions, *[1] * (x.rank - 2)])
    context.set_output(0, b.select(x.lt(0), binary("mul", b, x, slope), x))


@op("Shrink", domain=DOMAIN, inputs=1)
def shrink(context: OpKernelContext) -> None:
    """Give x moved towards 0 by `bias`, 0 where it is within `lambd` of 0."""
    b, x = context.builder, context.input(0)
    reach, bias = [context.attribute(i, real, y) for i, y in (("lambd", 0.5), ("bias", 0.0))]
    low = b.convert(scalar(b, -reach, x), x.element_type)
    zero = elementwise.zeros_like(b, x)
    moved = [x + scalar(b, bias, x), x - scalar(b, bias, x)]
    inner = b.select(x.gt(scalar(b, reach, x)), moved[1], zero)
    context.set_output(0, b.select(x.lt(low), moved[0], inner))


@op("BitCast", domain=DOMAIN, inputs=1)
def bit_cast(context: OpKernelContext) -> None:
    """Give the bits of the input as another type of the same size."""
    b, x, target = context.builder, context.input(0), context.element_type("to")
    truths = ElementType.PRED
    if x.element_type is truths or target is truths:
        context.set_output(0, elementwise.cast(b, x, target))
        return
    context.set_output(0, b.bitcast_convert(x, target))


@op("ai.onnx.ml.Binarizer", domain=DOMAIN, inputs=1)
def binarizer(context: OpKernelContext) -> None:
    """Give 1 where x is above the threshold, else 0."""
    b, x = context.builder, context.input(0)
    threshold = context.attribute("threshold", real, 0.0)
    context.set_output(0, b.convert(x.gt(scalar(b, threshold, x)), x.element_type))


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
    context.set_output(0, _cast(context, context.input(0), _target(context)))


def _target(context: OpKernelContext) -> ElementType:
    if context.node.attributes.get("to") == _STRING:
        raise NoTensorFormError("text has no tensor form", node=context.node.name, op="Cast")
    return context.element_type("to")


_STRING: Final = 8
"""ONNX's number of the type of text."""


def _cast(context: OpKernelContext, x: Op, target: ElementType) -> Op:
    """X in another type: small floats saturate, small integers wrap around."""
    b = context.builder
    if not x.element_type.is_floating or x.element_type is target:
        return elementwise.cast(b, x, target)
    if target is ElementType.F8E8M0FNU:
        return power_of_two(b, x, context.attribute("round_mode", text, "up"))
    if target.is_integer and target.bits < 8:
        return b.convert(b.convert(x, ElementType.S32), target)
    is_small = target.is_floating and target.bits == 8
    if is_small and context.attribute("saturate", flag, True):
        return saturated(b, x, target)
    return elementwise.cast(b, x, target)


@op("CastLike", domain=DOMAIN, inputs=2)
def cast_like(context: OpKernelContext) -> None:
    """Give the input in the type of another one."""
    x, like = context.inputs()
    context.set_output(0, _cast(context, x, like.element_type))


@op("Identity", domain=DOMAIN, inputs=1)
def identity(context: OpKernelContext) -> None:
    """Give the input."""
    context.set_output(0, context.expression(0))


@op("Dropout", domain=DOMAIN, inputs=(1, 3))
def dropout(context: OpKernelContext) -> None:
    """Give the input, and a mask of all: nothing is dropped but in training, which is refused."""
    x = context.expression(0)
    if context.has_input(2) and bool(context.constant(2)):
        ratio = 0.5 if not context.has_input(1) else float(context.constant(1))
        if ratio:
            message = "a mask drawn at random has no tensor form"
            raise NoTensorFormError(message, node=context.node.name, op="Dropout")
    context.set_output(0, x)
    context.set_output(1, np.ones(x.shape.dimensions, np.bool_))
