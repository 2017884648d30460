"""Scores of classifiers and regressors of ai.onnx.ml: what is made of them at the end."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.context import OpKernelContext, integers
from lowtide.frontend.graphs.shared.broadcasting import along
from lowtide.frontend.graphs.shared.indexing import take
from lowtide.frontend.graphs.shared.reductions import arg_extreme, reduce, softmax
from lowtide.ir.element_type import ElementType
from lowtide.ir.errors import UnsupportedOpError

_TINY: Final = 1e-7
"""Scores nearer to 0 count as 0 for SOFTMAX_ZERO, as in ONNX Runtime."""

_WINITZKI: Final = 0.147
"""The constant of an approximation of the inverse of erf (Sergei Winitzki, "A handy approximation
for the error function and its inverse", 2008), which ONNX Runtime uses."""


def _softmax_zero(b: Builder, x: Op) -> Op:
    """Softmax of what is not 0; zeros stay."""
    most = reduce(b, "max", x, [1])
    wide = along(b, most, 0, x.dimensions)
    is_zero = b.abs(x).le(_TINY)
    powers = b.select(is_zero, x * b.exponential(b.negate(wide)), b.exponential(x - wide))
    total = reduce(b, "sum", powers, [1])
    return b.select(
        along(b, total, 0, x.dimensions).eq(0), powers, powers / along(b, total, 0, x.dimensions)
    )


def _probit(b: Builder, x: Op) -> Op:
    """Return the quantile of the normal distribution."""
    y = x * 2 - 1
    log = b.log((1 - y) * (1 + y))
    half = log * 0.5 + 2 / (math.pi * _WINITZKI)
    root = b.sqrt(b.sqrt(half * half - log / _WINITZKI) - half)
    return b.select(y.lt(0), b.negate(root), root) * math.sqrt(2)


_TRANSFORMS: Final[dict[str, Callable[[Builder, Op], Op]]] = {
    "NONE": lambda _, x: x,
    "SOFTMAX": lambda b, x: softmax(b, x, [1]),
    "LOGISTIC": lambda b, x: b.logistic(x),
    "SOFTMAX_ZERO": _softmax_zero,
    "PROBIT": _probit,
}
"""What post_transform says, on scores [n, classes]."""

TRANSFORM_NAMES: Final = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
"""The transforms by their numbers in the newest version of trees."""


def transformed(context: OpKernelContext, x: Op, name: str | None = None) -> Op:
    """Return scores [n, classes] as post_transform, or the one that is named, asks for."""
    if name is not None:
        return _TRANSFORMS[name](context.builder, x)
    return context.choice("post_transform", _TRANSFORMS, "NONE")(context.builder, x)


def two_scores(context: OpKernelContext, score: Op, *, is_probability: bool) -> Op:
    """Return the scores [n, 2] of two classes, given that of the second one [n, 1].

    A probability has the rest to 1 for the other class; a distance has its opposite, and so has
    any score that is to be transformed.
    """
    b = context.builder
    kind = context.choice("post_transform", {x: x for x in _TRANSFORMS}, "NONE")
    if kind == "LOGISTIC":
        return b.logistic(b.concatenate([b.negate(score), score], 1))
    other = 1 - score if is_probability or kind == "PROBIT" else b.negate(score)
    both = b.concatenate([other, score], 1)
    return _probit(b, both) if kind == "PROBIT" else both


def class_labels(context: OpKernelContext, *names: str) -> list[int]:
    """Return the numbers that classes are called; raises UnsupportedOpError where they are text."""
    for name in names:
        found = context.attribute(name, integers, [])
        if found:
            return found
    if context.attribute("classlabels_strings", list, []):
        raise UnsupportedOpError(
            f"node {context.node.name!r} ({context.node.op}): labels that are text have no tensor "
            "form"
        )
    return []


def chosen_labels(b: Builder, labels: Sequence[int], places: Op) -> Op:
    """Return the label at each place, as s64."""
    if list(labels) == list(range(len(labels))):
        return b.convert(places, ElementType.S64)
    return take(b, b.constant(np.array(labels, np.int64)), places, 0)


def best_class(b: Builder, scores: Op) -> Op:
    """Return the place of the first greatest score in each row of [n, classes]."""
    return arg_extreme(b, "max", scores, 1, ElementType.S64)


def labels_of(b: Builder, labels: Sequence[int], is_second: Op) -> Op:
    """Return one of two labels for each row: the second where it holds."""
    parts = [
        b.broadcast(b.constant(np.int64(x)), is_second.dimensions, [])
        for x in (labels[1], labels[0])
    ]
    return b.select(is_second, *parts)


def rows(context: OpKernelContext, number: int = 0) -> Op:
    """Return an input as floats [n, features]; a vector is one row."""
    b, x = context.builder, context.input(number)
    if x.element_type not in (ElementType.F32, ElementType.F64):
        x = b.convert(x, ElementType.F32)
    if x.rank == 1:
        return b.reshape(x, [1, *x.dimensions])
    if x.rank != 2:
        raise context.error(f"the input has to be a matrix, found {x.shape.text(layout=False)}")
    return x
