"""Boxes of detectors: those that are kept of many that overlap."""

from __future__ import annotations

from typing import Final

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.shared.indexing import take
from lowtide.frontend.graphs.shared.loops import repeat_steps
from lowtide.frontend.graphs.shared.reductions import arg_extreme, reduce
from lowtide.ir import array_shape
from lowtide.ir.element_type import ElementType
from lowtide.records import dataclass

LEAST: Final = float.fromhex("-0x1.fffffep+127")
"""The score of a box that is taken or dropped."""


@dataclass(frozen=True, eq=False, slots=True)
class Suppression:
    """What is kept of boxes: at most `count`, over a score, that overlap less than a part."""

    count: int
    overlap: float
    score: float
    sigma: float = 0.0


def column(b: Builder, boxes: Op, number: int) -> Op:
    """Return one of the numbers of each row."""
    n = boxes.dimensions[0]
    return b.reshape(b.slice(boxes, [0, number], [n, number + 1], [1, 1]), [n])


def _ends(b: Builder, boxes: Op) -> list[Op]:
    """Top, left, bottom and right of boxes given by any two opposite corners."""
    y, x, y2, x2 = [column(b, boxes, i) for i in range(4)]
    return [b.minimum(y, y2), b.minimum(x, x2), b.maximum(y, y2), b.maximum(x, x2)]


def _overlaps(b: Builder, ends: list[Op], one: list[Op]) -> Op:
    """The part of the union that boxes have in common with others, 0 for empty boxes."""
    top, left, bottom, right = ends
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


def suppressed(b: Builder, boxes: Op, scores: Op, how: Suppression) -> list[Op]:
    """Return the places of the boxes that are kept, their scores, zeros behind, and how many."""
    n = boxes.dimensions[0]
    below = b.broadcast(b.constant(LEAST, ElementType.F32), [n], [])
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
        found = score.gt(LEAST)
        at = child.iota(array_shape(ElementType.S32, (how.count,)), 0)
        here = at.eq(child.broadcast(count, [how.count], []))
        here = child.and_(here, child.broadcast(found, [how.count], []))
        places = child.select(here, child.broadcast(best, [how.count], []), places)
        kept = child.select(here, child.broadcast(score, [how.count], []), kept)
        ends = _ends(child, given)
        one = [child.broadcast(take(child, x, best, 0), x.dimensions, []) for x in ends]
        parts = _overlaps(child, ends, one)
        lowest = child.broadcast(child.constant(LEAST, ElementType.F32), [n], [])
        if how.sigma > 0:
            weight = child.exponential(parts * parts * (-0.5 / how.sigma))
            reduced = child.select(parts.le(how.overlap), left * weight, lowest)
            left = child.select(left.gt(LEAST), reduced, left)
            left = child.select(_is_candidate(left, how), left, lowest)
        else:
            left = child.select(parts.gt(how.overlap), lowest, left)
        numbers = child.iota(array_shape(ElementType.S32, (n,)), 0)
        left = child.select(numbers.eq(child.broadcast(best, [n], [])), lowest, left)
        return [given, left, places, kept, count + child.convert(found, ElementType.S32)]

    return repeat_steps(b, min(how.count, n), start, step)[2:]


def kept_by_class(b: Builder, boxes: Op, scores: Op, how: Suppression) -> tuple[Op, Op]:
    """Return the places of the boxes that are kept for each class, and their scores.

    `scores` and both results are [classes, boxes]; a score below all others stands behind them.
    """
    classes, n = scores.dimensions
    lowest = b.constant(LEAST, ElementType.F32)
    left = b.select(_is_candidate(scores, how), scores, b.broadcast(lowest, scores.dimensions, []))
    start = [
        boxes,
        left,
        b.broadcast(b.constant(0, ElementType.S32), [classes, how.count], []),
        b.broadcast(lowest, [classes, how.count], []),
    ]

    def step(child: Builder, number: Op, values: list[Op]) -> list[Op]:
        given, left, places, kept = values
        best = arg_extreme(child, "max", left, 1, ElementType.S32)
        wide = [child.broadcast(x, [classes, n], [1]) for x in _ends(child, given)]
        parts = _overlaps(child, wide, _chosen(child, wide, best))
        at = child.iota(array_shape(ElementType.S32, (classes, n)), 1)
        is_best = at.eq(child.broadcast(best, [classes, n], [0]))
        score = reduce(child, "max", left, [1])
        here = child.iota(array_shape(ElementType.S64, (classes, how.count)), 1).eq(
            child.broadcast(number, [classes, how.count], [])
        )
        sizes = [classes, how.count]
        places = child.select(here, child.broadcast(best, sizes, [0]), places)
        kept = child.select(here, child.broadcast(score, sizes, [0]), kept)
        gone = child.broadcast(child.constant(LEAST, ElementType.F32), [classes, n], [])
        left = child.select(child.or_(is_best, parts.gt(how.overlap)), gone, left)
        return [given, left, places, kept]

    _, _, places, kept = repeat_steps(b, how.count, start, step)
    return places, kept


def _chosen(b: Builder, ends: list[Op], chosen: Op) -> list[Op]:
    """The ends [classes, boxes] of one box of each class, repeated along all of them."""
    sizes = ends[0].dimensions
    rows = [take(b, x, b.reshape(chosen, [sizes[0], 1]), 1, 1) for x in ends]
    return [b.broadcast(b.reshape(x, [sizes[0]]), sizes, [0]) for x in rows]


def _is_candidate(scores: Op, how: Suppression) -> Op:
    return scores.ge(how.score) if how.sigma < 0 else scores.gt(how.score)
