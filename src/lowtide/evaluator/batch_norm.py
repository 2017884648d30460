"""Batch normalization: training, inference and gradient.

Narrow floating point types are computed in f32 and rounded once, at the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lowtide.evaluator.numeric import widen
from lowtide.evaluator.values import Value, Values, as_array
from lowtide.ir.attributes import BatchNorm
from lowtide.ir.literal import Array
from lowtide.ir.opcode import Opcode

if TYPE_CHECKING:
    from lowtide.evaluator.interpreter import Interpreter
    from lowtide.evaluator.registry import Handler
    from lowtide.ir.instruction import Instruction


def training(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    """Return (normalized operand, mean, variance), both over all dimensions but the feature's.

    The variance is the biased one: the mean of the squared distances from the mean.
    """
    norm = instruction.attributes_as(BatchNorm)
    operand, scale, offset = (widen(as_array(x)) for x in operands)
    axes = _other_axes(operand, norm)
    mean = _mean(operand, axes)
    centered = operand - _along(mean, operand, norm)
    variance = _mean(centered * centered, axes)
    result = _normalize(centered, variance, scale, norm)
    result = result + _along(offset, operand, norm)
    return tuple([_narrow(x, operands[0]) for x in (result, mean, variance)])


def inference(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    """Return the operand normalized with the given mean and variance."""
    norm = instruction.attributes_as(BatchNorm)
    operand, scale, offset, mean, variance = (widen(as_array(x)) for x in operands)
    centered = operand - _along(mean, operand, norm)
    result = _normalize(centered, variance, scale, norm) + _along(offset, operand, norm)
    return _narrow(result, operands[0])


def gradient(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    """Return the gradients with respect to operand, scale and offset of `training`."""
    norm = instruction.attributes_as(BatchNorm)
    operand, scale, mean, variance, grad_output = (widen(as_array(x)) for x in operands)
    axes = _other_axes(operand, norm)
    count = operand.dtype.type(max(operand.size // max(mean.size, 1), 1))
    inverse = 1 / np.sqrt(variance + _epsilon(norm, operand))
    centered = operand - _along(mean, operand, norm)
    projected = np.sum(grad_output * centered, axis=axes)
    grad_offset = np.sum(grad_output, axis=axes)
    grad_scale = projected * inverse
    shift = _along(grad_offset / count, operand, norm)
    slope = _along(projected * inverse * inverse / count, operand, norm)
    grad_operand = grad_output - shift - centered * slope
    grad_operand = _along(scale * inverse, operand, norm) * grad_operand
    return tuple([_narrow(x, operands[0]) for x in (grad_operand, grad_scale, grad_offset)])


def _normalize(centered: Array, variance: Array, scale: Array, norm: BatchNorm) -> Array:
    factor = scale / np.sqrt(variance + _epsilon(norm, centered))
    result: Array = centered * _along(factor, centered, norm)
    return result


def _epsilon(norm: BatchNorm, like: Array) -> Any:
    """Return epsilon, an f32 number, as a scalar of the type of `like`."""
    return like.dtype.type(np.float32(norm.epsilon))


def _mean(array: Array, axes: tuple[int, ...]) -> Array:
    count = np.prod([array.shape[axis] for axis in axes], dtype=np.int64)
    return np.asarray(np.sum(array, axis=axes) / array.dtype.type(count))


def _other_axes(operand: Array, norm: BatchNorm) -> tuple[int, ...]:
    return tuple([axis for axis in range(operand.ndim) if axis != norm.feature_index])


def _along(vector: Array, operand: Array, norm: BatchNorm) -> Array:
    """Return the vector of features in a shape that broadcasts against the operand."""
    sizes = [1] * operand.ndim
    sizes[norm.feature_index] = vector.size
    return vector.reshape(sizes)


def _narrow(array: Array, like: Value) -> Array:
    dtype: np.dtype[Any] = as_array(like).dtype
    return np.asarray(array).astype(dtype, copy=False)


HANDLERS: Final[dict[Opcode, Handler]] = {
    Opcode.BATCH_NORM_GRAD: gradient,
    Opcode.BATCH_NORM_INFERENCE: inference,
    Opcode.BATCH_NORM_TRAINING: training,
}
