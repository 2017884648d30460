"""Fourier transforms, matrix factorizations and batch normalization."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from lowtide.ir.attributes import BatchNorm, Cholesky, Fft, TriangularSolve
from lowtide.ir.element_type import ElementType
from lowtide.ir.errors import ShapeError
from lowtide.ir.opcode import Opcode
from lowtide.ir.shape import ProgramShape, Shape, tuple_shape
from lowtide.ops.checks import (
    COMPLEX_OF,
    Dimension,
    array,
    compatible_size,
    dimensions_of,
    in_range,
    laid_out_as,
    listed,
    make_array,
    plain,
    same_sizes,
    same_type,
)
from lowtide.ops.definition import OpDefinition
from lowtide.ops.quantities import Cost, bytes_touched, moves_all

Shapes = Sequence[Shape]
Called = Sequence[ProgramShape]

# -- fft ---------------------------------------------------------------------------------------


def _infer_fft(operands: Shapes, attributes: Fft, called: Called) -> Shape:
    operand = array(operands[0], "the operand")
    lengths = attributes.length
    if not 1 <= len(lengths) <= 3 or len(lengths) > operand.rank:
        raise ShapeError(
            f"fft_length {listed(lengths)} must name 1 to 3 dimensions of {plain(operand)}"
        )
    if attributes.kind == "RFFT":
        return _infer_rfft(operand, lengths)
    if not operand.element_type.is_complex:
        raise ShapeError(f"{attributes.kind} needs a complex operand, not {plain(operand)}")
    if attributes.kind == "IRFFT":
        return _infer_irfft(operand, lengths)
    if attributes.kind not in ("FFT", "IFFT"):
        raise ShapeError(f"fft_type {attributes.kind!r} is none of FFT, IFFT, RFFT, IRFFT")
    return operand


def _infer_rfft(operand: Shape, lengths: tuple[int, ...]) -> Shape:
    whole = COMPLEX_OF.get(operand.element_type)
    if whole is None:
        raise ShapeError(f"RFFT needs an operand of f32 or f64, not {plain(operand)}")
    tail = operand.dimensions[-len(lengths) :]
    if not all(compatible_size(a, b) for a, b in zip(tail, lengths, strict=True)):
        raise ShapeError(f"fft_length {listed(lengths)} must be the last sizes of {plain(operand)}")
    last = lengths[-1] // 2 + 1 if lengths[-1] else 0
    return _with_last_size(operand, whole, last)


def _infer_irfft(operand: Shape, lengths: tuple[int, ...]) -> Shape:
    tail = operand.dimensions[-len(lengths) :]
    expected = (*lengths[:-1], lengths[-1] // 2 + 1 if lengths[-1] or tail[-1] else 0)
    if not all(compatible_size(a, b) for a, b in zip(tail, expected, strict=True)):
        raise ShapeError(
            f"the last sizes of {plain(operand)} must be {listed(expected)} for fft_length "
            f"{listed(lengths)}"
        )
    return _with_last_size(operand, operand.element_type.part, lengths[-1])


def _with_last_size(operand: Shape, element_type: ElementType, size: int) -> Shape:
    dimensions: list[Dimension] = [*dimensions_of(operand)[:-1], (size, False)]
    return laid_out_as(make_array(element_type, dimensions), operand)


def _verify_fft(result: Shape, operands: Shapes, attributes: Fft, called: Called) -> None:
    if attributes.kind not in ("FFT", "IFFT") or not operands[0].element_count:
        return
    tail = operands[0].dimensions[-len(attributes.length) :]
    if not all(compatible_size(a, b) for a, b in zip(tail, attributes.length, strict=True)):
        raise ShapeError(
            f"fft_length {listed(attributes.length)} must be the last sizes of {plain(operands[0])}"
        )


def _fft_cost(result: Shape, operands: Shapes, attributes: Fft, called: Sequence[Cost]) -> Cost:
    logs = math.prod([max(length, 1).bit_length() - 1 for length in attributes.length])
    complex_multiply_add = 8
    flops = complex_multiply_add * logs * operands[0].element_count
    return Cost(flops, 0, bytes_touched(result, operands))


# -- factorizations ----------------------------------------------------------------------------


def _square(a: Shape, what: str) -> None:
    if not (array(a, what).element_type.is_floating or a.element_type.is_complex):
        raise ShapeError(f"{what} must be floating or complex, not {plain(a)}")
    if a.rank < 2 or not compatible_size(a.dimensions[-1], a.dimensions[-2]):
        raise ShapeError(f"{what} must hold square matrices, not {plain(a)}")


def _infer_cholesky(operands: Shapes, attributes: Cholesky, called: Called) -> Shape:
    _square(operands[0], "the operand")
    return operands[0]


def _infer_triangular_solve(operands: Shapes, attributes: TriangularSolve, called: Called) -> Shape:
    a, b = operands
    _square(a, "operand 0")
    if array(b, "operand 1").element_type is not a.element_type:
        raise ShapeError(f"the operands differ in type: {plain(a)} and {plain(b)}")
    if a.rank != b.rank or a.dimensions[:-2] != b.dimensions[:-2]:
        raise ShapeError(
            f"the operands differ in their batch dimensions: {plain(a)} and {plain(b)}"
        )
    shared = b.dimensions[-2 if attributes.left_side else -1]
    if not compatible_size(shared, a.dimensions[-1]):
        raise ShapeError(f"the shared dimension of {plain(a)} and {plain(b)} differs")
    return b


def _cholesky_cost(
    result: Shape, operands: Shapes, attributes: Cholesky, called: Sequence[Cost]
) -> Cost:
    a = operands[0]
    flops = a.dimensions[-1] * a.element_count // 3
    return Cost(flops, 0, result.nbytes / 2 + a.nbytes / 2)


def _triangular_solve_cost(
    result: Shape, operands: Shapes, attributes: TriangularSolve, called: Sequence[Cost]
) -> Cost:
    a, b = operands
    flops = 2 * a.dimensions[-1] * b.element_count
    return Cost(flops, 0, result.nbytes + a.nbytes / 2 + b.nbytes)


# -- batch normalization -----------------------------------------------------------------------


def _features(operands: Shapes, attributes: BatchNorm) -> Shape:
    """Return the shape of one number per feature."""
    operand = array(operands[0], "the operand")
    if not operand.element_type.is_floating:
        raise ShapeError(f"the operand must be floating, not {plain(operand)}")
    feature = in_range(attributes.feature_index, operand, "feature_index")
    return make_array(operand.element_type, [dimensions_of(operand)[feature]])


def _check_per_feature(shapes: Shapes, features: Shape) -> None:
    for shape in shapes:
        if not same_type(array(shape, "an operand").element_type, features.element_type):
            raise ShapeError(f"{plain(shape)} must have the type of {plain(features)}")
        if not same_sizes(shape, features):
            raise ShapeError(f"{plain(shape)} must hold one number per feature, {plain(features)}")


def _infer_batch_norm_training(operands: Shapes, attributes: BatchNorm, called: Called) -> Shape:
    features = _features(operands, attributes)
    _check_per_feature(operands[1:], features)
    return tuple_shape([operands[0], features, features])


def _infer_batch_norm_inference(operands: Shapes, attributes: BatchNorm, called: Called) -> Shape:
    _check_per_feature(operands[1:], _features(operands, attributes))
    return operands[0]


def _infer_batch_norm_grad(operands: Shapes, attributes: BatchNorm, called: Called) -> Shape:
    features = _features(operands, attributes)
    _check_per_feature(operands[1:4], features)
    if not same_sizes(array(operands[4], "operand 4"), operands[0]):
        raise ShapeError(f"operand 4 must be {plain(operands[0])}, not {plain(operands[4])}")
    return tuple_shape([operands[0], features, features])


OPERATIONS: Final = (
    OpDefinition(
        Opcode.FFT,
        "the discrete Fourier transform over the last dimensions",
        attributes=Fft,
        infer=_infer_fft,
        verify=_verify_fft,
        cost=_fft_cost,
        factors="computing.batches",
    ),
    OpDefinition(
        Opcode.CHOLESKY,
        "the triangular factor of symmetric positive definite matrices",
        attributes=Cholesky,
        infer=_infer_cholesky,
        cost=_cholesky_cost,
        factors="computing.batches",
    ),
    OpDefinition(
        Opcode.TRIANGULAR_SOLVE,
        "x with a x = b or x a = b, for triangular a",
        arity=(2, 2),
        attributes=TriangularSolve,
        infer=_infer_triangular_solve,
        cost=_triangular_solve_cost,
        factors="computing.batches",
    ),
    OpDefinition(
        Opcode.BATCH_NORM_TRAINING,
        "the operand normalized per feature, with its mean and variance",
        arity=(3, 3),
        attributes=BatchNorm,
        infer=_infer_batch_norm_training,
        cost=moves_all,
        factors="computing.batch_norm",
    ),
    OpDefinition(
        Opcode.BATCH_NORM_INFERENCE,
        "the operand normalized per feature by given mean and variance",
        arity=(5, 5),
        attributes=BatchNorm,
        infer=_infer_batch_norm_inference,
        cost=moves_all,
        factors="computing.batch_norm",
    ),
    OpDefinition(
        Opcode.BATCH_NORM_GRAD,
        "the gradients of batch-norm-training",
        arity=(5, 5),
        attributes=BatchNorm,
        infer=_infer_batch_norm_grad,
        cost=moves_all,
        factors="computing.batch_norm",
    ),
)
