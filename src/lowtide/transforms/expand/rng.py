"""Draws of random numbers as random bits and what makes numbers of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from lowtide.builder import Builder
from lowtide.builder.values import Op
from lowtide.ir import ElementType, Instruction, Module, Opcode, array_shape
from lowtide.ir.attributes import Rng, RngBitGenerator, RngGetAndUpdateState
from lowtide.ir.traversal import post_order
from lowtide.passes.interface import Pass, example
from lowtide.passes.matching import are_plain
from lowtide.transforms.expand.support import narrowed, spread_to


def expand_rng(module: Module) -> int:
    """Write rng as Philox bits from a counter that the program keeps; return how many changes.

    Each number takes 128 bits, of which 53 are used for one uniform in [0, 1), and is computed in
    f64: numbers are those of the evaluator.
    """
    changes = 0
    for computation in list(module.computations.values()):
        if any(x.opcode is Opcode.RNG for x in computation.instructions.values()):
            found = [x for x in post_order(computation) if x.opcode is Opcode.RNG]
            changes += sum([_expanded(x) for x in found])
    return changes


def _expanded(x: Instruction) -> bool:
    """Whether a draw was written as bits; it is removed then."""
    a, b = x.operands[:2]
    if x.has_control_edges:
        return False
    kind = x.shape.element_type
    if not are_plain(x, a, b) or a.shape.element_type is not kind or b.shape is not a.shape:
        return False
    if kind.is_complex or a.shape.rank:
        return False
    computation = x.parent
    build = Builder.inside(computation, lambda made: made.set_metadata(x.raw_metadata))
    if x.shape.element_count:
        draw = _DISTRIBUTIONS[x.attributes_as(Rng).distribution]
        made = draw(_words(build, x), build.value(a), build.value(b))
        result = build.reshape(made, x.shape.dimensions).instruction
    else:
        result = spread_to(build.value(a), x.shape.dimensions).instruction
    result.set_annotations(x.annotations)
    x.replace_all_uses_with(result)
    computation.remove(x)
    return True


def _words(build: Builder, x: Instruction) -> tuple[Op, Op]:
    """Two u64 words for each element, shape [elements]."""
    count = x.shape.element_count
    counter = build.emit(
        Opcode.RNG_GET_AND_UPDATE_STATE,
        (),
        RngGetAndUpdateState(count),
        shape=array_shape(ElementType.U64, (2,)),
    )
    key = build.constant(np.zeros(1, np.uint64))
    state = build.concatenate([key, counter], 0)
    shape = array_shape(ElementType.U64, (count, 2))
    attributes = RngBitGenerator("rng_philox")
    bits = build.emit(Opcode.RNG_BIT_GENERATOR, [state], attributes, shape=shape)
    first, second = [
        build.reshape(build.slice(bits, [0, i], [count, i + 1]), (count,)) for i in range(2)
    ]
    return first, second


def _uniform(words: tuple[Op, Op], low: Op, high: Op) -> Op:
    """Numbers from `low`, included, to `high`, which is not."""
    bits, build = words[0], low.builder
    kind = low.element_type
    if kind is ElementType.PRED:
        return _remainder(bits, build.constant(np.uint64(2))).eq(build.constant(np.uint64(1)))
    if kind.is_integer:
        start, end = [build.convert(x, ElementType.U64) for x in (low, high)]
        one = build.constant(np.uint64(1))
        span = build.select(high.gt(low), end - start, one)
        return build.convert(_remainder(bits, span) + start, kind)
    start, end = [narrowed(x, ElementType.F64) for x in (low, high)]
    values = narrowed(start + (end - start) * _fraction(bits), kind)
    return build.select(values.lt(high), values, spread_to(low, values.dimensions))


def _remainder(bits: Op, span: Op) -> Op:
    return bits.builder.remainder(bits, spread_to(span, bits.dimensions))


def _normal(words: tuple[Op, Op], mean: Op, deviation: Op) -> Op:
    """Numbers of the normal distribution: G. Box and M. Muller (1958)."""
    build = mean.builder
    logarithm = build.log_plus_one(-_fraction(words[0]))
    radius = build.sqrt(logarithm * np.float64(-2))
    unit = radius * build.cosine(_fraction(words[1]) * np.float64(2 * math.pi))
    center, width = [narrowed(x, ElementType.F64) for x in (mean, deviation)]
    return narrowed(center + width * unit, mean.element_type)


def _fraction(words: Op) -> Op:
    """Numbers in [0, 1) of 53 random bits."""
    build = words.builder
    whole = build.convert(words >> np.uint64(11), ElementType.F64)
    return whole * np.float64(2.0**-53)


_DISTRIBUTIONS: Final[Mapping[str, Callable[[tuple[Op, Op], Op, Op], Op]]] = {
    "rng_normal": _normal,
    "rng_uniform": _uniform,
}

PASSES: Final = (
    Pass(
        "expand-rng",
        expand_rng,
        "Writes draws of random numbers as random bits and what makes numbers of them.",
        *example(
            """
HloModule m

ENTRY main {
  a = pred[] parameter(0)
  b = pred[] parameter(1)
- ROOT x = pred[4] rng(a, b), distribution=rng_uniform
+ constant = u64[1] constant({0})
+ rng-get-and-update-state = u64[2] rng-get-and-update-state(), delta=4
+ concatenate = u64[3] concatenate(constant, rng-get-and-update-state), dimensions={0}
+ rng-bit-generator = u64[4,2] rng-bit-generator(concatenate), algorithm=rng_philox
+ slice.1 = u64[4,1] slice(rng-bit-generator), slice={[0:4], [1:2]}
+ reshape.1 = u64[4] reshape(slice.1)
+ slice = u64[4,1] slice(rng-bit-generator), slice={[0:4], [0:1]}
+ reshape = u64[4] reshape(slice)
+ constant.1 = u64[] constant(2)
+ broadcast = u64[4] broadcast(constant.1), dimensions={}
+ remainder = u64[4] remainder(reshape, broadcast)
+ constant.2 = u64[] constant(1)
+ broadcast.1 = u64[4] broadcast(constant.2), dimensions={}
+ compare = pred[4] compare(remainder, broadcast.1), direction=EQ
+ ROOT reshape.2 = pred[4] reshape(compare)
}
"""
        ),
    ),
)
