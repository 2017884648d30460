"""Nodes whose results have sizes that depend on values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lowtide.ir.literal import Array
from lowtide.onnx.host.registry import NodeCall, host
from lowtide.onnx.values import Value


@host("NonZero")
def non_zero(call: NodeCall) -> Sequence[Value]:
    """Give the positions of what is not 0, one in each column."""
    x = np.asarray(call.input(0))
    found = np.array(np.nonzero(np.atleast_1d(x)), np.int64)
    return [found[:0] if x.ndim == 0 else found]


@host("Compress")
def compress(call: NodeCall) -> Sequence[Value]:
    """Give the slices, or elements, for which a condition holds."""
    return [np.compress(call.input(1), call.input(0), call.attribute("axis", None))]


@host("Unique")
def unique(call: NodeCall) -> Sequence[Value]:
    """Give the values that differ, their first places, the place of each, and how often it is."""
    x, axis = call.input(0), call.attribute("axis", None)
    values, first, inverse, counts = np.unique(
        x, return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    if not call.attribute("sorted", 1):
        order = np.argsort(first)
        places = np.argsort(order)
        values = np.take(values, order, axis or 0)
        first, counts, inverse = first[order], counts[order], places[inverse]
    return [values, *[np.asarray(y, np.int64).reshape(-1) for y in (first, inverse, counts)]]


@host("com.microsoft.Unique")
def unique_in_order(call: NodeCall) -> Sequence[Value]:
    """Give the values that differ in the order of a vector, the place of each, and how often."""
    values, first, inverse, counts = np.unique(
        call.input(0), return_index=True, return_inverse=True, return_counts=True
    )
    order = np.argsort(first)
    places = np.argsort(order)[inverse].reshape(-1)
    return [values[order], places.astype(np.int64), counts[order].astype(np.int64)]


@host("NonMaxSuppression")
def non_max_suppression(call: NodeCall) -> Sequence[Value]:
    """Give the boxes, as (batch, class, box), that overlap none of a higher score too much."""
    boxes, scores = call.input(0), call.input(1)
    most, overlap, least = [
        default if call.input(i) is None else np.asarray(call.input(i)).reshape(()).item()
        for i, default in ((2, 0), (3, 0.0), (4, -np.inf))
    ]
    center = call.attribute("center_point_box", 0)
    found: list[tuple[int, int, int]] = []
    for batch in range(boxes.shape[0]):
        corners = _corners(boxes[batch], bool(center))
        for kind in range(scores.shape[1]):
            kept = _kept(corners, scores[batch, kind], int(most), overlap, least)
            found += [(batch, kind, i) for i in kept]
    return [np.array(found, np.int64).reshape(-1, 3)]


def _corners(boxes: Array, center: bool) -> Array:
    """Boxes as the lower and the upper corner."""
    if center:
        middle, half = boxes[:, :2], boxes[:, 2:] / 2
        return np.concatenate([middle - half, middle + half], 1)
    return np.concatenate(
        [np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])], 1
    )


def _kept(corners: Array, scores: Array, most: int, overlap: float, least: float) -> list[int]:
    """The boxes that stay, the highest score first: each drops those behind it that it overlaps."""
    order = np.argsort(-scores, kind="stable")
    order = order[scores[order] > least]
    boxes = np.ascontiguousarray(corners[order].T)
    areas = (boxes[2] - boxes[0]) * (boxes[3] - boxes[1])
    is_left = np.ones(len(order), np.bool_)
    kept: list[int] = []
    for i, number in enumerate(order.tolist()):
        if len(kept) >= most:
            break
        if is_left[i]:
            kept.append(number)
            found = _overlaps(boxes[:, i], areas[i], boxes[:, i + 1 :], areas[i + 1 :])
            is_left[i + 1 :] &= found <= overlap
    return kept


def _overlaps(box: Array, area: Array, others: Array, areas: Array) -> Array:
    """The area that a box has with each of others, as a part of that which one of them has.

    Boxes are columns: the lower corner, then the upper one.
    """
    high = np.minimum(box[2], others[2]) - np.maximum(box[0], others[0])
    wide = np.minimum(box[3], others[3]) - np.maximum(box[1], others[1])
    both = np.maximum(high, 0) * np.maximum(wide, 0)
    either = area + areas - both
    found: Array = np.divide(both, either, out=np.zeros_like(both), where=either > 0)
    return found
