import numpy as np
import pytest
from tests.evaluator.against_xla import run_text


def sums(dimension, reverse):
    return f"""HloModule m
body {{
  x = s32[3] parameter(0)
  c = s32[3] parameter(1)
  n = s32[3] add(c, x)
  d = s32[3] subtract(c, x)
  ROOT t = (s32[3], s32[3]) tuple(d, n)
}}
ENTRY e {{
  a = s32[3,3] parameter(0)
  c = s32[3] parameter(1)
  ROOT s = (s32[3,3], s32[3]) scan(a, c), dimensions={{{dimension}}}, num_carries=1,
    is_reverse={reverse}, to_apply=body
}}"""


@pytest.mark.parametrize("dimension", [0, 1])
@pytest.mark.parametrize("reverse", ["true", "false"])
def test_outputs_are_stacked_and_the_carry_runs_on(dimension, reverse):
    array = np.arange(9, dtype=np.int32).reshape(3, 3) ** 2
    carry = np.array([1, 2, 3], np.int32)
    outputs, last = run_text(sums(dimension, reverse), array, carry)
    steps = array if dimension == 0 else array.T
    order = range(3)[::-1] if reverse == "true" else range(3)
    expected = np.zeros_like(steps)
    for i in order:
        expected[i] = carry - steps[i]
        carry = carry + steps[i]
    np.testing.assert_array_equal(outputs if dimension == 0 else outputs.T, expected)
    np.testing.assert_array_equal(last, carry)


def test_inputs_and_carries_of_several_types():
    text = """HloModule m
body {
  x = f32[2] parameter(0)
  n = s32[] parameter(1)
  k = s32[] parameter(2)
  z = f32[2] parameter(3)
  one = s32[] constant(1)
  m = s32[] add(k, one)
  y = f32[2] add(z, x)
  p = s32[] multiply(n, k)
  ROOT t = (s32[], s32[], f32[2]) tuple(p, m, y)
}
ENTRY e {
  a = f32[4,2] parameter(0)
  b = s32[4] parameter(1)
  k = s32[] constant(1)
  z = f32[2] constant({0, 0})
  ROOT s = (s32[4], s32[], f32[2]) scan(a, b, k, z), dimensions={0}, num_carries=2, to_apply=body
}"""
    rows = np.arange(8, dtype=np.float32).reshape(4, 2)
    numbers = np.array([5, 6, 7, 8], np.int32)
    products, count, total = run_text(text, rows, numbers)
    assert products.tolist() == [5, 12, 21, 32]
    assert int(count) == 5
    assert total.tolist() == [12, 16]


def test_no_steps_return_the_carry():
    text = (
        sums(0, "false")
        .replace("a = s32[3,3]", "a = s32[0,3]")
        .replace("(s32[3,3], s32[3]) scan", "(s32[0,3], s32[3]) scan")
    )
    outputs, last = run_text(text, np.zeros((0, 3), np.int32), np.array([1, 2, 3], np.int32))
    assert outputs.shape == (0, 3)
    assert last.tolist() == [1, 2, 3]


def test_carry_alone_is_no_tuple():
    text = """HloModule m
body {
  x = s32[] parameter(0)
  c = s32[] parameter(1)
  ROOT n = s32[] subtract(x, c)
}
ENTRY e {
  a = s32[3] parameter(0)
  c = s32[] constant(0)
  ROOT s = s32[] scan(a, c), dimensions={0}, num_carries=1, to_apply=body
}"""
    (found,) = run_text(text, np.array([1, 5, 20], np.int32))
    assert int(found) == 20 - (5 - 1)
