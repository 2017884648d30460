"""Operations of NNVM and MXNet on elements, shapes and dimensions, by both of their names."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.context import OpKernelContext
from lowtide.frontend.graphs.dtypes import element_type_of
from lowtide.frontend.graphs.registry import name_table, op
from lowtide.frontend.graphs.shared import arrays, elementwise, reductions
from lowtide.frontend.graphs.shared.broadcasting import expand
from lowtide.frontend.nnvm.attributes import flag, integer, ints, real, text

DOMAIN: Final = "nnvm"

_UNARY: Final = {
    **{x: x for x in ("abs", "ceil", "cos", "erf", "exp", "expm1", "floor", "log", "log1p")},
    **{x: x for x in ("relu", "round", "rsqrt", "sigmoid", "sign", "sin", "sqrt", "square")},
    **{x: x for x in ("tan", "tanh", "reciprocal", "softsign", "zeros_like", "ones_like")},
    "softrelu": "softplus",
    "negative": "neg",
    "logical_not": "not",
    "_copy": "identity",
    "copy": "identity",
    "identity": "identity",
    "stop_gradient": "identity",
    "BlockGrad": "identity",
    "Dropout": "identity",
    "dropout": "identity",
}

_BINARY: Final = {
    "add": ("elemwise_add", "broadcast_add", "_plus", "_Plus", "_add", "add", "__add_symbol__"),
    "sub": ("elemwise_sub", "broadcast_sub", "_minus", "_Minus", "_sub", "sub", "__sub_symbol__"),
    "mul": ("elemwise_mul", "broadcast_mul", "_mul", "_Mul", "mul", "__mul_symbol__"),
    "div": ("elemwise_div", "broadcast_div", "_div", "_Div", "div", "__div_symbol__"),
    "max": ("elemwise_max", "broadcast_max", "broadcast_maximum", "_maximum", "maximum"),
    "min": ("elemwise_min", "broadcast_min", "broadcast_minimum", "_minimum", "minimum"),
    "pow": ("elemwise_pow", "broadcast_pow", "broadcast_power", "_power", "pow", "__pow_symbol__"),
}
_SCALAR: Final = name_table(
    """
    __add_scalar__=add _plus_scalar=add _PlusScalar=add __sub_scalar__=sub _minus_scalar=sub
    __mul_scalar__=mul _mul_scalar=mul __div_scalar__=div _div_scalar=div __pow_scalar__=pow
    _power_scalar=pow _maximum_scalar=max _minimum_scalar=min
    """
)
_REVERSED: Final = name_table(
    """
    __rsub_scalar__=sub _rminus_scalar=sub __rdiv_scalar__=div _rdiv_scalar=div
    __rpow_scalar__=pow _rpower_scalar=pow
    """
)


@op(*_UNARY, domain=DOMAIN, inputs=(1, 2))
def unary(context: OpKernelContext) -> None:
    """Give a function of each element; dropout is for training, and gives its operand here."""
    name = _UNARY[context.node.op]
    context.set_output(0, elementwise.unary(name, context.builder, context.input(0)))


@op(*[x for names in _BINARY.values() for x in names], domain=DOMAIN, inputs=2)
def binary(context: OpKernelContext) -> None:
    """Give a function of two operands, which are broadcast."""
    (name,) = [x for x, names in _BINARY.items() if context.node.op in names]
    x, y = context.input(0), context.input(1)
    context.set_output(0, elementwise.binary(name, context.builder, x, y))


@op(*_SCALAR, *_REVERSED, domain=DOMAIN, inputs=1)
def with_scalar(context: OpKernelContext) -> None:
    """Give a function of each element and a number, which comes first in reversed ones."""
    b, x, name = context.builder, context.input(0), context.node.op
    number = b.constant(real(context, "scalar"), x.element_type)
    pair = (x, number) if name in _SCALAR else (number, x)
    context.set_output(0, elementwise.binary({**_SCALAR, **_REVERSED}[name], b, *pair))


@op("add_n", "ElementWiseSum", "elemwise_sum", "_grad_add", domain=DOMAIN)
def add_n(context: OpKernelContext) -> None:
    """Give the sum of all operands."""
    total, *others = context.inputs()
    for other in others:
        total = total + other
    context.set_output(0, total)


_ACTIVATIONS: Final[dict[str, Callable[[Builder, Op], Op]]] = {
    "relu": elementwise.relu,
    "sigmoid": lambda b, x: b.logistic(x),
    "tanh": lambda b, x: b.tanh(x),
    "softrelu": elementwise.softplus,
    "softsign": elementwise.softsign,
}


@op("Activation", domain=DOMAIN, inputs=1)
def activation(context: OpKernelContext) -> None:
    """Give the activation that `act_type` names."""
    name = text(context, "act_type")
    if name not in _ACTIVATIONS:
        raise context.error(f"act_type {name!r} is none of {', '.join(_ACTIVATIONS)}")
    context.set_output(0, _ACTIVATIONS[name](context.builder, context.input(0)))


@op("LeakyReLU", "leaky_relu", domain=DOMAIN, inputs=1)
def leaky_relu(context: OpKernelContext) -> None:
    """Give x where it is positive, else a part of it, or what `act_type` makes of it."""
    b, x = context.builder, context.input(0)
    kind = text(context, "act_type", "leaky")
    slope = real(context, "alpha" if "alpha" in context.node.attributes else "slope", 0.25)
    functions = {"leaky": elementwise.leaky_relu, "elu": elementwise.elu}
    if kind == "gelu":
        context.set_output(0, elementwise.gelu(b, x))
        return
    if kind not in functions:
        raise context.error(f"act_type {kind!r} is none of leaky, elu, gelu")
    context.set_output(0, functions[kind](b, x, slope))


@op("clip", domain=DOMAIN, inputs=1)
def clip(context: OpKernelContext) -> None:
    """Give numbers within two ends."""
    b, x = context.builder, context.input(0)
    low, high = [b.constant(real(context, name), x.element_type) for name in ("a_min", "a_max")]
    context.set_output(0, elementwise.clip(b, x, low, high))


@op("cast", "Cast", domain=DOMAIN, inputs=1)
def cast(context: OpKernelContext) -> None:
    """Give numbers as another type."""
    name = text(context, "dtype")
    try:
        kind = element_type_of(
            {"float32": "float", "float64": "double", "float16": "half"}.get(name, name)
        )
    except (TypeError, ValueError) as error:
        raise context.error(f"attribute 'dtype': {error}") from error
    context.set_output(0, elementwise.cast(context.builder, context.input(0), kind))


# -- sizes ---------------------------------------------------------------------------------------


@op("flatten", "Flatten", domain=DOMAIN, inputs=1)
def flatten(context: OpKernelContext) -> None:
    """Give all dimensions but the first as one."""
    x = context.input(0)
    first, *rest = x.dimensions
    context.set_output(0, arrays.reshaped(context.builder, x, [first, math.prod(rest)]))


@op("reshape", "Reshape", domain=DOMAIN, inputs=1)
def reshape(context: OpKernelContext) -> None:
    """Give other sizes: -1 is what is left, 0 stays as it is."""
    x, sizes = context.input(0), list(ints(context, "shape"))
    if min(sizes, default=0) < -1:
        raise context.error(f"sizes {sizes}; -1, 0 and sizes are known")
    found = [x.dimensions[i] if n == 0 and i < x.rank else n for i, n in enumerate(sizes)]
    context.set_output(0, arrays.reshaped(context.builder, x, found))


@op("expand_dims", domain=DOMAIN, inputs=1)
def expand_dims(context: OpKernelContext) -> None:
    """Give further dimensions of size 1."""
    x = context.input(0)
    axis = context.axis(integer(context, "axis"), x.rank + 1)
    for _ in range(integer(context, "num_newaxis", 1)):
        x = arrays.inserted(context.builder, x, [axis])
    context.set_output(0, x)


@op("squeeze", domain=DOMAIN, inputs=1)
def squeeze(context: OpKernelContext) -> None:
    """Give an operand without dimensions of size 1."""
    x = context.input(0)
    named = [context.axis(i, x.rank) for i in ints(context, "axis", ())]
    axes = named or [i for i, n in enumerate(x.dimensions) if n == 1]
    context.set_output(0, arrays.squeezed(context.builder, x, axes))


@op("transpose", domain=DOMAIN, inputs=1)
def transpose(context: OpKernelContext) -> None:
    """Give the dimensions in another order, backwards without one."""
    x = context.input(0)
    axes = ints(context, "axes", ()) or tuple(reversed(range(x.rank)))
    context.set_output(0, context.builder.transpose(x, axes))


@op("concatenate", "concat", "Concat", domain=DOMAIN)
def concatenate(context: OpKernelContext) -> None:
    """Give the operands one after another."""
    x = context.inputs()
    name = "axis" if "axis" in context.node.attributes else "dim"
    axis = context.axis(integer(context, name, 1), x[0].rank)
    context.set_output(0, arrays.concatenated(context.builder, x, axis))


@op("split", "SliceChannel", domain=DOMAIN, inputs=1)
def split(context: OpKernelContext) -> None:
    """Give parts along a dimension: as many, or between places."""
    x, name = context.input(0), context.node.op
    places = ints(context, "indices_or_sections" if name == "split" else "num_outputs")
    axis = context.axis(integer(context, "axis", 1), x.rank)
    n = x.dimensions[axis]
    is_count = len(places) == 1 and text(context, "indices_or_sections", "1").strip()[-1:].isdigit()
    counted = [n * (i + 1) // places[0] for i in range(places[0])] if is_count else []
    ends = counted or [*places, n]
    sizes = [b - a for a, b in zip([0, *ends], ends, strict=False)]
    parts = arrays.split(context.builder, x, sizes, axis)
    if flag(context, "squeeze_axis"):
        parts = [arrays.squeezed(context.builder, y, [axis]) for y in parts]
    context.set_outputs(parts)


@op("slice_axis", domain=DOMAIN, inputs=1)
def slice_axis(context: OpKernelContext) -> None:
    """Give the part between two places along a dimension."""
    x = context.input(0)
    axis = context.axis(integer(context, "axis"), x.rank)
    end = ints(context, "end", ())
    parts = [slice(None)] * x.rank
    parts[axis] = slice(integer(context, "begin"), end[0] if end else None)
    context.set_output(0, arrays.sliced(context.builder, x, parts))


@op("slice", "strided_slice", "crop", domain=DOMAIN, inputs=1)
def slice_(context: OpKernelContext) -> None:
    """Give the part between two places in steps."""
    x = context.input(0)
    begins, ends = ints(context, "begin"), ints(context, "end")
    steps = ints(context, "stride", ints(context, "step", (1,) * len(begins)))
    parts = [slice(*y) for y in zip(begins, ends, steps, strict=True)]
    parts += [slice(None)] * (x.rank - len(parts))
    context.set_output(0, arrays.sliced(context.builder, x, parts))


@op("broadcast_to", domain=DOMAIN, inputs=1)
def broadcast_to(context: OpKernelContext) -> None:
    """Give an operand stretched to some sizes."""
    x, sizes = context.input(0), ints(context, "shape")
    found = [x.dimensions[i] if n == 0 else n for i, n in enumerate(sizes)]
    context.set_output(0, expand(context.builder, x, found))


_REDUCTIONS: Final = {"max": "max", "mean": "mean", "min": "min", "prod": "prod", "sum": "sum"}


@op(*_REDUCTIONS, domain=DOMAIN, inputs=1)
def reduction(context: OpKernelContext) -> None:
    """Give sums, means and the like along dimensions, all without names of some."""
    b, x = context.builder, context.input(0)
    named = [context.axis(i, x.rank) for i in ints(context, "axis", ())]
    axes = named or list(range(x.rank))
    if flag(context, "exclude"):
        axes = [i for i in range(x.rank) if i not in axes]
    keep, name = flag(context, "keepdims"), context.node.op
    if name == "mean":
        context.set_output(0, reductions.mean(b, x, axes, keep=keep))
        return
    context.set_output(0, reductions.reduce(b, _REDUCTIONS[name], x, axes, keep=keep))


@op("softmax", "log_softmax", "SoftmaxOutput", "Softmax", "SoftmaxActivation", domain=DOMAIN)
def softmax(context: OpKernelContext) -> None:
    """Give e^x as parts of their sum along a dimension, or logarithms; labels count for nothing."""
    b, x, name = context.builder, context.input(0), context.node.op
    default = -1 if name in ("softmax", "log_softmax") else 1
    axis = context.axis(integer(context, "axis", default), x.rank)
    function = reductions.log_softmax if name == "log_softmax" else reductions.softmax
    context.set_output(0, function(b, x, [axis]))
