"""Custom operators of models of faces: a part of an image by its landmarks, turned and scaled.

landmarks ──> matrix ──> part of the image ──> finer landmarks ──> back by the matrix
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.context import OpKernelContext
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared.indexing import take
from lowtide.frontend.graphs.shared.reductions import reduce
from lowtide.frontend.tflite.flexbuffer import scalars, vectors
from lowtide.frontend.tflite.networks import sizes_of
from lowtide.frontend.tflite.node import DOMAIN, LiteNode
from lowtide.ir import array_shape
from lowtide.ir.element_type import ElementType


def _options(node: LiteNode, names: tuple[str, ...]) -> Mapping[str, float]:
    """The options by name; raises GraphError where one is missing."""
    found = scalars(node.custom_options)
    missing = [x for x in names if x not in found]
    if missing:
        raise node.error(f"option {missing[0]!r} is missing")
    return found


def _element(b: Builder, x: Op, row: int, column: int) -> Op:
    """An element of a matrix as a number."""
    return b.reshape(b.slice(x, [row, column], [row + 1, column + 1], [1, 1]), [])


def _matrix(b: Builder, rows: list[list[Any]]) -> Op:
    parts = [b.reshape(b.op(x, ElementType.F32), [1]) for row in rows for x in row]
    return b.reshape(b.concatenate(parts, 0), [len(rows), len(rows[0])])


@op("CUSTOM:Landmarks2TransformMatrix", domain=DOMAIN, inputs=1)
def landmarks_to_matrix(context: OpKernelContext) -> None:
    """Give the matrix [1, 4, 4] from a part's pixels to the image's, of landmarks [1, n, 3].

    Two landmarks say how the part is turned, and the box of some others where it is, how large.
    """
    node, b = LiteNode(context), context.builder
    names = ("left_rotation_idx", "right_rotation_idx", "output_height", "output_width")
    options = _options(node, (*names, "scale_x", "scale_y"))
    count = sizes_of(node, 0, 3)[1]
    left, right, height, width = [int(options[x]) for x in names]
    subset = [int(x) for x in vectors(node.custom_options).get("subset_idxs", [])]
    if not subset or not all(0 <= x < count for x in (left, right, *subset)):
        raise node.error(f"landmarks {left}, {right} and {len(subset)} others of {count}")
    if min(height, width) < 1:
        raise node.error(f"a part of {height} x {width}")
    marks = b.reshape(context.input(0), [count, 3])
    ends = [[_element(b, marks, i, k) for k in range(2)] for i in (left, right)]
    turn = b.subtract(
        options.get("target_rotation_radians", 0.0),
        b.atan2(ends[1][1] - ends[0][1], ends[1][0] - ends[0][0]),
    )
    cosine, sine = b.cosine(turn), b.sine(turn)
    chosen = take(b, marks, b.constant(np.array(subset, np.int32)), 0)
    x, y = [
        b.reshape(b.slice(chosen, [0, k], [len(subset), k + 1], [1, 1]), [len(subset)])
        for k in range(2)
    ]
    turned = [_spread(b, cosine, x) * x - _spread(b, sine, x) * y]
    turned.append(_spread(b, sine, x) * x + _spread(b, cosine, x) * y)
    high, low = [[reduce(b, kind, v, [0]) for v in turned] for kind in ("max", "min")]
    middle = [(top + end) / 2.0 for top, end in zip(high, low, strict=True)]
    center = [cosine * middle[0] + sine * middle[1], cosine * middle[1] - sine * middle[0]]
    across = (high[0] - low[0]) * float(options["scale_x"] / width)
    down = (high[1] - low[1]) * float(options["scale_y"] / height)
    rows = [[cosine * across, sine * down], [-sine * across, cosine * down]]
    shifts = [
        row[0] * (-width / 2.0) + row[1] * (-height / 2.0) + middle_at
        for row, middle_at in zip(rows, center, strict=True)
    ]
    whole = [[*row, 0.0, shift] for row, shift in zip(rows, shifts, strict=True)]
    found = _matrix(b, [*whole, [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]])
    node.give(b.reshape(found, [1, 4, 4]))


def _spread(b: Builder, x: Op, like: Op) -> Op:
    return b.broadcast(x, like.dimensions, [])


def _rows(node: LiteNode, number: int) -> tuple[list[Op], list[Op]]:
    """What a matrix of 4 x 4 does to x and y: factors of both, and a shift."""
    b = node.b
    if sizes_of(node, number, 3)[1:] != (4, 4):
        raise node.error("the matrix is not 4 x 4")
    matrix = b.reshape(node.context.input(number), [4, 4])
    first, second = [[_element(b, matrix, i, k) for k in (0, 1, 3)] for i in range(2)]
    return first, second


@op("CUSTOM:TransformTensorBilinear", domain=DOMAIN, inputs=2)
def transform_image(context: OpKernelContext) -> None:
    """Give a part of an image [1, h, w, c] that a matrix says, between its pixels; 0 outside."""
    node, b = LiteNode(context), context.builder
    options = _options(node, ("output_height", "output_width"))
    rows, columns = int(options["output_height"]), int(options["output_width"])
    _, height, width, depth = sizes_of(node, 0, 4)
    shape = array_shape(ElementType.F32, (rows, columns))
    down, right = b.iota(shape, 0), b.iota(shape, 1)
    places = []
    for across, along_, shift in _rows(node, 1):
        moved = shift + (across + along_) * 0.5 - 0.5
        factors = [_spread(b, v, down) for v in (across, along_, moved)]
        places.append(factors[0] * right + factors[1] * down + factors[2])
    x, y = places
    inside = b.and_(b.and_(x.ge(0), x.le(width - 1)), b.and_(y.ge(0), y.le(height - 1)))
    image = b.reshape(context.input(0), [height * width, depth])
    total = None
    for rounded_down in (True, False):
        for rounded_left in (True, False):
            part = _corner(b, image, (y, x), (height, width), (rounded_down, rounded_left))
            total = part if total is None else total + part
    assert total is not None
    mask = b.broadcast(inside, total.dimensions, [0, 1])
    zeros = b.broadcast(b.constant(0.0, ElementType.F32), total.dimensions, [])
    node.give(b.reshape(b.select(mask, total, zeros), [1, rows, columns, depth]))


def _corner(
    b: Builder, image: Op, at: tuple[Op, Op], sizes: tuple[int, int], low: tuple[bool, bool]
) -> Op:
    """The pixels at one corner around places, each times its share; those beyond have none."""
    share: Op | None = None
    numbers = []
    for place, size, is_low in zip(at, sizes, low, strict=True):
        floor = b.floor(place)
        rest = place - floor
        weight = b.subtract(1.0, rest) if is_low else rest
        share = weight if share is None else share * weight
        clamped = b.maximum(b.minimum(floor if is_low else floor + 1.0, size - 1.0), 0.0)
        numbers.append(b.convert(clamped, ElementType.S32))
    assert share is not None
    pixels = take(b, image, numbers[0] * sizes[1] + numbers[1], 0)
    return pixels * b.broadcast(share, pixels.dimensions, [0, 1])


@op("CUSTOM:TransformLandmarks", domain=DOMAIN, inputs=2)
def transform_landmarks(context: OpKernelContext) -> None:
    """Give landmarks [1, n, 2 or 3] whose x and y go through a matrix; z stays."""
    node, b = LiteNode(context), context.builder
    _, count, size = sizes_of(node, 0, 3)
    if size not in (2, 3):
        raise node.error(f"landmarks of {size} numbers")
    marks = b.reshape(context.input(0), [count, size])
    columns = [b.slice(marks, [0, k], [count, k + 1], [1, 1]) for k in range(size)]
    found = [
        _spread(b, across, columns[0]) * columns[0]
        + _spread(b, along_, columns[0]) * columns[1]
        + _spread(b, shift, columns[0])
        for across, along_, shift in _rows(node, 1)
    ]
    node.give(b.reshape(b.concatenate([*found, *columns[2:]], 1), [1, count, size]))
