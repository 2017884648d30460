import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.evaluator.against_xla import run_text, run_xla

import lowtide
from lowtide.evaluator.conversion import convert, reduce_precision, stochastic_convert
from lowtide.ir import ElementType
from lowtide.ir.literal import DTYPES

FLOATS = ["f64", "f32", "f16", "bf16", "f8e5m2", "f8e4m3fn", "f8e4m3b11fnuz", "f8e8m0fnu"]
TARGETS = ["pred", "s2", "s4", "u4", "s8", "u8", "s16", "s32", "u32", "s64", "u64", *FLOATS]
SOURCES = ["pred", "s4", "u8", "s32", "u64", "f64", "f32", "bf16", "f8e4m3fn"]
VALUES = [-1e20, -70000, -300.7, -128.5, -3.5, -0.4, 0, 0.4, 1.5, 2.5, 127.9, 255.9, 3e9, 1e20]


def source_values(element_type):
    kind, dtype = ElementType(element_type), DTYPES[ElementType(element_type)]
    if kind is ElementType.PRED:
        return np.array([False, True])
    if not kind.is_integer:
        with np.errstate(over="ignore"):
            return np.array([*VALUES, np.inf, -np.inf, np.nan]).astype(dtype)
    low = -(1 << (kind.bits - 1)) if kind.is_signed else 0
    high = low + (1 << kind.bits) - 1
    numbers = [low, low + 1, -129, -1, 0, 1, 2, 5, 127, 128, 255, 2**24 + 1, high - 1, high]
    wide = np.int64 if kind.is_signed else np.uint64
    return np.array([x for x in numbers if low <= x <= high], wide).astype(dtype)


@pytest.mark.parametrize("source", SOURCES)
def test_conversions_agree_with_xla(source):
    values = source_values(source)
    count = len(values)
    lines = [f"r{i} = {x}[{count}] convert(p)" for i, x in enumerate(TARGETS)]
    shapes = ", ".join(f"{x}[{count}]" for x in TARGETS)
    operands = ", ".join(f"r{i}" for i in range(len(TARGETS)))
    body = "\n".join([*lines, f"ROOT t = ({shapes}) tuple({operands})"])
    text = f"HloModule m\nENTRY e {{\np = {source}[{count}] parameter(0)\n{body}\n}}"
    pairs = zip(TARGETS, run_text(text, values), run_xla(text, values), strict=True)
    for target, found, expected in pairs:
        assert found.dtype == expected.dtype
        same = (found == expected) | ((found != found) & (expected != expected))
        assert same.all(), (target, values[~same], found[~same], expected[~same])


BYTES = [
    *("f8e5m2", "f8e4m3", "f8e3m4", "f8e4m3fn", "f8e4m3b11fnuz", "f8e5m2fnuz", "f8e4m3fnuz"),
    "f8e8m0fnu",
]


@pytest.mark.parametrize("target", BYTES)
def test_a_double_is_rounded_to_a_byte_once(target):
    bytes_ = np.arange(256, dtype=np.uint8).view(DTYPES[ElementType(target)]).astype(np.float64)
    sizes = np.unique(bytes_[np.isfinite(bytes_) & (np.abs(bytes_) > 2.0**-120)])
    halves = (sizes[:-1] + sizes[1:]) / 2
    values = np.concatenate([np.nextafter(halves, np.inf), np.nextafter(halves, -np.inf), halves])
    text = f"""HloModule m
    ENTRY e {{
      p = f64[{len(values)}] parameter(0)
      ROOT c = {target}[{len(values)}] convert(p)
    }}"""
    found, expected = run_text(text, values)[0], run_xla(text, values)[0]
    native = np.asarray(lowtide.compile(lowtide.parse_hlo(text))(values))
    np.testing.assert_array_equal(found.view(np.uint8), expected.view(np.uint8))
    np.testing.assert_array_equal(native.view(np.uint8), expected.view(np.uint8))


def test_a_complex_number_is_true_unless_both_parts_are_zero():
    values = np.array([0, 1j, 1, -0.0], np.complex64)
    assert convert(values, ElementType.PRED).tolist() == [False, True, True, False]


def test_integers_saturate_beyond_what_f32_can_hold():
    values = np.array([2.0**63, -(2.0**63), 2.0**64, -1], np.float32)
    assert convert(values, ElementType.S64).tolist() == [2**63 - 1, -(2**63), 2**63 - 1, -1]
    assert convert(values, ElementType.U64).tolist() == [2**63, 0, 2**64 - 1, 0]


@given(st.lists(st.floats(width=32), min_size=1))
def test_reduce_precision_to_bf16_is_the_rounding_of_bf16(numbers):
    values = np.array(numbers, np.float32)
    found = reduce_precision(values, 8, 7)
    with np.errstate(over="ignore", invalid="ignore"):
        expected = values.astype(ml_dtypes.bfloat16).astype(np.float32)
    normal = ~((np.abs(values) < 2.0**-125) & (values != 0))
    np.testing.assert_array_equal(found[normal], expected[normal])


def test_reduce_precision_overflows_to_infinity_and_flushes_the_subnormal():
    values = np.array([65504, 65520, -70000, 2.0**-14, 2.0**-15, -(2.0**-20), np.nan], np.float32)
    found = reduce_precision(values, 5, 10)
    expected = np.array([65504, np.inf, -np.inf, 2.0**-14, 0, -0.0, np.nan], np.float32)
    np.testing.assert_array_equal(found, expected)
    assert np.signbit(found[5])


@pytest.mark.parametrize("element_type", ["f32", "f64", "bf16", "f16"])
@pytest.mark.parametrize("bits", [(5, 2), (5, 10), (8, 7), (4, 3), (3, 0)])
def test_reduce_precision_agrees_with_xla(element_type, bits):
    dtype = DTYPES[ElementType(element_type)]
    generator = np.random.default_rng(0)
    scale = 2.0 ** generator.integers(-12, 12, 200)
    values = (generator.standard_normal(200) * scale).astype(dtype)
    text = f"""HloModule m
    ENTRY e {{
      p = {element_type}[200] parameter(0)
      ROOT r = {element_type}[200] reduce-precision(p),
        exponent_bits={bits[0]}, mantissa_bits={bits[1]}
    }}"""
    found, expected = run_text(text, values)[0], run_xla(text, values)[0]
    np.testing.assert_array_equal(found.astype(np.float64), expected.astype(np.float64))


@pytest.mark.parametrize("target", ["s8", "bf16", "f16", "f8e4m3fn"])
def test_stochastic_convert_picks_the_neighbours_in_proportion(target):
    steps = 1 << 16
    random = np.arange(steps, dtype=np.uint16)
    for value in (-2.25, 5.75, 3.0, 0.3):
        values = np.full(steps, value, np.float16)
        found = stochastic_convert(values, random, ElementType(target)).astype(np.float64)
        assert len(set(found.tolist())) <= 2
        np.testing.assert_allclose(found.mean(), float(values[0]), atol=1e-3 * abs(value))


def test_stochastic_convert_clamps_and_drops_nan():
    values = np.array([300, -300, np.nan, 127.5], np.float32)
    random = np.zeros(4, np.uint32)
    found = stochastic_convert(values, random, ElementType.S8)
    assert found.tolist() == [127, -128, 0, 127]


@pytest.mark.parametrize("source", ["f32", "f64", "bf16"])
def test_what_exceeds_the_least_power_of_two_goes_up(source):
    least = 2.0**-127
    numbers = np.array([0.5, 1, 1.0625, 1.4375, 1.5, 1.75, 2, 2.9375, 3, -1], np.float64) * least
    given = numbers.astype(DTYPES[ElementType(source)])
    found = convert(given, ElementType.F8E8M0FNU)
    want = np.array([1, 1, 2, 2, 2, 2, 2, 2, 4, np.nan]) * least
    np.testing.assert_array_equal(found.astype(np.float64), want)
    text = (
        f"HloModule m\nENTRY e {{\n  x = {source}[10] parameter(0)\n"
        "  ROOT y = f8e8m0fnu[10] convert(x)\n}"
    )
    theirs = run_xla(text, given)[0].astype(np.float64)
    np.testing.assert_array_equal(theirs[given >= least], want[given >= least])
