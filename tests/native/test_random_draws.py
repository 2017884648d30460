"""Draws of random numbers: the first run has the evaluator's, each later one goes on from there."""

import numpy as np
import pytest
from tests.native.comparing import flat

import lowtide
from lowtide.evaluator import evaluate
from lowtide.evaluator.on_devices import evaluate_on_devices
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.options import Options

TWO_DRAWS = """HloModule m
ENTRY e {
  a = f32[] constant(2)
  b = f32[] constant(5)
  r = f32[4] rng(a, b), distribution=rng_uniform
  i = s32[] constant(-3)
  j = s32[] constant(9)
  s = s32[3] rng(i, j), distribution=rng_uniform
  ROOT t = (f32[4], s32[3]) tuple(r, s)
}
"""

STATE = """HloModule m
body {
  p = (s32[], u64[2]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  state = u64[2] rng-get-and-update-state(), delta=7
  ROOT t = (s32[], u64[2]) tuple(next, state)
}
condition {
  p = (s32[], u64[2]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(5)
  ROOT c = pred[] compare(i, n), direction=LT
}
ENTRY e {
  zero = s32[] constant(0)
  none = u64[2] constant({0, 0})
  start = (s32[], u64[2]) tuple(zero, none)
  loop = (s32[], u64[2]) while(start), condition=condition, body=body
  ROOT last = u64[2] get-tuple-element(loop), index=1
}
"""


def program(text):
    return lowtide.compile(parse_hlo(text), options=Options(cache=False))


def test_the_first_run_has_the_numbers_of_the_evaluator():
    for text in (TWO_DRAWS, STATE):
        found, expected = flat(program(text)()), flat(evaluate(parse_hlo(text), []))
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_array_equal(a, b)


def test_each_run_draws_other_numbers():
    run = program(TWO_DRAWS)
    first, second = flat(run()), flat(run())
    assert all((a != b).any() for a, b in zip(first, second, strict=True))


def test_a_draw_in_a_loop_is_made_in_each_step():
    run = program(STATE)
    assert [int(run()[0]) for _ in range(3)] == [28, 63, 98]


def test_two_programs_of_one_module_draw_the_same():
    made, kept = [lowtide.compile(parse_hlo(TWO_DRAWS)) for _ in range(2)]
    for _ in range(2):
        for a, b in zip(flat(made()), flat(kept()), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("count", [0, 1])
def test_draws_of_few_numbers(count):
    text = f"""HloModule m
ENTRY e {{
  a = f64[] constant(0)
  b = f64[] constant(1)
  ROOT r = f64[{count}] rng(a, b), distribution=rng_normal
}}
"""
    np.testing.assert_array_equal(program(text)(), evaluate(parse_hlo(text), []))


def test_each_device_has_a_counter_of_its_own():
    text = """HloModule m, num_partitions=4
ENTRY e {
  a = f32[] constant(0)
  b = f32[] constant(1)
  n = u32[] partition-id()
  i = f32[] convert(n)
  c = f32[] add(b, i)
  r = f32[3] rng(a, c), distribution=rng_uniform
  ROOT g = f32[12] all-gather(r), dimensions={0}, replica_groups={{0,1,2,3}}, channel_id=1, \
    use_global_device_ids=true
}
"""
    run = program(text)
    expected = evaluate_on_devices(parse_hlo(text), [[]] * 4)
    for a, b in zip(lowtide.run_on_devices(run, [[]] * 4), expected, strict=True):
        np.testing.assert_array_equal(a, b)
    first, second = [lowtide.run_on_devices(run, [[]] * 4)[0] for _ in range(2)]
    assert (first != second).all()
    again = program(text)
    found = [lowtide.run_on_devices(again, [[]] * 4)[0] for _ in range(3)]
    np.testing.assert_array_equal(found[1:], [first, second])
