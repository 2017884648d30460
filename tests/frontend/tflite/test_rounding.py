"""Fixed-point factors beside their definition, and bounds of integers beside the numbers."""

import numpy as np
import pytest

from lowtide import evaluate
from lowtide.builder import Builder, Op
from lowtide.frontend.tflite.ranges import range_of
from lowtide.frontend.tflite.rounding import Factor, scaled, times
from lowtide.ir import ElementType, Module, Opcode, array_shape
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


def types_of(module: Module) -> set[ElementType]:
    return {x.shape.element_type for x in module.entry.instructions.values()}


def test_few_bits_take_no_wide_numbers() -> None:
    b = Builder("scaled")
    given = b.parameter(0, array_shape(ElementType.S16, (7,)), "x")
    module = b.build(scaled(b, b.convert(given, ElementType.S32), [Factor(1 << 30, -5)]))
    assert ElementType.S64 not in types_of(module)


def test_sums_of_scaled_numbers_take_no_wide_numbers() -> None:
    """Quantized sums scale both operands, which are shifted left, and then their sum."""
    b = Builder("sums")
    parts = []
    for i, factor in enumerate((Factor(1 << 30, 0), Factor(1518500250, -1))):
        given = b.parameter(i, array_shape(ElementType.S8, (256,)), f"x{i}")
        parts.append(scaled(b, b.convert(given, ElementType.S32) * (1 << 20), [factor]))
    over = Factor(1771674010, -18)
    module = b.build(scaled(b, parts[0] + parts[1], [over]))
    assert ElementType.S64 not in types_of(module)
    x, y = np.arange(-128, 128), np.random.default_rng(2).integers(-128, 128, 256)
    found = evaluate(module, [x.astype(np.int8), y.astype(np.int8)])
    sums = [
        by_definition(int(n) << 20, Factor(1 << 30, 0))
        + by_definition(int(m) << 20, Factor(1518500250, -1))
        for n, m in zip(x, y, strict=True)
    ]
    assert np.asarray(found).tolist() == [by_definition(n, over) for n in sums]


ENDS = (-100, 27)


def test_channels_of_one_result_take_no_wide_numbers() -> None:
    """A bias of 2^30 leaves a channel one result: by its factor, or by the ends it is beyond."""
    channels = [
        ((1 << 30) - 7, Factor(1 << 30, -24)),
        ((1 << 30) + 5, Factor(1 << 30, -4)),
        (-(1 << 30), Factor(1 << 30, -4)),
        (40, Factor(1518500250, -3)),
        (-3, Factor(1 << 30, 0)),
    ]
    factors = [factor for _, factor in channels]
    b = Builder("channels")
    given = b.parameter(0, array_shape(ElementType.S8, (256, len(channels))), "x")
    bias = b.constant(np.array([n for n, _ in channels], np.int32))
    wide = b.convert(given, ElementType.S32)
    found = scaled(b, wide + b.broadcast(bias, wide.dimensions, [1]), factors, ENDS)
    module = b.build(b.maximum(b.minimum(found, ENDS[1]), ENDS[0]))
    assert ElementType.S64 not in types_of(module)
    x = np.tile(np.arange(-128, 128)[:, None], (1, len(channels)))
    expected = [
        [np.clip(by_definition(n + added, factor), *ENDS) for added, factor in channels]
        for n in range(-128, 128)
    ]
    assert np.asarray(evaluate(module, [x.astype(np.int8)])).tolist() == expected


ZEROS = (-128, 0, 127, -(1 << 30))


@pytest.mark.parametrize("shift", [-29, -28, -7, -2, -1, 0, 1])
@pytest.mark.parametrize("mantissa", MANTISSAS)
@pytest.mark.parametrize("sign", [-1, 1])
def test_numbers_at_the_end_of_what_32_bits_scale(shift: int, mantissa: int, sign: int) -> None:
    """The greatest numbers for which four times the number has 32 bits, and halves about 0."""
    factor, bits = Factor(mantissa, shift), 28 - max(shift, 0)
    most = sign * ((1 << bits) - 1)
    halves = [n + (1 << k) for k in range(28) for n in (-1, 0, 1)]
    wanted = [0, 2 * most, 2 * most - sign, *halves, *[-n for n in halves]]
    taken = [n - most for n in wanted if -(1 << bits) <= n - most < 1 << bits]
    b = Builder("ends")
    given = b.parameter(0, array_shape(ElementType.S32, (len(taken),)), "x")
    places = b.broadcast(b.constant(np.int32(31 - bits)), given.dimensions, [])
    held = b.shift_right_arithmetic(given, places) + most
    module = b.build(b.tuple([scaled(b, held, [factor], None, zero) for zero in ZEROS]))
    assert ElementType.S64 not in types_of(module)
    argument = np.array([n << (31 - bits) for n in taken], np.int32)
    for zero, found in zip(ZEROS, evaluate(module, [argument]), strict=True):
        expected = [by_definition(n + most, factor) + zero for n in taken]
        wrapped = (np.array(expected, np.int64) + (1 << 31)) % (1 << 32) - (1 << 31)
        assert np.asarray(found).tolist() == wrapped.tolist()


@pytest.mark.parametrize("shift", [-9, -1, 0, 3])
def test_results_below_the_end_are_any(shift: int) -> None:
    """With an end at 0 nothing is done for the sign, and what is cut off is equal."""
    factor = Factor(1518500250, shift)
    b = Builder("ends")
    given = b.parameter(0, array_shape(ElementType.S16, (1 << 16,)), "x")
    found = scaled(b, b.convert(given, ElementType.S32), [factor], (0, 1 << 20), -128)
    module = b.build(b.maximum(found, -128))
    opcodes = {x.opcode for x in module.entry.instructions.values()}
    assert Opcode.AND not in opcodes
    x = np.arange(-(1 << 15), 1 << 15)
    result = evaluate(module, [x.astype(np.int16)])
    expected = [max(by_definition(int(n), factor), 0) - 128 for n in x]
    assert np.asarray(result).tolist() == expected


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
    total_range, root_range = range_of(total.instruction), range_of(root.instruction)
    image = rng.choice([-128, 127], x.dimensions).astype(np.int8)
    found = np.asarray(evaluate(b.build(root), [image]), np.int64)
    assert root_range.low[0] <= found.min() <= found.max() <= root_range.high[0]
    wide = weights.astype(np.int64).reshape(-1, 5)
    above, below = np.maximum(wide, 0).sum(0), np.minimum(wide, 0).sum(0)
    assert total_range.low.tolist() == (-128 * above + 127 * below - bias).tolist()
    assert total_range.high.tolist() == (127 * above - 128 * below - bias).tolist()


def test_bounds_stay_within_the_type_and_know_reductions() -> None:
    b = Builder("bounds")
    x = b.parameter(0, array_shape(ElementType.S32, (4,)), "x")
    assert ends_of(x * x) == (-(1 << 31), (1 << 31) - 1)
    narrow = b.convert(b.parameter(1, array_shape(ElementType.U8, (4,)), "y"), ElementType.S32)
    zero = b.constant(0, ElementType.S32)
    added = b.reduce(narrow, zero, b.scalar_computation(Opcode.ADD, ElementType.S32), [0])
    assert ends_of(added) == (0, 4 * 255)
    greatest = b.reduce(narrow, zero, b.scalar_computation(Opcode.MAXIMUM, ElementType.S32), [0])
    assert ends_of(greatest) == (-(1 << 31), (1 << 31) - 1)


@pytest.mark.parametrize(("inner", "outputs"), [(3, 0), (0, 4), (0, 0)])
def test_bounds_know_weights_of_no_elements(inner: int, outputs: int) -> None:
    """Layers of no outputs have factors and zero points, too."""
    b = Builder("empty")
    x = b.parameter(0, array_shape(ElementType.S8, (2, inner)), "x")
    weights = b.constant(np.zeros((inner, outputs), np.int8))
    sums = b.dot(x, weights, DotDimensions((1,), (0,)), element_type=ElementType.S32)
    assert ends_of(sums) == (0, 0)
    module = b.build(scaled(b, sums, [Factor(1518500250, -3)], ENDS, 7))
    found = np.asarray(evaluate(module, [np.zeros((2, inner), np.int8)]))
    np.testing.assert_array_equal(found, np.full((2, outputs), 7))


def ends_of(x: Op) -> tuple[int, int]:
    found = range_of(x.instruction).whole
    return found.low[0], found.high[0]


@pytest.mark.parametrize("seed", range(10))
def test_ranges_hold_for_bits_shifts_and_halves(seed: int) -> None:
    rng = np.random.default_rng(seed)
    b = Builder("ranges")
    type_ = ElementType.S32
    given = [b.parameter(i, array_shape(ElementType.S16, (40, 3)), f"x{i}") for i in range(2)]
    x, y = (b.convert(v, type_) for v in given)
    mask = b.broadcast(b.constant(rng.integers(-9, 9, 3).astype(np.int32)), x.dimensions, [1])
    amount = b.broadcast(b.constant(rng.integers(1, 31, 3).astype(np.int32)), x.dimensions, [1])
    made = [
        b.and_(x, mask),
        b.and_(x, y),
        b.shift_right_arithmetic(x, amount),
        b.shift_right_logical(x * y, amount),
        b.mulhi(x * 900, y * -70),
        b.pad(x - y, b.constant(np.int32(9)), [(1, 0), (0, 0)]),
    ]
    numbers = [rng.integers(-(1 << 15), 1 << 15, (40, 3)).astype(np.int16) for _ in given]
    results = evaluate(b.build(b.tuple(made)), numbers)
    for value, found in zip(made, results, strict=True):
        bound = range_of(value.instruction)
        assert (bound.low <= found).all()
        assert (found <= bound.high).all()
