"""Features of ai.onnx.ml: numbers that are scaled, filled in, encoded or taken out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.context import OpKernelContext, flag, integers, real
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared.broadcasting import along, expand, scalar
from lowtide.frontend.graphs.shared.elementwise import is_nan
from lowtide.frontend.graphs.shared.indexing import take
from lowtide.frontend.graphs.shared.reductions import reduce
from lowtide.frontend.onnx.node_list import DOMAIN
from lowtide.ir.element_type import ElementType
from lowtide.ir.errors import UnsupportedOpError
from lowtide.ir.literal import DTYPES, Array

_PREFIX: Final = "ai.onnx.ml."


def _numbers(context: OpKernelContext, name: str, default: Any = ()) -> Array:
    return np.array(context.attribute(name, list, list(default)), np.float32)


def _spread(b: Builder, values: Array, x: Op) -> Op:
    """Numbers, one or as many as the last dimension of x has, in its sizes."""
    return expand(b, b.constant(values, x.element_type), x.dimensions)


@op(_PREFIX + "Scaler", domain=DOMAIN, inputs=1)
def scaler(context: OpKernelContext) -> None:
    """Give (x - offset) * scale as floats."""
    b = context.builder
    x = b.convert(context.input(0), ElementType.F32)
    offset, scale = _numbers(context, "offset", [0.0]), _numbers(context, "scale", [1.0])
    context.set_output(0, (x - _spread(b, offset, x)) * _spread(b, scale, x))


def _safe(b: Builder, x: Op, total: Op) -> Op:
    """X divided by what its rows come to; rows of zeros stay."""
    wide = expand(b, total, x.dimensions)
    return b.select(wide.eq(0), x, x / wide)


def _by_l2(b: Builder, x: Op, axis: int) -> Op:
    return _safe(b, x, b.sqrt(reduce(b, "sum", x * x, [axis], keep=True)))


_NORMS: Final[dict[str, Callable[[Builder, Op, int], Op]]] = {
    "MAX": lambda b, x, axis: _safe(b, x, reduce(b, "max", x, [axis], keep=True)),
    "L1": lambda b, x, axis: _safe(b, x, reduce(b, "sum", b.abs(x), [axis], keep=True)),
    "L2": _by_l2,
}


@op(_PREFIX + "Normalizer", domain=DOMAIN, inputs=1)
def normalizer(context: OpKernelContext) -> None:
    """Give rows divided by their greatest element, or their L1 or L2 norm, as floats."""
    b = context.builder
    x = b.convert(context.input(0), ElementType.F32)
    context.set_output(0, context.choice("norm", _NORMS, "MAX")(b, x, x.rank - 1))


@op(_PREFIX + "Imputer", domain=DOMAIN, inputs=1)
def imputer(context: OpKernelContext) -> None:
    """Give x with other values in place of one that stands for what is missing."""
    b, x = context.builder, context.input(0)
    kind = "float" if x.element_type.is_floating else "int64"
    values = context.attribute(f"imputed_value_{kind}s", list, [])
    if not values:
        raise context.error(f"attribute 'imputed_value_{kind}s' is missing")
    missing = context.attribute(f"replaced_value_{kind}", real, 0)
    is_missing = is_nan(b, x) if missing != missing else x.eq(scalar(b, missing, x))
    filled = _spread(b, np.array(values, DTYPES[x.element_type]), x)
    context.set_output(0, b.select(is_missing, filled, x))


@op(_PREFIX + "OneHotEncoder", domain=DOMAIN, inputs=1)
def one_hot_encoder(context: OpKernelContext) -> None:
    """Give 1 for the category that each element is, 0 for others, along a new last dimension."""
    b, x = context.builder, context.input(0)
    categories = context.attribute("cats_int64s", integers, [])
    if not categories:
        raise UnsupportedOpError(
            f"node {context.node.name!r} ({context.node.op}): text has no tensor form"
        )
    if not context.attribute("zeros", flag, True):
        raise UnsupportedOpError(
            f"node {context.node.name!r} ({context.node.op}): an error for what is no category "
            "has no tensor form"
        )
    whole = b.convert(x, ElementType.S64)
    sizes = [*x.dimensions, len(categories)]
    wide = b.broadcast(whole, sizes, range(x.rank))
    wanted = along(b, b.constant(np.array(categories, np.int64)), x.rank, sizes)
    context.set_output(0, b.convert(wide.eq(wanted), ElementType.F32))


@op(_PREFIX + "LabelEncoder", domain=DOMAIN, inputs=1)
def label_encoder(context: OpKernelContext) -> None:
    """Give the number for each key, or the default; raises UnsupportedOpError for text."""
    b, x = context.builder, context.input(0)
    keys, values = _table(context, "keys"), _table(context, "values")
    if keys is None or values is None:
        raise UnsupportedOpError(
            f"node {context.node.name!r} ({context.node.op}): text has no tensor form"
        )
    if len(keys) != len(values):
        raise context.error(f"there are {len(keys)} keys, but {len(values)} values")
    default = _default(context, values.dtype)
    known, places = np.unique(keys[keys == keys], return_index=True)
    found = b.broadcast(b.constant(default), x.dimensions, [])
    if known.size:
        chosen = values[keys == keys][places]
        found = _looked_up(b, x, known, chosen, found)
    if (keys != keys).any():
        value = b.broadcast(b.constant(values[keys != keys][0]), x.dimensions, [])
        found = b.select(is_nan(b, x), value, found)
    context.set_output(0, found)


def _looked_up(b: Builder, x: Op, keys: Array, values: Array, otherwise: Op) -> Op:
    """The value of the key that each element is; of sorted keys those not above it are counted."""
    sizes = [*x.dimensions, len(keys)]
    table = b.constant(keys, x.element_type)
    above = b.broadcast(x, sizes, range(x.rank)).ge(along(b, table, x.rank, sizes))
    place = reduce(b, "sum", b.convert(above, ElementType.S32), [x.rank]) - 1
    place = b.maximum(place, scalar(b, 0, place))
    is_known = take(b, table, place, 0).eq(x)
    return b.select(is_known, take(b, b.constant(values), place, 0), otherwise)


def _table(context: OpKernelContext, name: str) -> Array | None:
    """Keys or values that are numbers; None for text."""
    for kind, dtype in (("int64s", np.int64), ("floats", np.float32)):
        given = context.attribute(f"{name}_{kind}", list, [])
        if given:
            return np.array(given, dtype)
    tensor: Array | None = context.attribute(f"{name}_tensor", _as_array, None)
    return None if tensor is None or tensor.dtype == object else tensor.reshape(-1)


def _as_array(value: Any) -> Array:
    return np.asarray(value)


def _default(context: OpKernelContext, dtype: Any) -> Array:
    given = context.attribute("default_tensor", _as_array, None)
    if given is not None:
        return np.asarray(given.reshape(-1)[0], dtype)
    if np.dtype(dtype).kind == "f":
        return np.asarray(context.attribute("default_float", real, -0.0), dtype)
    return np.asarray(context.attribute("default_int64", int, -1), dtype)


@op(_PREFIX + "FeatureVectorizer", domain=DOMAIN)
def feature_vectorizer(context: OpKernelContext) -> None:
    """Give the columns of all inputs side by side, as floats."""
    b = context.builder
    widths = context.attribute("inputdimensions", integers, [])
    columns = []
    for number, x in enumerate(context.inputs()):
        x = b.reshape(x, [1, x.dimensions[0]]) if x.rank == 1 else x
        flat = b.reshape(x, [x.dimensions[0], x.shape.element_count // max(x.dimensions[0], 1)])
        if number < len(widths) and widths[number] != flat.dimensions[1]:
            raise context.error(
                f"input {number} has {flat.dimensions[1]} columns, not {widths[number]}"
            )
        columns.append(b.convert(flat, ElementType.F32))
    context.set_output(0, columns[0] if len(columns) == 1 else b.concatenate(columns, 1))
