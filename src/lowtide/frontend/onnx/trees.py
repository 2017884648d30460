"""Ensembles of trees of ai.onnx.ml, walked for all rows and trees at once by gathers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.context import OpKernelContext, integer
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared.broadcasting import along
from lowtide.frontend.graphs.shared.elementwise import is_nan
from lowtide.frontend.graphs.shared.indexing import take
from lowtide.frontend.graphs.shared.loops import repeat_steps
from lowtide.frontend.graphs.shared.reductions import reduce
from lowtide.frontend.onnx.forest import Forest, forest_of_leaves, forest_of_nodes
from lowtide.frontend.onnx.node_list import DOMAIN
from lowtide.frontend.onnx.packed_forest import PackedForest, packed, stages
from lowtide.frontend.onnx.scores import (
    TRANSFORM_NAMES,
    best_class,
    chosen_labels,
    class_labels,
    labels_of,
    rows,
    transformed,
    two_scores,
)
from lowtide.ir.element_type import ElementType
from lowtide.ir.literal import Array

_PREFIX: Final = "ai.onnx.ml."
_COMPARE: Final[tuple[Callable[[Op, Op], Op], ...]] = (
    lambda x, y: x.le(y),
    lambda x, y: x.lt(y),
    lambda x, y: x.ge(y),
    lambda x, y: x.gt(y),
    lambda x, y: x.eq(y),
    lambda x, y: x.ne(y),
)
"""The comparisons, in the order of `forest.MODES`."""


def leaves(b: Builder, x: Op, forest: PackedForest) -> Op:
    """Return the place, a leaf, at which each row of x [n, features] ends: s32 [n, trees].

    Raises ValueError where a node tests a feature that there is not.
    """
    n, width = x.dimensions
    greatest = int((_features(forest)).max(initial=0))
    if greatest >= width:
        raise ValueError(f"a node tests feature {greatest} of {width}")
    trees = np.arange(len(forest.depths), dtype=np.int32)
    at = b.broadcast(b.constant(trees), [n, len(trees)], [1])
    tables = [b.reshape(x, [n * width]), b.constant(forest.words), b.constant(forest.thresholds)]
    done: list[Op] = []

    def step(c: Builder, _: Op, before: list[Op]) -> list[Op]:
        return [_step(c, forest, width, *before), *before[1:]]

    for many, steps in stages(forest.depths):
        if many < at.dimensions[1]:
            done.append(b.slice(at, [0, many], [n, at.dimensions[1]], [1, 1]))
            at = b.slice(at, [0, 0], [n, many], [1, 1])
        at = repeat_steps(b, steps, [at, *tables], step)[0]
    return b.concatenate([at, *done[::-1]], 1) if done else at


def _features(forest: PackedForest) -> Array:
    """The features that nodes test."""
    shift = forest.mode_bits + 1
    return (forest.words >> shift) & ((1 << forest.feature_bits) - 1)


def _step(
    b: Builder, forest: PackedForest, width: int, at: Op, x: Op, words: Op, thresholds: Op
) -> Op:
    """The places that follow those `at` which rows are."""
    word = take(b, words, at, 0)
    shift = forest.mode_bits + 1
    feature = b.convert((word >> shift) & ((1 << forest.feature_bits) - 1), ElementType.S32)
    value = take(b, x, b.iota(at.shape, 0) * width + feature, 0)
    threshold = take(b, thresholds, at, 0)
    holds = _COMPARE[forest.modes[0]](value, threshold)
    for number, mode in enumerate(forest.modes[1:], 1):
        own = (word & ((1 << forest.mode_bits) - 1)).eq(number)
        holds = b.select(own, _COMPARE[mode](value, threshold), holds)
    if (forest.words >> forest.mode_bits & 1).any():
        passes = ((word >> forest.mode_bits) & 1).eq(1)
        holds = holds | (is_nan(b, value) & passes)
    first = b.convert(word >> (shift + forest.feature_bits), ElementType.S32)
    return first + b.convert(holds, ElementType.S32)


def sums(b: Builder, x: Op, forest: Forest, aggregate: str) -> Op:
    """Return what the leaves of each row come to, [n, targets]: SUM, AVERAGE, MIN or MAX.

    An extreme counts trees with a weight for the target; one without any is 0.
    """
    dtype = np.float64 if x.element_type is ElementType.F64 else np.float32
    walked = packed(forest, dtype)
    at = leaves(b, x, walked)
    weights, has = forest.weights[walked.nodes].astype(dtype), forest.has[walked.nodes]
    if aggregate in ("SUM", "AVERAGE"):
        total = _reduced(b, "sum", weights, at)
        return total / len(forest.roots) if aggregate == "AVERAGE" else total
    kind, none = {"MIN": ("min", np.inf), "MAX": ("max", -np.inf)}[aggregate]
    found = _reduced(b, kind, np.where(has, weights, dtype(none)), at)
    return b.select(
        b.abs(found).eq(np.inf), b.broadcast(b.constant(dtype(0)), found.dimensions, []), found
    )


def _reduced(b: Builder, kind: str, weights: Array, at: Op) -> Op:
    """The weights [nodes, targets] at leaves [n, trees], reduced over trees."""
    parts = take(b, b.constant(weights), at, 0)
    return reduce(b, kind, parts, [1])


_AGGREGATES: Final = {x: x for x in ("SUM", "AVERAGE", "MIN", "MAX")}
_AGGREGATE_NAMES: Final = ("AVERAGE", "SUM", "MIN", "MAX")
"""The aggregates by their numbers in the newest version."""


def _base_values(context: OpKernelContext) -> Array:
    precise = context.attribute("base_values_as_tensor", np.asarray, None)
    if precise is not None:
        return precise.reshape(-1)
    return np.array(context.attribute("base_values", list, []), np.float32)


def _with_base(b: Builder, x: Op, base: Array) -> Op:
    if not base.size:
        return x
    wide = np.broadcast_to(base, (x.dimensions[1],)).copy()
    return x + along(b, b.constant(wide, x.element_type), 1, x.dimensions)


def _floats(b: Builder, x: Op) -> Op:
    return b.convert(x, ElementType.F32)


@op(_PREFIX + "TreeEnsembleRegressor", domain=DOMAIN, inputs=1)
def regressor(context: OpKernelContext) -> None:
    """Give for each row what the leaves come to, plus the base values."""
    b, x = context.builder, rows(context)
    forest = forest_of_nodes(context, "target", context.attribute("n_targets", integer, 1))
    found = sums(b, x, forest, context.choice("aggregate_function", _AGGREGATES, "SUM"))
    found = _with_base(b, found, _base_values(context))
    context.set_output(0, transformed(context, _floats(b, found)))


@op(_PREFIX + "TreeEnsemble", domain=DOMAIN, inputs=1)
def ensemble(context: OpKernelContext) -> None:
    """Give for each row what the leaves come to."""
    b, x = context.builder, context.input(0)
    forest = forest_of_leaves(context)
    aggregate = context.attribute("aggregate_function", integer, 1)
    transform = context.attribute("post_transform", integer, 0)
    if not (0 <= aggregate < len(_AGGREGATE_NAMES) and 0 <= transform < len(TRANSFORM_NAMES)):
        raise context.error("aggregate_function is 0 to 3, post_transform 0 to 4")
    narrow = x.element_type
    wide = x if narrow is ElementType.F64 else b.convert(x, ElementType.F32)
    found = sums(b, wide, forest, _AGGREGATE_NAMES[aggregate])
    context.set_output(
        0, b.convert(transformed(context, found, TRANSFORM_NAMES[transform]), narrow)
    )


@op(_PREFIX + "TreeEnsembleClassifier", domain=DOMAIN, inputs=1)
def classifier(context: OpKernelContext) -> None:
    """Give the label of each row, and the scores of all classes.

    Of two classes with weights for one only, the score says how much speaks for the second.
    """
    b, x = context.builder, rows(context)
    labels = class_labels(context, "classlabels_int64s")
    used = sorted(set(context.attribute("class_ids", list)))
    base = _base_values(context)
    if len(labels) == 2 and len(used) == 1:
        _binary(context, x, labels, base)
        return
    forest = forest_of_nodes(context, "class", len(labels))
    scores = _floats(b, _with_base(b, sums(b, x, forest, "SUM"), base))
    context.set_output(0, chosen_labels(b, labels, best_class(b, scores)))
    context.set_output(1, transformed(context, scores))


def _binary(context: OpKernelContext, x: Op, labels: list[int], base: Array) -> None:
    b = context.builder
    forest = forest_of_nodes(context, "class", len(labels))
    (column,) = np.flatnonzero(forest.has.any(0)).tolist()
    total = sums(b, x, forest, "SUM")
    score = b.slice(total, [0, column], [total.dimensions[0], column + 1], [1, 1])
    if base.size:
        score = score + b.constant(base[-1], score.element_type)
    score = _floats(b, score)
    is_probability = bool((forest.weights >= 0).all())
    is_second = b.reshape(score.gt(0.5 if is_probability else 0.0), [x.dimensions[0]])
    context.set_output(0, labels_of(b, labels, is_second))
    context.set_output(1, two_scores(context, score, is_probability=is_probability))
