import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide.evaluator.bits import bitcast_convert, count_leading_zeros, population_count
from lowtide.ir import ElementType
from lowtide.ir.literal import DTYPES

NARROWING = [
    ("u64", "f32"),
    ("f32", "u8"),
    ("s8", "s4"),
    ("u32", "u4"),
    ("u4", "s2"),
    ("s16", "u1"),
]


@given(st.integers(0, 2**64 - 1))
def test_counts_are_those_of_the_binary_text(number):
    word = np.array([number], np.uint64)
    assert int(population_count(64, word)[0]) == number.bit_count()
    assert int(count_leading_zeros(64, word)[0]) == 64 - number.bit_length()


@pytest.mark.parametrize(("wide", "narrow"), NARROWING)
def test_a_narrower_type_gets_a_last_dimension_and_the_way_back_drops_it(wide, narrow):
    source, target = ElementType(wide), ElementType(narrow)
    raw = np.random.default_rng(0).integers(0, 256, (3, 2, 8), np.uint8)
    values = raw[..., 0] if source.bits <= 8 else raw[..., : source.nbytes].copy()
    values = values.view(np.uint8).reshape(3, 2, -1).view(f"u{source.nbytes}").reshape(3, 2)
    values = bitcast_convert(values, source) if source.bits >= 8 else values.astype(DTYPES[source])
    parts = bitcast_convert(values, target)
    assert parts.shape == (3, 2, source.bits // target.bits)
    back = bitcast_convert(parts, source)
    assert back.tobytes() == values.tobytes()


def test_the_least_significant_part_comes_first():
    word = np.array(0x4321, np.uint16)
    parts = bitcast_convert(word, ElementType.U4)
    assert parts.astype(int).tolist() == [1, 2, 3, 4]


def test_equal_widths_keep_the_shape():
    values = np.array([[1.0, -2.0]], np.float32)
    found = bitcast_convert(values, ElementType.S32)
    assert found.tolist() == [[0x3F800000, -0x40000000]]
