"""Reads that do not show at once in a plan: within fusions, of other results, after the start."""

from dataclasses import replace

import pytest

from lowtide.checking import PlanMismatchError, check_plan
from lowtide.ir import Schedule
from lowtide.ir.buffer import BufferSlice

from .layouts import kinds, layout
from .test_plan_rules import entry, step

SOLVE = "triangular-solve(x0, x1), left_side=true, lower=true, transpose_a=NO_TRANSPOSE"


@pytest.mark.parametrize(("victim", "expected"), [("x0", ["overlap"]), ("x1", [])])
def test_only_the_right_side_of_a_triangular_solve_is_overwritten(victim, expected):
    assert kinds(step(SOLVE, "f32[4,4]", ("f32[4,4]", "f32[4,4]")), {"y": victim}) == expected


SUM = "sum { u = f32[] parameter(0) v = f32[] parameter(1) ROOT w = f32[] add(u, v) }\n"
FUSED = (
    SUM
    + """f {
  a = f32[4,4] parameter(0)
  i = s32[] parameter(1)
  z = s32[] constant(0)
  n = f32[] constant(0)
@
}"""
)


def fused(body, made, kernel, victim):
    """The kinds of violations of a fusion whose first result lies over an array that it reads."""
    text = step(
        f'fusion(x0, x1), kind=kLoop, calls=f, backend_config={{"kernel":"{kernel}"}}',
        made,
        ("f32[4,4]", "s32[]"),
        FUSED.replace("@", body),
    )
    return kinds(text, victim)


def test_a_sum_that_is_spread_again_needs_all_of_what_was_summed():
    body = """  s = f32[4] reduce(a, n), dimensions={0}, to_apply=sum
  ROOT b = f32[4,4] broadcast(s), dimensions={1}"""
    assert fused(body, "f32[4,4]", "one_pass", {"y": "x0"}) == ["overlap"]


def two_results(first, second, kernel, shape):
    """Violations where the first of two results lies over the array."""
    marked = f'backend_config={{"kernel":"{kernel}"}}'
    body = f"{first}\n{second}\n  ROOT t = (f32[4,4], {shape}) tuple(b, c)"
    text = f"""HloModule m, is_scheduled=true
{FUSED.replace("@", body)}
ENTRY e {{
  p0 = f32[4,4] parameter(0)
  x0 = f32[4,4] copy(p0)
  x1 = s32[] parameter(1)
  y = (f32[4,4], {shape}) fusion(x0, x1), kind=kLoop, calls=f, {marked}
  g = f32[4,4] get-tuple-element(y), index=0
  ROOT z = f32[4,4] copy(g)
}}"""
    return kinds(text, {"y{0}": "x0"})


def test_one_loop_after_the_other():
    first = "  b = f32[4,4] negate(a)"
    own = "  c = f32[4,4] broadcast(n), dimensions={}"
    assert two_results(first, own, "loops", "f32[4,4]") == []
    other = "  c = f32[4,4] exponential(a)"
    assert two_results(first, other, "loops", "f32[4,4]") == ["overlap"]


def test_rows_are_those_of_all_reductions():
    first = """  s = f32[4] reduce(a, n), dimensions={1}, to_apply=sum
  d = f32[4,4] broadcast(s), dimensions={0}
  b = f32[4,4] subtract(a, d)"""
    same = "  c = f32[4] reduce(a, n), dimensions={1}, to_apply=sum"
    assert two_results(first, same, "rows", "f32[4]") == []
    whole = "  c = f32[] reduce(a, n), dimensions={0,1}, to_apply=sum"
    assert two_results(first, whole, "rows", "f32[]") == ["overlap"]


@pytest.mark.parametrize(("start", "expected"), [("i", []), ("j", ["overlap"])])
def test_a_slice_at_another_start_is_not_what_is_replaced(start, expected):
    body = f"""  j = s32[] negate(i)
  c = f32[1,4] dynamic-slice(a, {start}, z), dynamic_slice_sizes={{1,4}}
  ROOT d = f32[4,4] dynamic-update-slice(a, c, i, z)"""
    assert fused(body, "f32[4,4]", "", {"y": "x0"}) == expected


# -- asynchronous operations -----------------------------------------------------------------------


@pytest.mark.parametrize("element", ["s{0}", "s{2}"])
def test_all_that_a_start_makes_is_kept_to_its_end(element):
    """Also what nobody reads: the operation writes there meanwhile."""
    text = """HloModule m, is_scheduled=true
ENTRY e {
  p0 = f32[1] parameter(0)
  s = (f32[1], f32[1], u32[]) copy-start(p0)
  between = f32[1] negate(p0)
  d = f32[1] copy-done(s)
  ROOT r = f32[1] add(d, between)
}"""
    assert kinds(text, {"s{1}": "p0"}) == []
    assert kinds(text, {"s{1}": "p0", "between": element}) == ["overlap"]


# -- outputs ---------------------------------------------------------------------------------------


def test_two_outputs_over_one_donated_argument():
    """They have equal values, so nothing is lost but the caller's storage for one of them."""
    text = entry(
        "  a = f32[16] negate(p0)\n  b = f32[16] bitcast(a)\n"
        "  ROOT t = (f32[16], f32[16]) tuple(a, b)",
        header=", buffer_donor={ (0, {}) }",
    )
    module, plan = layout(text, {"a": "p0"})
    (own,) = (x for x in plan.allocations if x.parameter == (0, ()))
    allocations = [replace(x, output=(0,)) if x is own else x for x in plan.allocations]
    found = check_plan(module, replace(plan, allocations=tuple(allocations)))
    assert [x.kind.value for x in found] == ["alias", "alias"]
    assert "outputs {0} and {1} lie over one another" in str(found[1])


def test_outputs_within_an_output():
    text = """HloModule m, is_scheduled=true
ENTRY e {
  p0 = f32[64] parameter(0)
  p1 = f32[16] parameter(1)
  b = f32[16] negate(p1)
  c = f32[16] abs(p1)
  a = f32[64] negate(p0)
  ROOT t = (f32[64], f32[16], f32[16]) tuple(a, b, c)
}"""
    places = {"a": 0, "b": 64, "c": 128}
    assert kinds(text, places).count("alias") == 2
    assert kinds(text, {**places, "c": 256}).count("alias") == 1
    assert kinds(text, {**places, "a": BufferSlice(0, 512, 256)}) == []


# -- the schedule ----------------------------------------------------------------------------------


def test_a_schedule_heeds_control():
    module, plan = layout("""HloModule m, is_scheduled=true
ENTRY e {
  p0 = f32[16] parameter(0)
  a = f32[16] negate(p0)
  b = f32[16] abs(p0), control-predecessors={a}
  ROOT c = f32[16] add(a, b)
}""")
    assert check_plan(module, plan) == ()
    p, a, b, c = module.schedule.sequences[module.entry]
    module.schedule = Schedule({module.entry: (p, b, a, c)})
    with pytest.raises(PlanMismatchError, match="has b before a"):
        check_plan(module, plan)
