"""Bounds attacked from below: no order of a small module needs less, all of them or many tried."""

import pytest
from tests.scheduling.small_modules import SmallModule
from tests.scheduling.test_module_bound import Program

from lowtide.frontend.hlo_text import parse_hlo


def attacked(seeds, most, orders):
    """How often the bound is reached, in how many modules; all orders where they are few."""
    reached = tried = 0
    for seed in seeds:
        program = Program(parse_hlo(SmallModule(seed).text()))
        found = program.all_orders(most)
        if found is None:
            found = [*program.some_orders(seed, orders)]
        least = min([program.given, *found])
        assert program.bound <= least, (seed, program.bound, least)
        reached += program.bound == least
        tried += 1
    return reached, tried


GIVEN_TWICE = """HloModule m
callee {
  p = f32[16] parameter(0)
  q = f32[16] parameter(1)
  w = f32[48] concatenate(p, q, p), dimensions={0}
  ROOT s = f32[16] slice(w), slice={[32:48]}
}
ENTRY main {
  x = f32[16] parameter(0)
  b = f32[16] exponential(x)
  ROOT c = f32[16] call(b, b), to_apply=callee
}
"""


def test_a_value_that_a_callee_is_given_twice_counts_once() -> None:
    """In the step that reads both there are 64 bytes of `b` and 192 of `w`."""
    program = Program(parse_hlo(GIVEN_TWICE))
    assert program.bound == program.given == 256


CALLED_LAST = """HloModule m, input_output_alias={ {}: (0, {}, may-alias) }
callee {
  p = f32[16] parameter(0)
  ROOT n = f32[16] negate(p)
}
ENTRY main {
  x = f32[16] parameter(0)
  a = f32[16] exponential(x)
  ROOT c = f32[16] call(a), to_apply=callee
}
"""


def test_what_a_call_replaces_may_lie_where_its_result_will() -> None:
    """All three values lie in the argument, one after the other."""
    program = Program(parse_hlo(CALLED_LAST))
    assert program.bound == program.given == 0


REACHED = (112, 111, 109, 117)
"""How many bounds of each part are those of some order: more of them make a better bound."""


@pytest.mark.parametrize("part", range(4))
def test_no_order_of_a_small_module_needs_less(part) -> None:
    reached, _ = attacked(range(part, 480, 4), 60, 12)
    assert reached >= REACHED[part]


@pytest.mark.slow
def test_no_order_of_many_small_modules_needs_less() -> None:
    reached, tried = attacked(range(10_000, 16_000), 500, 60)
    assert reached >= 0.8 * tried
