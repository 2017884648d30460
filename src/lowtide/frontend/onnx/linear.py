"""Linear models and support vector machines of ai.onnx.ml."""

from __future__ import annotations

import itertools
from typing import Any, Final

import numpy as np

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.context import OpKernelContext, flag, integer, integers
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared.broadcasting import along
from lowtide.frontend.graphs.shared.reductions import reduce
from lowtide.frontend.onnx.coupling import coupled
from lowtide.frontend.onnx.node_list import DOMAIN
from lowtide.frontend.onnx.scores import (
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


def _numbers(context: OpKernelContext, name: str, default: Any = ()) -> Array:
    return np.array(context.attribute(name, list, list(default)), np.float32)


def _rows(context: OpKernelContext) -> Op:
    return context.builder.convert(rows(context), ElementType.F32)


def _affine(b: Builder, x: Op, coefficients: Array, offsets: Array) -> Op:
    """Return x times coefficients [targets, features], plus offsets by targets."""
    product = b.matmul(x, b.constant(np.ascontiguousarray(coefficients.T)))
    return (
        product + along(b, b.constant(offsets), 1, product.dimensions) if offsets.size else product
    )


@op(_PREFIX + "LinearRegressor", domain=DOMAIN, inputs=1)
def linear_regressor(context: OpKernelContext) -> None:
    """Give the products with the coefficients of each target, plus intercepts."""
    x = _rows(context)
    coefficients = _numbers(context, "coefficients").reshape(
        context.attribute("targets", integer, 1), x.dimensions[1]
    )
    found = _affine(context.builder, x, coefficients, _numbers(context, "intercepts"))
    context.set_output(0, transformed(context, found))


@op(_PREFIX + "LinearClassifier", domain=DOMAIN, inputs=1)
def linear_classifier(context: OpKernelContext) -> None:
    """Give the label of each row, and scores: products with coefficients, plus intercepts."""
    b, x = context.builder, _rows(context)
    labels = class_labels(context, "classlabels_ints")
    coefficients = _numbers(context, "coefficients").reshape(-1, x.dimensions[1])
    found = _affine(b, x, coefficients, _numbers(context, "intercepts"))
    if len(coefficients) == 1 and len(labels) == 2:
        is_second = b.reshape(found.gt(0), [x.dimensions[0]])
        context.set_output(0, labels_of(b, labels, is_second))
        context.set_output(1, two_scores(context, found, is_probability=True))
        return
    context.set_output(0, chosen_labels(b, labels, best_class(b, found)))
    context.set_output(1, transformed(context, found))


# -- support vectors -------------------------------------------------------------------------------


def _kernel(context: OpKernelContext, x: Op, vectors: Array) -> Op:
    """Return the kernel of each row of x with each support vector, [n, vectors]."""
    b = context.builder
    gamma, offset, degree = [*_numbers(context, "kernel_params").tolist(), 0.0, 0.0, 0.0][:3]
    kind = context.choice(
        "kernel_type", {k: k for k in ("LINEAR", "POLY", "RBF", "SIGMOID")}, "LINEAR"
    )
    if kind == "RBF":
        n, width = x.dimensions
        sizes = [n, len(vectors), width]
        gap = b.broadcast(x, sizes, [0, 2]) - b.broadcast(b.constant(vectors), sizes, [1, 2])
        return b.exponential(reduce(b, "sum", gap * gap, [2]) * -gamma)
    product = b.matmul(x, b.constant(np.ascontiguousarray(vectors.T)))
    if kind == "LINEAR":
        return product
    product = product * gamma + offset
    return b.tanh(product) if kind == "SIGMOID" else _power(b, product, degree)


def _power(b: Builder, x: Op, degree: float) -> Op:
    return b.power(x, b.broadcast(b.constant(degree, x.element_type), x.dimensions, []))


@op(_PREFIX + "SVMRegressor", domain=DOMAIN, inputs=1)
def svm_regressor(context: OpKernelContext) -> None:
    """Give the sum of kernels with support vectors by coefficients; 1 or -1 for one class."""
    b, x = context.builder, _rows(context)
    coefficients = _numbers(context, "coefficients")
    count = context.attribute("n_supports", integer, 0)
    offset = _numbers(context, "rho", [0.0])[:1]
    if count:
        kernels = _kernel(context, x, _numbers(context, "support_vectors").reshape(count, -1))
    else:
        kernels = x
    found = _affine(b, kernels, coefficients.reshape(1, -1), offset)
    if context.attribute("one_class", flag, False):
        one = b.broadcast(b.constant(np.float32(1)), found.dimensions, [])
        found = b.select(found.gt(0), one, b.negate(one))
    context.set_output(0, transformed(context, found))


@op(_PREFIX + "SVMClassifier", domain=DOMAIN, inputs=1)
def svm_classifier(context: OpKernelContext) -> None:
    """Give the label of each row, and scores: decisions between classes, or probabilities."""
    x = _rows(context)
    labels = class_labels(context, "classlabels_ints")
    counts = context.attribute("vectors_per_class", integers, [])
    if not counts:
        _linear_svm(context, x, labels)
        return
    _pairwise_svm(context, x, labels, counts)


def _linear_svm(context: OpKernelContext, x: Op, labels: list[int]) -> None:
    b = context.builder
    coefficients = _numbers(context, "coefficients").reshape(len(labels), x.dimensions[1])
    rho = _numbers(context, "rho", [0.0])
    found = _affine(b, x, coefficients, np.broadcast_to(rho[:1], (len(labels),)).copy())
    context.set_output(0, chosen_labels(b, labels, best_class(b, found)))
    context.set_output(1, transformed(context, found))


def _pairwise_svm(context: OpKernelContext, x: Op, labels: list[int], counts: list[int]) -> None:
    b = context.builder
    total = sum(counts)
    kernels = _kernel(context, x, _numbers(context, "support_vectors").reshape(total, -1))
    weights = _pair_weights(_numbers(context, "coefficients").reshape(-1, total), counts)
    decisions = _affine(b, kernels, weights, _numbers(context, "rho"))
    pairs = [*itertools.combinations(range(len(counts)), 2)]
    signs = np.zeros((2, len(counts), len(pairs)), np.float32)
    for number, (i, j) in enumerate(pairs):
        signs[0, i, number] = signs[1, j, number] = 1
    is_first = b.convert(decisions.gt(0), ElementType.F32)
    votes = _affine(b, is_first, signs[0], np.zeros(0)) + _affine(
        b, 1 - is_first, signs[1], np.zeros(0)
    )
    if _numbers(context, "prob_a").size:
        firsts = _pair_probabilities(context, decisions)
        if len(counts) > 2:
            context.set_output(0, chosen_labels(b, labels, best_class(b, votes)))
            context.set_output(1, transformed(context, coupled(b, firsts, len(counts))))
            return
        found = b.concatenate([firsts, 1 - firsts], 1)
        context.set_output(0, chosen_labels(b, labels, best_class(b, found)))
        context.set_output(1, transformed(context, found))
        return
    if len(counts) == 2:
        is_second = b.reshape(decisions.le(0), [x.dimensions[0]])
        context.set_output(0, labels_of(b, labels, is_second))
        context.set_output(1, two_scores(context, decisions, is_probability=False))
        return
    context.set_output(0, chosen_labels(b, labels, best_class(b, votes)))
    context.set_output(1, transformed(context, decisions))


def _pair_weights(coefficients: Array, counts: list[int]) -> Array:
    """The weight of each support vector in the decision of each pair of classes."""
    starts = np.cumsum([0, *counts])
    pairs = [*itertools.combinations(range(len(counts)), 2)]
    weights = np.zeros((len(pairs), int(starts[-1])), np.float32)
    for number, (i, j) in enumerate(pairs):
        for own, other in ((i, j - 1), (j, i)):
            part = slice(starts[own], starts[own + 1])
            weights[number, part] = coefficients[other, part]
    return weights


def _pair_probabilities(context: OpKernelContext, decisions: Op) -> Op:
    """The probability of the first class of each pair, by the sigmoids fitted to decisions."""
    b = context.builder
    a, offset = [
        b.broadcast(b.constant(_numbers(context, x)), decisions.dimensions, [1])
        for x in ("prob_a", "prob_b")
    ]
    return b.logistic(b.negate(decisions * a + offset))
