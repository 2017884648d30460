"""Faults of native code that whole programs brought to light, each as the smallest module."""

from __future__ import annotations

import numpy as np
import pytest
from tests.native.comparing import compiled, flat, reference

EMPTY_ALIAS = """HloModule m, input_output_alias={ {0}: (0, {}, may-alias) }
ENTRY e {
  p = f32[0,3] parameter(0)
  n = f32[0,3] negate(p)
  ROOT t = (f32[0,3], f32[0,3]) tuple(n, n)
}
"""

TUPLE_COPY = """HloModule m, is_scheduled=true
ENTRY e {
  p = (f32[3], s32[2,5]) parameter(0)
  ROOT c = (f32[3], s32[2,5]) copy(p)
}
"""

NARROW_CHOICE = """HloModule m, is_scheduled=true
ENTRY e {
  p = bf16[21] parameter(0)
  c = pred[21] parameter(1)
  q = f32[21] parameter(2)
  k = bf16[21] convert(q)
  ROOT s = bf16[21] select(c, p, k)
}
"""

OTHER_LAYOUT = """HloModule m, is_scheduled=true
task {
  p = f32[4,8]{1,0} parameter(0)
  ROOT n = f32[4,8]{1,0} negate(p)
}
ENTRY e {
  p = f32[4,8]{0,1} parameter(0)
  s = ((f32[4,8]{1,0}), f32[4,8]{1,0}, s32[]) async-start(p), calls=task
  ROOT d = f32[4,8]{1,0} async-done(s)
}
"""


def test_an_empty_argument_is_the_empty_result() -> None:
    empty = np.zeros((0, 3), np.float32)
    for consume in (False, True):
        results = compiled(EMPTY_ALIAS)(empty, consume=consume)
        assert [x.shape for x in results] == [(0, 3), (0, 3)]


def test_a_copy_of_a_tuple() -> None:
    arguments = [np.arange(3, dtype=np.float32), np.arange(10, dtype=np.int32).reshape(2, 5)]
    for got, expected in zip(compiled(TUPLE_COPY)(*arguments), arguments, strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("target", ["native", "avx2"])
def test_a_choice_between_a_narrow_number_read_and_one_converted(target: str) -> None:
    q = np.linspace(-3, 3, 21, dtype=np.float32)
    p = (q * 100).view(np.uint32) >> 16
    arguments = [p.astype(np.uint16), np.arange(21) % 3 == 0, q]
    (got,) = flat(compiled(NARROW_CHOICE, target=target)(*arguments))
    (expected,) = flat(reference(NARROW_CHOICE, arguments))
    np.testing.assert_array_equal(got.view(np.uint16), expected.view(np.uint16))


def test_what_a_call_takes_in_another_layout_is_copied() -> None:
    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    np.testing.assert_array_equal(compiled(OTHER_LAYOUT)(x), -x)


@pytest.mark.parametrize("target", ["native", "avx2"])
@pytest.mark.parametrize("part", ["real", "imag"])
def test_a_part_of_complex_numbers_with_padding_behind_it(part: str, target: str) -> None:
    text = f"""HloModule m
ENTRY e {{
  p = c128[2] parameter(0)
  r = f64[2] {part}(p)
  z = f64[] constant(0)
  ROOT o = f64[40] pad(r, z), padding=0_38
}}"""
    given = np.array([1 + 2j, 3 - 4j])
    (got,) = flat(compiled(text, target=target)(given))
    np.testing.assert_array_equal(got, np.pad(getattr(given, part), (0, 38)))
