"""Convolutions that take in padding, reversals and transposes, or are dots."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from lowtide.builder.values import Op
from lowtide.ir import Instruction, Opcode
from lowtide.ir.attributes import (
    Convolution,
    ConvolutionDimensions,
    DotDimensions,
    Window,
    WindowDimension,
)
from lowtide.passes.matching import (
    are_plain,
    dimensions,
    has_one_user,
    is_all,
    is_positive_zero,
    is_uniform,
)
from lowtide.passes.rewriting import Rewriter
from lowtide.transforms.simplify.pad import NO_PADDING, padding_of
from lowtide.transforms.simplify.shapes import inverse
from lowtide.transforms.simplify.support import Made, arrays, splat


def _how(convolution: Instruction) -> Convolution:
    return convolution.attributes_as(Convolution)


def _redone(at: Rewriter, convolution: Instruction, x: Op, kernel: Op, how: Convolution) -> Op:
    """Return another convolution of the same shape."""
    return at.build.emit(Opcode.CONVOLUTION, [x, kernel], how, shape=convolution.shape)


def _is_simple(convolution: Instruction) -> bool:
    """Whether there are two operands and no groups."""
    how = _how(convolution)
    return (
        len(convolution.operands) == 2
        and how.feature_group_count == how.batch_group_count == 1
        and not how.sparsity_config
    )


@arrays(Opcode.CONVOLUTION)
def convolution_of_nothing(convolution: Instruction, at: Rewriter) -> Made:
    """convolution(x, k) => 0, where x or k has no elements"""
    if all(x.shape.element_count for x in convolution.operands[:2]):
        return None
    return splat(at, 0, convolution.shape)


@arrays(Opcode.CONVOLUTION)
def convolution_of_pad(convolution: Instruction, at: Rewriter) -> Made:
    """convolution(pad(x, 0), k) => convolution(x, k), with the padding in the window

    Zeros at the ends are multiplied either way. Those in between are not where the window spreads
    its input, nor then those at its ends: an infinity in the kernel tells them apart.
    """
    if len(convolution.operands) != 2:
        return None
    pad, kernel = convolution.operands
    how = _how(convolution)
    if pad.opcode is not Opcode.PAD or not is_uniform(pad) or not is_all(pad.operands[1], 0):
        return None
    padding = padding_of(pad)
    numbers = how.dimensions
    if (
        padding[numbers.input_batch] != NO_PADDING
        or padding[numbers.input_feature] != NO_PADDING
        or not is_positive_zero(pad.operands[1])
    ):
        return None
    window = []
    for d, spatial in zip(how.window.dimensions, numbers.input_spatial, strict=True):
        p = padding[spatial]
        if p.low < 0 or p.high < 0 or p.interior or d.base_dilation != 1:
            return None
        window.append(
            replace(d, padding_low=d.padding_low + p.low, padding_high=d.padding_high + p.high)
        )
    new = replace(how, window=Window(tuple(window)))
    return _redone(at, convolution, at(pad.operands[0]), at(kernel), new)


@arrays(Opcode.CONVOLUTION)
def convolution_of_reversed_kernel(convolution: Instruction, at: Rewriter) -> Made:
    """convolution(x, reverse(k)) => convolution(x, k), reversed in the window"""
    if len(convolution.operands) != 2:
        return None
    x, reverse = convolution.operands
    how = _how(convolution)
    spatial = how.dimensions.kernel_spatial
    if reverse.opcode is not Opcode.REVERSE or not set(dimensions(reverse)) <= set(spatial):
        return None
    window = [
        replace(d, reversal=d.reversal != (spatial[i] in dimensions(reverse)))
        for i, d in enumerate(how.window.dimensions)
    ]
    new = replace(how, window=Window(tuple(window)))
    return _redone(at, convolution, at(x), at(reverse.operands[0]), new)


@arrays(Opcode.CONVOLUTION)
def convolution_of_transpose(convolution: Instruction, at: Rewriter) -> Made:
    """convolution(transpose(x), k) => convolution(x, k), with other dimension numbers, and for k"""
    if len(convolution.operands) != 2:
        return None
    x, kernel = convolution.operands
    how = _how(convolution)
    n = how.dimensions
    if x.opcode is Opcode.TRANSPOSE and are_plain(x.operands[0]):
        order = dimensions(x)
        numbers = replace(
            n,
            input_batch=order[n.input_batch],
            input_feature=order[n.input_feature],
            input_spatial=tuple([order[d] for d in n.input_spatial]),
        )
        if _turns_inside_out(n.input_spatial, numbers.input_spatial):
            return None
        new = replace(how, dimensions=numbers)
        return _redone(at, convolution, at(x.operands[0]), at(kernel), new)
    if kernel.opcode is Opcode.TRANSPOSE and are_plain(kernel.operands[0]):
        order = dimensions(kernel)
        numbers = replace(
            n,
            kernel_input_feature=order[n.kernel_input_feature],
            kernel_output_feature=order[n.kernel_output_feature],
            kernel_spatial=tuple([order[d] for d in n.kernel_spatial]),
        )
        if _turns_inside_out(n.kernel_spatial, numbers.kernel_spatial):
            return None
        new = replace(how, dimensions=numbers)
        return _redone(at, convolution, at(x), at(kernel.operands[0]), new)
    return None


def _turns_inside_out(before: tuple[int, ...], after: tuple[int, ...]) -> bool:
    """Whether the last of all dimensions becomes a spatial one: kernels want channels there."""
    last = len(before) + 1
    return last in after and last not in before


@arrays(Opcode.TRANSPOSE, of=(Opcode.CONVOLUTION,))
def transpose_of_convolution(transpose: Instruction, at: Rewriter) -> Made:
    """transpose(convolution(x, k)) => convolution(x, k), with other dimension numbers"""
    inner = transpose.operands[0]
    if inner.opcode is not Opcode.CONVOLUTION or not has_one_user(inner):
        return None
    if not are_plain(*inner.operands) or len(inner.operands) != 2:
        return None
    how = _how(inner)
    n = how.dimensions
    place = inverse(dimensions(transpose))
    numbers = replace(
        n,
        output_batch=place[n.output_batch],
        output_feature=place[n.output_feature],
        output_spatial=tuple([place[d] for d in n.output_spatial]),
    )
    if _turns_inside_out(n.output_spatial, numbers.output_spatial):
        return None
    x, kernel = inner.operands
    return _redone(at, transpose, at(x), at(kernel), replace(how, dimensions=numbers))


# -- dots --------------------------------------------------------------------------------------


@arrays(Opcode.CONVOLUTION)
def convolution_of_single_taps(convolution: Instruction, at: Rewriter) -> Made:
    """convolution(x, k) => dot(x, reshape(k)), where the window has one element

    The dimensions come out in order: output features last, or first, where the factors change.
    """
    how = _how(convolution)
    if not _is_simple(convolution):
        return None
    if any(replace(d, reversal=False) != WindowDimension(1) for d in how.window.dimensions):
        return None
    x, kernel = convolution.operands
    n = how.dimensions
    if not _is_in_order(n):
        return None
    matrix, i = _kernel_matrix(at, kernel, n)
    numbers = DotDimensions((n.input_feature,), (i,))
    if n.output_feature == convolution.shape.rank - 1:
        return at.build.dot(at(x), matrix, numbers, how.precision, convolution.shape.element_type)
    numbers = DotDimensions((i,), (n.input_feature,))
    return at.build.dot(matrix, at(x), numbers, how.precision, convolution.shape.element_type)


def _is_in_order(n: ConvolutionDimensions) -> bool:
    """Whether batch and spatial dimensions have one order in input and output, features aside.

    The output features are last or first, as a dot has them.
    """
    before = [n.input_batch, *n.input_spatial]
    after = [n.output_batch, *n.output_spatial]
    rank = len(before) + 1
    order = sorted(range(rank - 1), key=lambda j: before[j])
    return order == sorted(range(rank - 1), key=lambda j: after[j]) and n.output_feature in (
        0,
        rank - 1,
    )


def _kernel_matrix(at: Rewriter, kernel: Instruction, n: ConvolutionDimensions) -> tuple[Op, int]:
    """Return a kernel of one tap as a matrix, and the place of the input features in it."""
    kept = sorted([n.kernel_input_feature, n.kernel_output_feature])
    sizes = [kernel.shape.dimensions[d] for d in kept]
    i = kept.index(n.kernel_input_feature)
    return at.build.reshape(at(kernel), sizes), i


@arrays(Opcode.CONVOLUTION)
def convolution_of_everything(convolution: Instruction, at: Rewriter) -> Made:
    """convolution(x, k) => reshape(dot(x, k)), where the one window is all of x"""
    how = _how(convolution)
    if not _is_simple(convolution):
        return None
    x, kernel = convolution.operands
    n = how.dimensions
    for d, spatial in zip(how.window.dimensions, n.input_spatial, strict=True):
        size = x.shape.dimensions[spatial]
        if replace(d, stride=1) != WindowDimension(size) or not size:
            return None
    if any(convolution.shape.dimensions[d] != 1 for d in n.output_spatial):
        return None
    if all(d.size == 1 for d in how.window.dimensions):
        return None
    numbers = DotDimensions(
        (n.input_feature, *n.input_spatial), (n.kernel_input_feature, *n.kernel_spatial)
    )
    element_type = convolution.shape.element_type
    if n.output_batch < n.output_feature:
        result = at.build.dot(at(x), at(kernel), numbers, how.precision, element_type)
    else:
        numbers = DotDimensions(numbers.rhs_contracting, numbers.lhs_contracting)
        result = at.build.dot(at(kernel), at(x), numbers, how.precision, element_type)
    return at.build.reshape(result, convolution.shape.dimensions)


_FEW: Final = 16
"""Features that fill no vector: those of an image, which the pixels of a feature lie behind."""


@arrays(Opcode.CONVOLUTION)
def convolution_of_patches(convolution: Instruction, at: Rewriter) -> Made:
    """convolution(x, k) => dot(reshape(x), k), where windows lie side by side and fill x

    Only where x has few features, which do not lie together: a dot reads the lines of a window as
    they lie, a convolution has to move them first.
    """
    how = _how(convolution)
    x, kernel = convolution.operands
    n = how.dimensions
    if not _is_simple(convolution) or n.input_spatial != tuple(sorted(n.input_spatial)):
        return None
    is_last = n.input_spatial[-1] == x.shape.rank - 1
    if not is_last or kernel.shape.dimensions[n.kernel_input_feature] >= _FEW:
        return None
    sizes: list[int] = []
    place: dict[int, int] = {}
    parts = dict(zip(n.input_spatial, how.window.dimensions, strict=True))
    for d, size in enumerate(x.shape.dimensions):
        place[d] = len(sizes)
        window = parts.get(d)
        if window is None:
            sizes.append(size)
        elif replace(window, stride=1) == WindowDimension(window.size) and window.size > 1:
            if window.stride != window.size or size % window.size:
                return None
            sizes += [size // window.size, window.size]
        else:
            return None
    pairs = {place[d] + 1: k for d, k in zip(n.input_spatial, n.kernel_spatial, strict=True)}
    pairs[place[n.input_feature]] = n.kernel_input_feature
    contracted = sorted(pairs)
    numbers = DotDimensions(tuple(contracted), tuple([pairs[d] for d in contracted]))
    data = at.build.reshape(at(x), sizes)
    product = at.build.dot(data, at(kernel), numbers, how.precision, convolution.shape.element_type)
    written = dict(zip(n.input_spatial, n.output_spatial, strict=True))
    written[n.input_batch] = n.output_batch
    order = (*[written[d] for d in sorted(written)], n.output_feature)
    return at.build.transpose(product, inverse(order))
