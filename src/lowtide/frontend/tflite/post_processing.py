"""Operators at the end of detectors: boxes from their encodings, and which are kept of many."""

from __future__ import annotations

from typing import Final

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.context import OpKernelContext
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared.indexing import take
from lowtide.frontend.graphs.shared.reductions import reduce, top_k
from lowtide.frontend.graphs.shared.suppression import (
    Suppression,
    column,
    kept_by_class,
    suppressed,
)
from lowtide.frontend.tflite import quantized
from lowtide.frontend.tflite.flexbuffer import scalars
from lowtide.frontend.tflite.node import DOMAIN, LiteNode
from lowtide.ir import array_shape
from lowtide.ir.element_type import ElementType

_EACH_CLASS: Final = 100
"""How many boxes are kept for each class where no option says it."""


@op("CUSTOM:TFLite_Detection_PostProcess", domain=DOMAIN, inputs=3)
def detection_post_process(context: OpKernelContext) -> None:
    """Give boxes, classes, scores and their number, of box encodings, scores and anchors.

    Boxes are decoded from centers and sizes, those of the best scores of any class are kept where
    they overlap little, and each comes with its best classes; or boxes are kept class by class.
    """
    node, b = LiteNode(context), context.builder
    options = scalars(node.custom_options)
    values = [_real(node, i) for i in range(3)]
    boxes = _decoded(b, values[0], values[2], options)
    n, width = values[1].dimensions[1:]
    classes = int(options.get("num_classes", width))
    offset = width - classes
    if not 0 <= offset <= 1:
        raise node.error(f"{classes} classes, and scores for {width}")
    scores = b.slice(b.reshape(values[1], [n, width]), [0, offset], [n, width], [1, 1])
    each = min(int(options.get("max_classes_per_detection", 1)), classes)
    count = int(options.get("max_detections", 0))
    overlap = options.get("nms_iou_threshold", 0.0)
    how = Suppression(count, overlap, options.get("nms_score_threshold", 0.0), -1.0)
    if options.get("use_regular_nms"):
        most = int(options.get("detections_per_class", _EACH_CLASS))
        _give_by_class(node, boxes, b.transpose(scores, [1, 0]), how, most)
        return
    best = reduce(b, "max", scores, [1])
    places, _, found = suppressed(b, boxes, best, how)
    tops, labels = top_k(b, scores, each, 1, ElementType.S32)
    kept = b.iota(array_shape(ElementType.S32, (count,)), 0).lt(found)
    shown = [
        b.broadcast(b.reshape(take(b, boxes, places, 0), [count, 4]), [count, each, 4], [0, 2]),
        b.convert(take(b, labels, places, 0), ElementType.F32),
        take(b, tops, places, 0),
    ]
    for value in shown:
        zeros = b.broadcast(b.constant(0.0, ElementType.F32), value.dimensions, [])
        value = b.select(b.broadcast(kept, value.dimensions, [0]), value, zeros)
        node.give(b.reshape(value, [1, count * each, *value.dimensions[2:]]))
    node.give(b.reshape(b.convert(found, ElementType.F32), [1]))


def _give_by_class(node: LiteNode, boxes: Op, scores: Op, how: Suppression, most: int) -> None:
    """Give the best of the boxes that are kept for each class, scores [classes, n]."""
    b, classes = node.b, scores.dimensions[0]
    each = Suppression(min(most, boxes.dimensions[0]), how.overlap, how.score, how.sigma)
    places, kept = kept_by_class(b, boxes, scores, each)
    total = classes * each.count
    shown = min(how.count, total)
    best, at = top_k(b, b.reshape(kept, [total]), shown, 0, ElementType.S32)
    is_there = best.ge(how.score)
    values = [
        take(b, boxes, take(b, b.reshape(places, [total]), at, 0), 0),
        b.convert(b.divide(at, each.count), ElementType.F32),
        best,
    ]
    for value in values:
        zeros = b.broadcast(b.constant(0.0, ElementType.F32), value.dimensions, [])
        value = b.select(b.broadcast(is_there, value.dimensions, [0]), value, zeros)
        widths = [(0, how.count - shown), *[(0, 0)] * (value.rank - 1)]
        wide = b.pad(value, b.constant(0.0, ElementType.F32), widths)
        node.give(b.reshape(wide, [1, how.count, *value.dimensions[1:]]))
    number = reduce(b, "sum", b.convert(is_there, ElementType.F32), [0])
    node.give(b.reshape(number, [1]))


def _real(node: LiteNode, number: int) -> Op:
    tensor = node.tensor(number)
    if tensor.type == "FLOAT32":
        return node.context.input(number)
    return quantized.as_floats(node, number)


def _decoded(b: Builder, encodings: Op, anchors: Op, options: dict[str, float]) -> Op:
    """Boxes [n, 4] by their corners, of encodings [1, n, 4 or more] and anchors [n, 4]."""
    n, width = encodings.dimensions[1:]
    wide = ElementType.F64
    given = b.convert(b.reshape(encodings, [n, width]), wide)
    centers = [column(b, b.convert(anchors, wide), i) for i in range(4)]
    scales = [options.get(f"{x}_scale", 1.0) for x in "yxhw"]
    parts = [column(b, given, i) / scales[i] for i in range(4)]
    middles = [parts[i] * centers[i + 2] + centers[i] for i in range(2)]
    halves = [b.exponential(parts[i]) * centers[i] * 0.5 for i in (2, 3)]
    middles, halves = [[b.convert(v, ElementType.F32) for v in x] for x in (middles, halves)]
    ends = [m - h for m, h in zip(middles, halves, strict=True)]
    ends += [m + h for m, h in zip(middles, halves, strict=True)]
    return b.concatenate([b.reshape(x, [n, 1]) for x in ends], 1)


@op("NON_MAX_SUPPRESSION_V4", domain=DOMAIN, inputs=5)
def suppression_4(context: OpKernelContext) -> None:
    """Give the places of the best boxes that overlap little, and how many there are."""
    node = LiteNode(context)
    how = Suppression(context.one_int(2), _one(context, 3), _one(context, 4))
    places, _, count = suppressed(node.b, context.input(0), context.input(1), how)
    node.give(places)
    node.give(count)


@op("NON_MAX_SUPPRESSION_V5", domain=DOMAIN, inputs=6)
def suppression_5(context: OpKernelContext) -> None:
    """Give the places and scores of the best boxes, and how many; overlap lowers scores."""
    node = LiteNode(context)
    overlap, score, sigma = [_one(context, i) for i in (3, 4, 5)]
    overlap = 1.0 if sigma > 0 and overlap <= 0 else overlap
    how = Suppression(context.one_int(2), overlap, score, sigma)
    for value in suppressed(node.b, context.input(0), context.input(1), how):
        node.give(value)


def _one(context: OpKernelContext, number: int) -> float:
    return float(context.constant(number).reshape(-1)[0])
