"""Bounds attacked from below: no order of a small module needs less, all of them or many tried."""

import pytest
from tests.scheduling.small_modules import SmallModule
from tests.scheduling.test_module_bound import Program

import lowtide
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


IN_PLACE_BEHIND_A_BITCAST = """HloModule m

%comparator (p0.1: f32[], p1.1: f32[]) -> pred[] {
  %p0.1 = f32[] parameter(0)
  %p1.1 = f32[] parameter(1)
  ROOT %compare = pred[] compare(%p0.1, %p1.1), direction=LT, type=TOTALORDER
}

%updating (p0.2: f32[1,2], p1.2: f32[1,2], p2: f32[1,2]) -> f32[2] {
  %p1.2 = f32[1,2]{1,0} parameter(1)
  %p2 = f32[1,2]{1,0} parameter(2)
  %p0.2 = f32[1,2]{1,0} parameter(0)
  %constant = s32[] constant(0)
  %convert = f32[] convert(%constant)
  %broadcast = f32[1,1]{1,0} broadcast(%convert), dimensions={}
  %constant.1 = s32[] constant(0)
  %dynamic-update-slice = f32[1,2]{1,0} dynamic-update-slice(%p0.2, %broadcast, %constant,
    %constant.1)
  ROOT %bitcast = f32[2]{0} bitcast(%dynamic-update-slice)
}

ENTRY %random (p0: f32[1,2], p1: f32[1,2]) -> (f32[2]) {
  %p0 = f32[1,2]{1,0} parameter(0)
  %sort = f32[1,2]{1,0} sort(%p0), dimensions={0}, is_stable=true, to_apply=%comparator
  %p1 = f32[1,2]{1,0} parameter(1)
  %opt-barrier = f32[1,2]{1,0} opt-barrier(%p1)
  %fusion = f32[2]{0} fusion(%sort, %opt-barrier, %p0), kind=kLoop, calls=%updating
  ROOT %tuple = (f32[2]{0}) tuple(%fusion)
}
"""


def test_an_update_in_place_of_another_shape_needs_no_second_buffer() -> None:
    ladder = lowtide.explain(lowtide.parse_hlo(IN_PLACE_BEHIND_A_BITCAST)).to_json()["ladder"]
    assert ladder["bound_bytes"] == ladder["live_bytes"] == 8
