"""Ops of TensorFlow that keep the best of boxes that overlap."""

from __future__ import annotations

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.context import OpKernelContext, flag
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared.elementwise import zeros_like
from lowtide.frontend.graphs.shared.indexing import take
from lowtide.frontend.graphs.shared.reductions import reduce, top_k
from lowtide.frontend.graphs.shared.suppression import LEAST, Suppression, kept_by_class, suppressed
from lowtide.frontend.tensorflow.graph_def import DOMAIN
from lowtide.ir.element_type import ElementType


def _one(context: OpKernelContext, number: int) -> float:
    return float(context.constant(number).reshape(-1)[0])


def _kept(context: OpKernelContext, sigma: float) -> list[Op]:
    """The places, scores and count of boxes; raises GraphError where their number is open."""
    if not context.attribute("pad_to_max_output_size", flag, False):
        raise context.error(
            "it gives as many places as boxes are kept; tf.raw_ops.NonMaxSuppressionV4 with "
            "pad_to_max_output_size=True gives a number that is known"
        )
    b = context.builder
    how = Suppression(context.one_int(2), _one(context, 3), _one(context, 4), sigma)
    boxes, scores = [b.convert(context.input(i), ElementType.F32) for i in range(2)]
    places, kept, count = suppressed(b, boxes, scores, how)
    return [places, b.convert(kept, context.input(1).element_type), count]


@op("NonMaxSuppression", "NonMaxSuppressionV2", "NonMaxSuppressionV3", domain=DOMAIN)
def suppression_without_size(context: OpKernelContext) -> None:
    """Raise GraphError: how many places there are depends on the boxes."""
    _kept(context, 0.0)


@op("NonMaxSuppressionV4", domain=DOMAIN, inputs=5)
def suppression(context: OpKernelContext) -> None:
    """Give the places of the best boxes that overlap little, zeros behind, and how many."""
    places, _, count = _kept(context, 0.0)
    context.set_outputs([places, count])


@op("NonMaxSuppressionV5", domain=DOMAIN, inputs=6)
def soft_suppression(context: OpKernelContext) -> None:
    """Give the places and scores of the best boxes, and how many; overlap lowers scores."""
    context.set_outputs(_kept(context, _one(context, 5)))


@op("CombinedNonMaxSuppression", domain=DOMAIN, inputs=6)
def combined_suppression(context: OpKernelContext) -> None:
    """Give the best boxes of all classes, their scores and classes, and how many, by image.

    Boxes are [n, boxes, 1 or classes, 4], scores [n, boxes, classes].
    """
    b, boxes, scores = context.builder, context.input(0), context.input(1)
    each, total = context.one_int(2), context.one_int(3)
    classes = scores.dimensions[2]
    if boxes.rank != 4 or boxes.dimensions[2] not in (1, classes):
        raise context.error(f"boxes {boxes.shape} for scores {scores.shape}")
    size = total
    if context.attribute("pad_per_class", flag, False):
        size = min(total, each * classes)
    is_clipped = context.attribute("clip_boxes", flag, True)
    how = Suppression(min(each, boxes.dimensions[1]), _one(context, 4), _one(context, 5))
    found = []
    for image in range(boxes.dimensions[0]):
        own = [
            b.reshape(b.slice(x, [image, *first], [image + 1, *x.dimensions[1:]]), x.dimensions[1:])
            for x, first in ((boxes, [0, 0, 0]), (scores, [0, 0]))
        ]
        found.append(_best(b, own[0], own[1], how, size, is_clipped=is_clipped))
    for parts in zip(*found, strict=True):
        wide = [b.reshape(x, [1, *x.dimensions]) for x in parts]
        context.set_output(len(context.outputs), b.concatenate(wide, 0))


def _best(
    b: Builder, boxes: Op, scores: Op, how: Suppression, size: int, *, is_clipped: bool
) -> list[Op]:
    """The boxes, scores and classes of one image, `size` each, zeros behind; and how many."""
    classes = scores.dimensions[1]
    by_class = b.transpose(scores, [1, 0])
    places, kept = _places(b, boxes, by_class, how)
    wide = b.reshape(kept, [kept.shape.element_count])
    missing = max(0, size - wide.dimensions[0])
    wide = b.pad(wide, b.constant(LEAST, ElementType.F32), [(0, missing)])
    best, at = top_k(b, wide, size, 0, ElementType.S32)
    is_there = best.gt(LEAST)
    at = b.minimum(at, classes * how.count - 1)
    place = take(b, b.reshape(places, [classes * how.count]), at, 0)
    number = b.divide(at, how.count)
    own = number if boxes.dimensions[1] > 1 else zeros_like(b, number)
    flat = b.reshape(boxes, [boxes.dimensions[0] * boxes.dimensions[1], 4])
    found = take(b, flat, place * boxes.dimensions[1] + own, 0)
    found = b.minimum(b.maximum(found, 0.0), 1.0) if is_clipped else found
    shown = b.broadcast(is_there, found.dimensions, [0])
    parts = [
        b.select(shown, found, zeros_like(b, found)),
        b.select(is_there, best, zeros_like(b, best)),
    ]
    number = b.convert(number, ElementType.F32)
    parts.append(b.select(is_there, number, zeros_like(b, number)))
    return [*parts, reduce(b, "sum", b.convert(is_there, ElementType.S32), [0])]


def _places(b: Builder, boxes: Op, scores: Op, how: Suppression) -> tuple[Op, Op]:
    """The places of the boxes that are kept for each class, and their scores, [classes, count]."""
    n, shared, _ = boxes.dimensions
    if shared == 1:
        return kept_by_class(b, b.reshape(boxes, [n, 4]), scores, how)
    found = []
    for number in range(shared):
        own = b.reshape(b.slice(boxes, [0, number, 0], [n, number + 1, 4]), [n, 4])
        row = b.slice(scores, [number, 0], [number + 1, n])
        found.append(kept_by_class(b, own, row, how))
    places, kept = [b.concatenate([*x], 0) for x in zip(*found, strict=True)]
    return places, kept
