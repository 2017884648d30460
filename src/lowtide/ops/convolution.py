"""Convolution, with strides, dilations and groups."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from lowtide.ir.attributes import Convolution, ConvolutionDimensions
from lowtide.ir.errors import ShapeError
from lowtide.ir.opcode import Opcode
from lowtide.ir.shape import UNBOUNDED, ProgramShape, Shape
from lowtide.ops.checks import (
    Dimension,
    array,
    dimensions_of,
    higher_precision,
    listed,
    make_array,
    plain,
)
from lowtide.ops.definition import UNLIMITED, OpDefinition
from lowtide.ops.quantities import Cost, bytes_touched
from lowtide.ops.windows import slide, taps

Shapes = Sequence[Shape]
Called = Sequence[ProgramShape]


def _roles(numbers: ConvolutionDimensions) -> tuple[tuple[str, tuple[int, ...]], ...]:
    return (
        ("input", (numbers.input_batch, numbers.input_feature, *numbers.input_spatial)),
        (
            "kernel",
            (numbers.kernel_input_feature, numbers.kernel_output_feature, *numbers.kernel_spatial),
        ),
        ("output", (numbers.output_batch, numbers.output_feature, *numbers.output_spatial)),
    )


def _check_roles(lhs: Shape, rhs: Shape, attributes: Convolution) -> None:
    rank = len(attributes.window.dimensions) + 2
    for shape, what in ((lhs, "input"), (rhs, "kernel")):
        if array(shape, f"the {what}").rank != rank:
            raise ShapeError(
                f"the {what} {plain(shape)} must have rank {rank}: batch, feature and "
                f"{rank - 2} dimensions of the window"
            )
    for what, dimensions in _roles(attributes.dimensions):
        if sorted(dimensions) != list(range(rank)):
            raise ShapeError(
                f"the {what} dimensions {listed(dimensions)} must be all of 0..{rank - 1}"
            )


def _check_groups(lhs: Shape, rhs: Shape, attributes: Convolution) -> None:
    numbers = attributes.dimensions
    groups, batch_groups = attributes.feature_group_count, attributes.batch_group_count
    if groups < 1 or batch_groups < 1:
        raise ShapeError(f"group counts must be positive, not {groups} and {batch_groups}")
    if groups > 1 and batch_groups > 1:
        raise ShapeError("feature_group_count and batch_group_count cannot both exceed 1")
    features = lhs.dimensions[numbers.input_feature]
    kernel_features = rhs.dimensions[numbers.kernel_input_feature]
    outputs = rhs.dimensions[numbers.kernel_output_feature]
    batch = lhs.dimensions[numbers.input_batch]
    if UNBOUNDED not in (features, kernel_features) and features != kernel_features * groups:
        raise ShapeError(
            f"{features} input features must be feature_group_count {groups} times the "
            f"{kernel_features} of the kernel; input {plain(lhs)}, kernel {plain(rhs)}"
        )
    for name, count, size in (
        ("feature_group_count", groups, outputs),
        ("batch_group_count", batch_groups, outputs),
        ("batch_group_count", batch_groups, batch),
    ):
        if size != UNBOUNDED and size % count:
            raise ShapeError(f"{name} {count} must divide {size}")


def _infer(operands: Shapes, attributes: Convolution, called: Called) -> Shape:
    lhs, rhs = operands[:2]
    numbers = attributes.dimensions
    _check_roles(lhs, rhs, attributes)
    _check_groups(lhs, rhs, attributes)
    window = attributes.window
    kernel = tuple([rhs.dimensions[i] for i in numbers.kernel_spatial])
    sizes = tuple([dimension.size for dimension in window.dimensions])
    if any(a not in (b, UNBOUNDED) for a, b in zip(kernel, sizes, strict=True)):
        raise ShapeError(f"the window {listed(sizes)} must match the kernel, {listed(kernel)}")
    left = dimensions_of(lhs)
    batch, dynamic = left[numbers.input_batch]
    if batch != UNBOUNDED:
        batch //= attributes.batch_group_count
    spatial = slide([left[i] for i in numbers.input_spatial], window)
    result: list[Dimension] = [(0, False)] * lhs.rank
    result[numbers.output_batch] = (batch, dynamic)
    result[numbers.output_feature] = dimensions_of(rhs)[numbers.kernel_output_feature]
    for dimension, size in zip(numbers.output_spatial, spatial, strict=True):
        result[dimension] = size
    return make_array(higher_precision(lhs.element_type, rhs.element_type), result)


def _cost(result: Shape, operands: Shapes, attributes: Convolution, called: Sequence[Cost]) -> Cost:
    lhs, rhs = operands[:2]
    numbers = attributes.dimensions
    result = result.tuple_shapes[0] if result.is_tuple else result
    valid = [
        taps(lhs.dimensions[i], result.dimensions[o], window)
        for i, o, window in zip(
            numbers.input_spatial, numbers.output_spatial, attributes.window.dimensions, strict=True
        )
    ]
    batch = lhs.dimensions[numbers.input_batch] // attributes.batch_group_count
    features = lhs.dimensions[numbers.input_feature] // attributes.feature_group_count
    outputs = rhs.dimensions[numbers.kernel_output_feature]
    products = batch * features * outputs * math.prod(valid)
    return Cost(2 * products, 0, bytes_touched(result, operands))


OPERATIONS: Final = (
    OpDefinition(
        Opcode.CONVOLUTION,
        "sums of products over a sliding window and the input features",
        arity=(2, UNLIMITED),
        attributes=Convolution,
        infer=_infer,
        cost=_cost,
        free_element_type=True,
        factors="windows.convolution",
    ),
)
