"""Ops of TensorFlow on single elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.context import OpKernelContext, real
from lowtide.frontend.graphs.registry import name_table, op
from lowtide.frontend.graphs.shared import elementwise
from lowtide.frontend.graphs.shared.broadcasting import along, expand, together
from lowtide.frontend.graphs.shared.elementwise import register_binary, register_unary
from lowtide.frontend.tensorflow.graph_def import DOMAIN
from lowtide.ir.element_type import ElementType

_UNARY: Final = name_table(
    """
    Abs=abs Acos=acos Acosh=acosh Asin=asin Asinh=asinh Atan=atan Atanh=atanh Ceil=ceil Cos=cos
    Cosh=cosh Elu=elu Erf=erf Erfc=erfc Exp=exp Expm1=expm1 Floor=floor Inv=reciprocal
    Invert=not IsFinite=is_finite IsInf=is_inf IsNan=is_nan Log=log Log1p=log1p LogicalNot=not
    Neg=neg OnesLike=ones_like Reciprocal=reciprocal Relu=relu Relu6=relu6 Rint=round
    Round=round Rsqrt=rsqrt Selu=selu Sigmoid=sigmoid Sign=sign Sin=sin Sinh=sinh
    Softplus=softplus Softsign=softsign Sqrt=sqrt Square=square Tan=tan Tanh=tanh
    ZerosLike=zeros_like
    """
)

_BINARY: Final = name_table(
    """
    Add=add AddV2=add Atan2=atan2 BitwiseAnd=and BitwiseOr=or BitwiseXor=xor Div=div
    DivNoNan=div_no_nan Equal=equal FloorDiv=floor_div FloorMod=floor_mod Greater=greater
    GreaterEqual=greater_equal LeftShift=shift_left Less=less LessEqual=less_equal
    LogicalAnd=and LogicalOr=or Maximum=max Minimum=min Mod=trunc_mod Mul=mul NotEqual=not_equal
    Pow=pow RealDiv=div RightShift=shift_right SquaredDifference=squared_difference Sub=sub
    TruncateDiv=div TruncateMod=trunc_mod
    """
)


def _no_nan(b: Builder, x: Op, y: Op) -> Op:
    """The product, 0 where y is 0."""
    return b.select(y.eq(0), elementwise.zeros_like(b, x), x * y)


_TWO: Final[dict[str, Callable[[Builder, Op, Op], Op]]] = {
    "MulNoNan": _no_nan,
    "Xdivy": lambda b, x, y: b.select(x.eq(0), elementwise.zeros_like(b, x), x / y),
    "Xlog1py": lambda b, x, y: b.select(
        x.eq(0), elementwise.zeros_like(b, x), x * b.log_plus_one(y)
    ),
    "Xlogy": lambda b, x, y: b.select(x.eq(0), elementwise.zeros_like(b, x), x * b.log(y)),
}
"""Functions of two elements that are 0 where one of them is."""

register_unary(DOMAIN, _UNARY)
register_binary(DOMAIN, _BINARY)


@op(*_TWO, domain=DOMAIN, inputs=2)
def zero_where_zero(context: OpKernelContext) -> None:
    """Give a function of two elements; both inputs broadcast."""
    b = context.builder
    context.set_output(0, _TWO[context.node.op](b, *together(b, context.inputs())))


@op("ApproximateEqual", domain=DOMAIN, inputs=2)
def approximate_equal(context: OpKernelContext) -> None:
    """Give whether two elements are less than a tolerance apart."""
    x, y = context.inputs()
    tolerance = context.attribute("tolerance", real, 1e-5)
    context.set_output(0, context.builder.abs(x - y).lt(tolerance))


@op("PopulationCount", domain=DOMAIN, inputs=1)
def population_count(context: OpKernelContext) -> None:
    """Give how many bits are set."""
    b = context.builder
    context.set_output(0, b.convert(b.popcnt(context.input(0)), ElementType.U8))


@op("LeakyRelu", domain=DOMAIN, inputs=1)
def leaky_relu(context: OpKernelContext) -> None:
    """Give x where it is positive, else alpha x."""
    alpha = context.attribute("alpha", real, 0.2)
    context.set_output(0, elementwise.leaky_relu(context.builder, context.input(0), alpha))


@op("AddN", domain=DOMAIN, inputs=(1, 1 << 30))
def add_n(context: OpKernelContext) -> None:
    """Give the sum of all inputs."""
    first, *rest = context.inputs()
    for value in rest:
        first = context.builder.add(first, value)
    context.set_output(0, first)


@op("Cast", domain=DOMAIN, inputs=1)
def cast(context: OpKernelContext) -> None:
    """Give the input in the type `DstT`."""
    target = context.element_type("DstT")
    context.set_output(0, elementwise.cast(context.builder, context.input(0), target))


@op("Bitcast", domain=DOMAIN, inputs=1)
def bitcast(context: OpKernelContext) -> None:
    """Give the bits in another type, whose width may add or take the last dimension."""
    target = context.element_type("type")
    context.set_output(0, context.builder.bitcast_convert(context.input(0), target))


@op("ClipByValue", domain=DOMAIN, inputs=3)
def clip_by_value(context: OpKernelContext) -> None:
    """Give the input within two bounds."""
    x, low, high = context.inputs()
    context.set_output(0, elementwise.clip(context.builder, x, low, high))


@op("Select", domain=DOMAIN, inputs=3)
def select(context: OpKernelContext) -> None:
    """Give one or the other input; a condition of rank 1 chooses whole rows."""
    condition, x, y = context.inputs()
    b = context.builder
    if condition.rank == 1 and x.rank > 1:
        condition = along(b, condition, 0, x.dimensions)
    context.set_output(0, b.select(expand(b, condition, x.dimensions), x, y))


@op("SelectV2", domain=DOMAIN, inputs=3)
def select_v2(context: OpKernelContext) -> None:
    """Give one or the other input; all three broadcast."""
    context.set_output(0, elementwise.select(context.builder, *context.inputs()))
