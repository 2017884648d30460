"""Boxes of detectors: non-maximum suppression, and the custom operator that ends with it."""

from __future__ import annotations

from typing import Final

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.context import OpKernelContext
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared.indexing import take
from lowtide.frontend.graphs.shared.loops import repeat_steps
from lowtide.frontend.graphs.shared.reductions import arg_extreme, reduce, top_k
from lowtide.frontend.tflite import quantized
from lowtide.frontend.tflite.flexbuffer import scalars
from lowtide.frontend.tflite.node import DOMAIN, LiteNode
from lowtide.ir import array_shape
from lowtide.ir.element_type import ElementType
from lowtide.records import dataclass

_LEAST: Final = float.fromhex("-0x1.fffffep+127")
"""The score of a box that is taken or dropped."""


@dataclass(frozen=True, eq=False, slots=True)
class _Suppression:
    """What is kept of boxes: at most `count`, over a score, that overlap less than a part."""

    count: int
    overlap: float
    score: float
    sigma: float = 0.0


def _column(b: Builder, boxes: Op, number: int) -> Op:
    n = boxes.dimensions[0]
    return b.reshape(b.slice(boxes, [0, number], [n, number + 1], [1, 1]), [n])


def _ends(b: Builder, boxes: Op) -> list[Op]:
    """Top, left, bottom and right of boxes given by any two opposite corners."""
    y, x, y2, x2 = [_column(b, boxes, i) for i in range(4)]
    return [b.minimum(y, y2), b.minimum(x, x2), b.maximum(y, y2), b.maximum(x, x2)]


def _overlaps(b: Builder, ends: list[Op], chosen: Op) -> Op:
    """The part of the union that each box has in common with one of them, 0 for empty boxes."""
    top, left, bottom, right = ends
    one = [b.broadcast(take(b, x, chosen, 0), x.dimensions, []) for x in ends]
    areas = (bottom - top) * (right - left)
    area = (one[2] - one[0]) * (one[3] - one[1])
    height = b.maximum(b.minimum(bottom, one[2]) - b.maximum(top, one[0]), 0.0)
    width = b.maximum(b.minimum(right, one[3]) - b.maximum(left, one[1]), 0.0)
    common = height * width
    is_empty = b.or_(areas.le(0), area.le(0))
    zeros = b.broadcast(b.constant(0.0, ElementType.F32), common.dimensions, [])
    ones = b.broadcast(b.constant(1.0, ElementType.F32), common.dimensions, [])
    union = b.select(is_empty, ones, areas + area - common)
    return b.select(is_empty, zeros, common / union)


def _suppressed(b: Builder, boxes: Op, scores: Op, how: _Suppression) -> list[Op]:
    """The places of the boxes that are kept and their scores, zeros behind them, and how many."""
    n = boxes.dimensions[0]
    below = b.broadcast(b.constant(_LEAST, ElementType.F32), [n], [])
    start = [
        boxes,
        scores,
        b.broadcast(b.constant(0, ElementType.S32), [how.count], []),
        b.broadcast(b.constant(0.0, ElementType.F32), [how.count], []),
        b.constant(0, ElementType.S32),
    ]
    start[1] = b.select(_is_candidate(scores, how), scores, below)

    def step(child: Builder, _: Op, values: list[Op]) -> list[Op]:
        given, left, places, kept, count = values
        best = arg_extreme(child, "max", left, 0, ElementType.S32)
        score = take(child, left, best, 0)
        found = score.gt(_LEAST)
        at = child.iota(array_shape(ElementType.S32, (how.count,)), 0)
        here = at.eq(child.broadcast(count, [how.count], []))
        here = child.and_(here, child.broadcast(found, [how.count], []))
        places = child.select(here, child.broadcast(best, [how.count], []), places)
        kept = child.select(here, child.broadcast(score, [how.count], []), kept)
        parts = _overlaps(child, _ends(child, given), best)
        lowest = child.broadcast(child.constant(_LEAST, ElementType.F32), [n], [])
        if how.sigma > 0:
            weight = child.exponential(parts * parts * (-0.5 / how.sigma))
            reduced = child.select(parts.le(how.overlap), left * weight, lowest)
            left = child.select(left.gt(_LEAST), reduced, left)
            left = child.select(_is_candidate(left, how), left, lowest)
        else:
            left = child.select(parts.gt(how.overlap), lowest, left)
        numbers = child.iota(array_shape(ElementType.S32, (n,)), 0)
        left = child.select(numbers.eq(child.broadcast(best, [n], [])), lowest, left)
        return [given, left, places, kept, count + child.convert(found, ElementType.S32)]

    return repeat_steps(b, min(how.count, n), start, step)[2:]


def _is_candidate(scores: Op, how: _Suppression) -> Op:
    return scores.ge(how.score) if how.sigma < 0 else scores.gt(how.score)


@op("NON_MAX_SUPPRESSION_V4", domain=DOMAIN, inputs=5)
def suppression_4(context: OpKernelContext) -> None:
    """Give the places of the best boxes that overlap little, and how many there are."""
    node = LiteNode(context)
    how = _Suppression(context.one_int(2), _one(context, 3), _one(context, 4))
    places, _, count = _suppressed(node.b, context.input(0), context.input(1), how)
    node.give(places)
    node.give(count)


@op("NON_MAX_SUPPRESSION_V5", domain=DOMAIN, inputs=6)
def suppression_5(context: OpKernelContext) -> None:
    """Give the places and scores of the best boxes, and how many; overlap lowers scores."""
    node = LiteNode(context)
    overlap, score, sigma = [_one(context, i) for i in (3, 4, 5)]
    overlap = 1.0 if sigma > 0 and overlap <= 0 else overlap
    how = _Suppression(context.one_int(2), overlap, score, sigma)
    for value in _suppressed(node.b, context.input(0), context.input(1), how):
        node.give(value)


def _one(context: OpKernelContext, number: int) -> float:
    return float(context.constant(number).reshape(-1)[0])


# -- the end of a detector -----------------------------------------------------------------------


@op("CUSTOM:TFLite_Detection_PostProcess", domain=DOMAIN, inputs=3)
def detection_post_process(context: OpKernelContext) -> None:
    """Give boxes, classes, scores and their number, of box encodings, scores and anchors.

    Boxes are decoded from centers and sizes, those of the best scores of any class are kept where
    they overlap little, and each comes with its best classes.
    """
    node, b = LiteNode(context), context.builder
    options = scalars(node.custom_options)
    if options.get("use_regular_nms"):
        raise node.refusal("suppression by class")
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
    how = _Suppression(count, overlap, options.get("nms_score_threshold", 0.0), -1.0)
    best = reduce(b, "max", scores, [1])
    places, _, found = _suppressed(b, boxes, best, how)
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
    centers = [_column(b, b.convert(anchors, wide), i) for i in range(4)]
    scales = [options.get(f"{x}_scale", 1.0) for x in "yxhw"]
    parts = [_column(b, given, i) / scales[i] for i in range(4)]
    middles = [parts[i] * centers[i + 2] + centers[i] for i in range(2)]
    halves = [b.exponential(parts[i]) * centers[i] * 0.5 for i in (2, 3)]
    middles, halves = [[b.convert(v, ElementType.F32) for v in x] for x in (middles, halves)]
    ends = [m - h for m, h in zip(middles, halves, strict=True)]
    ends += [m + h for m, h in zip(middles, halves, strict=True)]
    return b.concatenate([b.reshape(x, [n, 1]) for x in ends], 1)
