"""Batch normalization as sums, products and a square root.

Numbers narrower than 32 bits are computed in f32.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from lowtide.builder.values import Op
from lowtide.ir import Instruction, Opcode
from lowtide.ir.attributes import BatchNorm
from lowtide.passes.interface import Pass, example
from lowtide.passes.rewriting import Rewriter
from lowtide.transforms.expand.support import expander, expansion, narrowed, summed, widened
from lowtide.transforms.simplify.support import Made


@expander(Opcode.BATCH_NORM_TRAINING)
def batch_norm_training(x: Instruction, at: Rewriter) -> Made:
    """(scale * (x - mean) / sqrt(variance + epsilon) + offset, mean, variance)"""
    operand, scale, offset = [widened(at, y) for y in x.operands]
    count = math.prod([operand.dimensions[i] for i in _others(x)])
    mean = summed(operand, _others(x)) / _like(operand, count)
    centered = operand - _along(mean, x)
    variance = summed(centered * centered, _others(x)) / _like(operand, count)
    result = centered * _along(scale * _inverse(variance, x), x) + _along(offset, x)
    return at.build.tuple(
        [
            narrowed(value, part.element_type)
            for value, part in zip((result, mean, variance), x.shape.tuple_shapes, strict=True)
        ]
    )


@expander(Opcode.BATCH_NORM_INFERENCE)
def batch_norm_inference(x: Instruction, at: Rewriter) -> Made:
    """scale * (x - mean) / sqrt(variance + epsilon) + offset"""
    operand, scale, offset, mean, variance = [widened(at, y) for y in x.operands]
    factor = _along(scale * _inverse(variance, x), x)
    result = (operand - _along(mean, x)) * factor + _along(offset, x)
    return narrowed(result, x.shape.element_type)


@expander(Opcode.BATCH_NORM_GRAD)
def batch_norm_grad(x: Instruction, at: Rewriter) -> Made:
    """The gradients of operand, scale and offset, with d = x - mean and i the inverse deviation.

    grad_offset = sum(g), grad_scale = sum(g * d) * i,
    grad_operand = scale * i * (g - sum(g) / n - d * sum(g * d) * i**2 / n)
    """
    operand, scale, mean, variance, gradient = [widened(at, y) for y in x.operands]
    count = _like(operand, max(1, math.prod([operand.dimensions[i] for i in _others(x)])))
    inverse = _inverse(variance, x)
    centered = operand - _along(mean, x)
    projected = summed(gradient * centered, _others(x))
    grad_offset = summed(gradient, _others(x))
    grad_scale = projected * inverse
    slope = _along(grad_scale * inverse / count, x)
    rest = gradient - _along(grad_offset / count, x) - centered * slope
    grad_operand = _along(scale * inverse, x) * rest
    made = (grad_operand, grad_scale, grad_offset)
    return at.build.tuple(
        [
            narrowed(value, part.element_type)
            for value, part in zip(made, x.shape.tuple_shapes, strict=True)
        ]
    )


def _others(x: Instruction) -> list[int]:
    """The dimensions of the operand but that of the features."""
    feature = x.attributes_as(BatchNorm).feature_index
    return [i for i in range(x.operands[0].shape.rank) if i != feature]


def _along(vector: Op, x: Instruction) -> Op:
    """The number of its feature for each element."""
    feature = x.attributes_as(BatchNorm).feature_index
    return vector.builder.broadcast(vector, x.operands[0].shape.dimensions, (feature,))


def _inverse(variance: Op, x: Instruction) -> Op:
    epsilon = np.float32(x.attributes_as(BatchNorm).epsilon)
    root = variance.builder.sqrt(variance + _like(variance, float(epsilon)))
    return _like(variance, 1) / root


def _like(operand: Op, number: float) -> Op:
    return operand.builder.constant(number, operand.element_type)


RULES: Final = (batch_norm_training, batch_norm_inference, batch_norm_grad)

PASSES: Final = (
    Pass(
        "expand-batch-norm",
        expansion(RULES),
        "Writes batch normalizations as arithmetic and sums.",
        *example(
            """
HloModule m

ENTRY main {
  x = f32[2,3] parameter(0)
+ m = f32[3] parameter(3)
+ broadcast.3 = f32[2,3] broadcast(m), dimensions={1}
+ subtract = f32[2,3] subtract(x, broadcast.3)
  s = f32[3] parameter(1)
- o = f32[3] parameter(2)
- m = f32[3] parameter(3)
+ constant.1 = f32[] constant(1)
+ broadcast.1 = f32[3] broadcast(constant.1), dimensions={}
  v = f32[3] parameter(4)
  a = f32[3] abs(v)
- ROOT y = f32[2,3] batch-norm-inference(x, s, o, m, a), epsilon=0.5, feature_index=1
+ constant = f32[] constant(0.5)
+ broadcast = f32[3] broadcast(constant), dimensions={}
+ add = f32[3] add(a, broadcast)
+ sqrt = f32[3] sqrt(add)
+ divide = f32[3] divide(broadcast.1, sqrt)
+ multiply = f32[3] multiply(s, divide)
+ broadcast.2 = f32[2,3] broadcast(multiply), dimensions={1}
+ multiply.1 = f32[2,3] multiply(subtract, broadcast.2)
+ o = f32[3] parameter(2)
+ broadcast.4 = f32[2,3] broadcast(o), dimensions={1}
+ ROOT add.1 = f32[2,3] add(multiply.1, broadcast.4)
}
"""
        ),
    ),
)
