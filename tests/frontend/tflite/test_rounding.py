"""Fixed-point factors beside their definition, and bounds of integers beside the numbers."""

import numpy as np
import pytest

from lowtide import evaluate
from lowtide.builder import Builder
from lowtide.frontend.tflite.magnitude import magnitude
from lowtide.frontend.tflite.rounding import Factor, scaled, times
from lowtide.ir import ElementType, Opcode, array_shape
from lowtide.ir.attributes import ConvolutionDimensions, DotDimensions, Window, WindowDimension

MANTISSAS = (1 << 30, (1 << 31) - 1, 1518500250, -(1 << 30) - 1)
SHIFTS = (-31, -9, -1, 0, 1, 4)


def by_definition(x: int, factor: Factor) -> int:
    """The doubled product's high half, nudged and truncated, then divided; halves go outward."""
    product = (x << max(factor.shift, 0)) * factor.mantissa
    nudged = product + ((1 << 30) if product >= 0 else 1 - (1 << 30))
    high = abs(nudged) >> 31
    high = high if nudged >= 0 else -high
    bits = max(-factor.shift, 0)
    rest, down = high & ((1 << bits) - 1), high >> bits
    return down + (rest > (((1 << bits) - 1) >> 1) + (high < 0))


def numbers(type_: ElementType) -> np.ndarray:
    """The ends of a type, what is about 0, halves of powers of two, and some between."""
    most = 1 << (type_.bits - 1)
    near = [n + (1 << k) for k in range(type_.bits - 1) for n in (-1, 0, 1)]
    drawn = np.random.default_rng(5).integers(-most, most, 300)
    found = [-most, most - 1, 0, *near, *[-x for x in near], *drawn]
    return np.array([x for x in found if -most <= x < most], np.int64)


@pytest.mark.parametrize("type_", [ElementType.S8, ElementType.S16, ElementType.S32])
@pytest.mark.parametrize("is_channelwise", [False, True])
def test_factors_round_as_they_are_defined(type_: ElementType, is_channelwise: bool) -> None:
    factors = [Factor(m, s) for m in MANTISSAS for s in SHIFTS]
    x = numbers(type_)
    groups = [factors] if is_channelwise else [[f] for f in factors]
    for group in groups:
        b = Builder("scaled")
        given = b.parameter(0, array_shape(type_, (len(x), len(group))), "x")
        module = b.build(scaled(b, b.convert(given, ElementType.S32), group))
        argument = np.tile(x[:, None], (1, len(group))).astype(f"int{type_.bits}")
        found = evaluate(module, [argument])
        expected = [[by_definition(int(n), f) for f in group] for n in x]
        wrapped = np.array(expected, object) & 0xFFFFFFFF
        np.testing.assert_array_equal(np.asarray(found).astype(np.int64) & 0xFFFFFFFF, wrapped)


@pytest.mark.parametrize("factor", [Factor(m, s) for m in MANTISSAS for s in SHIFTS])
def test_numpy_rounds_likewise(factor: Factor) -> None:
    x = numbers(ElementType.S16)
    assert times(x, factor).tolist() == [by_definition(int(n), factor) for n in x]


def test_few_bits_take_no_wide_numbers() -> None:
    b = Builder("scaled")
    given = b.parameter(0, array_shape(ElementType.S16, (7,)), "x")
    module = b.build(scaled(b, b.convert(given, ElementType.S32), [Factor(1 << 30, -5)]))
    types = {x.shape.element_type for x in module.entry.instructions.values()}
    assert ElementType.S64 not in types


@pytest.mark.parametrize("seed", range(20))
def test_bounds_hold_for_the_greatest_numbers(seed: int) -> None:
    """Sums of products of bytes at their ends are never beyond the bound, nor far below it."""
    rng = np.random.default_rng(seed)
    b = Builder("bounds")
    x = b.parameter(0, array_shape(ElementType.S8, (1, 6, 7, 3)), "x")
    weights = rng.integers(-128, 128, (2, 3, 3, 5)).astype(np.int8)
    dimensions = ConvolutionDimensions(0, 3, (1, 2), 2, 3, (0, 1), 0, 3, (1, 2))
    window = Window((WindowDimension(2), WindowDimension(3)))
    sums = b.convolution(
        x, b.constant(weights), dimensions, window, 1, element_type=ElementType.S32
    )
    bias = rng.integers(-1000, 1000, 5).astype(np.int32)
    total = sums - b.broadcast(b.constant(bias), sums.dimensions, [3])
    flat = b.reshape(total, [25, 5])
    root = b.dot(flat, b.constant(np.full((5, 2), -3, np.int32)), DotDimensions((1,), (0,)))
    bound = magnitude(root.instruction)
    found = evaluate(b.build(root), [rng.choice([-128, 127], x.dimensions).astype(np.int8)])
    assert np.abs(np.asarray(found, np.int64)).max() <= bound <= 5 * 3 * (18 * 128 * 128 + 1000)


def test_bounds_stay_within_the_type_and_know_reductions() -> None:
    b = Builder("bounds")
    x = b.parameter(0, array_shape(ElementType.S32, (4,)), "x")
    assert magnitude((x * x).instruction) == 1 << 31
    narrow = b.convert(b.parameter(1, array_shape(ElementType.U8, (4,)), "y"), ElementType.S32)
    zero = b.constant(0, ElementType.S32)
    added = b.reduce(narrow, zero, b.scalar_computation(Opcode.ADD, ElementType.S32), [0])
    assert magnitude(added.instruction) == 4 * 256
    greatest = b.reduce(narrow, zero, b.scalar_computation(Opcode.MAXIMUM, ElementType.S32), [0])
    assert magnitude(greatest.instruction) == 1 << 31
