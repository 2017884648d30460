"""Convolutions of quantized images as convolutions of their numbers."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from lowtide.builder.values import Op
from lowtide.ir import ElementType, Instruction, Opcode
from lowtide.ir.attributes import Convolution, Window
from lowtide.passes.matching import is_plain
from lowtide.passes.rewriting import Rewriter, rule
from lowtide.transforms.quantization.dots import MOST_SUM
from lowtide.transforms.quantization.operands import (
    QuantizedOperand,
    float_operand,
    integer_operand,
)
from lowtide.transforms.quantization.spreading import Spread
from lowtide.transforms.quantization.sums import Slices, less, product, scaled, slices, totals
from lowtide.transforms.simplify.support import Made


@rule(Opcode.CONVOLUTION, exact=False)
def integer_convolution(convolution: Instruction, at: Rewriter) -> Made:
    """Rule: convolution((p - z) * s, q * t) => (convolution(pad(p, z), q) - z sum(q)) * (s t).

    What is around the image becomes its zero point. Exact as `integer_dot` is. A zero point of the
    kernel is taken from its numbers.
    """
    type_ = convolution.shape.element_type
    if type_ not in (ElementType.F32, ElementType.S32) or not is_plain(convolution.shape):
        return None
    find = float_operand if type_ is ElementType.F32 else integer_operand
    image, kernel = [find(x) for x in convolution.operands]
    if image is None or kernel is None or _is_bare(convolution, image, kernel):
        return None
    how = convolution.attributes_as(Convolution)
    of_outputs = {how.dimensions.kernel_output_feature}
    if not _is_one(image.zero) or not _is_one(image.scale):
        return None
    if any(x is not None and not set(x.places) <= of_outputs for x in (kernel.zero, kernel.scale)):
        return None
    sizes = convolution.operands[1].shape.dimensions
    size = prod(sizes) // max(1, sizes[how.dimensions.kernel_output_feature])
    is_float = type_ is ElementType.F32
    if not size or (is_float and size * image.magnitude * kernel.magnitude >= MOST_SUM):
        return None
    if image.zero is not None and any(x.base_dilation != 1 for x in how.window.dimensions):
        return None
    weights = _weights(at, kernel)
    made = image.made(at)
    if image.zero is not None:
        made, how = _padded(at, made, image.zero, how)
    sums = at.build.convolution(
        made,
        weights,
        how.dimensions,
        how.window,
        how.feature_group_count,
        how.batch_group_count,
        element_type=ElementType.S32,
    )
    places = [-1] * len(sizes)
    places[how.dimensions.kernel_output_feature] = how.dimensions.output_feature
    if image.zero is not None:
        inner = [d for d, place in enumerate(places) if place < 0]
        total = totals(at, weights, inner, places)
        zero = slices(at, image.zero, ())
        sums = less(at, sums, product(at, total, zero, sums.dimensions))
    return _with_scales(at, sums, image, kernel, places) if is_float else sums


def _is_bare(x: Instruction, image: QuantizedOperand, kernel: QuantizedOperand) -> bool:
    """Whether the operands are the numbers themselves."""
    types = [y.shape.element_type for y in x.operands]
    return types == [image.type, kernel.type] and image.zero is None and kernel.zero is None


def _is_one(x: Spread | None) -> bool:
    """Whether there is one number for all elements, or none."""
    return x is None or not x.places


def _weights(at: Rewriter, kernel: QuantizedOperand) -> Op:
    """The numbers of a kernel less their zero points."""
    made = kernel.made(at)
    if kernel.zero is None:
        return made
    wide = at.build.convert(made, ElementType.S16)
    zero = slices(at, kernel.zero, tuple(range(made.rank)))
    narrow = Slices(at.build.convert(zero.value, ElementType.S16), zero.places)
    return less(at, wide, narrow)


def _padded(at: Rewriter, image: Op, zero: Spread, how: Convolution) -> tuple[Op, Convolution]:
    """An image with its zero point around it, where the window goes beyond it."""
    sides = [(0, 0)] * image.rank
    for d, x in zip(how.dimensions.input_spatial, how.window.dimensions, strict=True):
        sides[d] = (x.padding_low, x.padding_high)
    if not any(map(any, sides)):
        return image, how
    value = at.build.convert(slices(at, zero, ()).value, image.element_type)
    window = [replace(x, padding_low=0, padding_high=0) for x in how.window.dimensions]
    return at.build.pad(image, value, sides), replace(how, window=Window(tuple(window)))


def _with_scales(
    at: Rewriter, sums: Op, image: QuantizedOperand, kernel: QuantizedOperand, places: list[int]
) -> Op:
    assert image.scale is not None
    assert kernel.scale is not None
    one, many = slices(at, image.scale, ()), slices(at, kernel.scale, places)
    return scaled(at, sums, product(at, one, many, sums.dimensions))
