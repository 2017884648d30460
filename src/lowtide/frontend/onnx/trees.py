"""Ensembles of trees of ai.onnx.ml: what the leaves come to at which rows end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from functools import reduce as reduce_ops
from typing import Final

import numpy as np

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.context import OpKernelContext, integer
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared.broadcasting import along
from lowtide.frontend.graphs.shared.indexing import take
from lowtide.frontend.graphs.shared.reductions import reduce
from lowtide.frontend.onnx.ends import Ends, ends
from lowtide.frontend.onnx.forest import Forest, forest_of_leaves, forest_of_nodes
from lowtide.frontend.onnx.node_list import DOMAIN
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
_KINDS: Final = {
    "SUM": ("sum", 0.0),
    "AVERAGE": ("sum", 0.0),
    "MIN": ("min", np.inf),
    "MAX": ("max", -np.inf),
}
"""The reduction of each aggregate, and what leaves without a weight add to it."""

_TOGETHER: Final[dict[str, Callable[[Builder, Op, Op], Op]]] = {
    "sum": lambda _, x, y: x + y,
    "min": lambda b, x, y: b.minimum(x, y),
    "max": lambda b, x, y: b.maximum(x, y),
}

_FEW_TARGETS: Final = 16
"""So many targets are added up one after the other, rows side by side."""


def sums(b: Builder, x: Op, forest: Forest, aggregate: str) -> Op:
    """Return what the leaves of each row come to, [n, targets]: SUM, AVERAGE, MIN or MAX.

    An extreme counts trees with a weight for the target; one without any is 0.
    """
    dtype = np.float64 if x.element_type is ElementType.F64 else np.float32
    kind, none = _KINDS[aggregate]
    weights = np.where(forest.has, forest.weights, none).astype(dtype)
    weights = np.concatenate([weights, np.full((1, weights.shape[1]), none, dtype)])
    first, *rest = [_reduced(b, kind, weights[y.nodes], y) for y in ends(b, x, forest)]
    total = reduce_ops(partial(_TOGETHER[kind], b), rest, first)
    total = b.slice(total, [0, 0], [x.dimensions[0], total.dimensions[1]], [1, 1])
    if aggregate == "AVERAGE":
        return total / len(forest.roots)
    if kind == "sum":
        return total
    nothing = b.broadcast(b.constant(dtype(0)), total.dimensions, [])
    return b.select(b.abs(total).eq(np.inf), nothing, total)


def _reduced(b: Builder, kind: str, weights: Array, found: Ends) -> Op:
    """The weights [places, targets] at which rows end, reduced over trees: [n, targets]."""
    targets = weights.shape[1]
    if found.by_target:
        runs = weights.reshape(targets, -1, targets)
        own = np.concatenate([runs[x, :, x] for x in range(targets)])
        trees, n = found.at.dimensions
        taken = take(b, b.constant(own), found.at, 0)
        parts = b.reshape(taken, [targets, trees // targets, n])
        return b.transpose(reduce(b, kind, parts, [1]), [1, 0])
    if found.trees or targets > _FEW_TARGETS:
        return reduce(b, kind, take(b, b.constant(weights), found.at, 0), [found.trees])
    parts = take(b, b.constant(np.ascontiguousarray(weights.T)), found.at, 1)
    return b.transpose(reduce(b, kind, parts, [1]), [1, 0])


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
    used = forest.has.any(0)
    own = replace(forest, weights=forest.weights[:, used], has=forest.has[:, used])
    score = sums(b, x, own, "SUM")
    if base.size:
        score = score + b.constant(base[-1], score.element_type)
    score = _floats(b, score)
    is_probability = bool((forest.weights >= 0).all())
    is_second = b.reshape(score.gt(0.5 if is_probability else 0.0), [x.dimensions[0]])
    context.set_output(0, labels_of(b, labels, is_second))
    context.set_output(1, two_scores(context, score, is_probability=is_probability))
