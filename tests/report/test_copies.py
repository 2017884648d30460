"""Copies stand in the report with their reasons, and each loop as in place or not."""

import pytest

from lowtide.compiler import PlanOptions, explain
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.report.text import LINES, explain_text

LOOP = """HloModule loop

cond {
  cs = (s32[], f32[4096], f32[4096]) parameter(0)
  ci = s32[] get-tuple-element(cs), index=0
  cn = s32[] constant(8)
  ROOT more = pred[] compare(ci, cn), direction=LT
}
FUNCTIONS
body {
  s = (s32[], f32[4096], f32[4096]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  a = f32[4096] get-tuple-element(s), index=1
  b = f32[4096] get-tuple-element(s), index=2
  one = s32[] constant(1)
  j = s32[] add(i, one)
  BODY
}
ENTRY main {
  x = f32[4096] parameter(0)
  y = f32[4096] parameter(1)
  z = s32[] constant(0)
  init = (s32[], f32[4096], f32[4096]) tuple(z, x, y)
  ROOT w = (s32[], f32[4096], f32[4096]) while(init), condition=cond, body=body
}
"""
RETURN = "ROOT t = (s32[], f32[4096], f32[4096]) tuple(j, {0}, {1})"


def loop(lines, a, b, functions="", donate=False):
    text = LOOP.replace("BODY", f"{lines}\n  {RETURN.format(a, b)}")
    text = text.replace("FUNCTIONS", functions)
    if donate:
        text = text.replace("loop\n", "loop, buffer_donor={ (0, {}), (1, {}) }\n", 1)
    return explain(parse_hlo(text), PlanOptions("input"))


def words(report):
    return " ".join(str(report).split())


def large_copies(report, *loops):
    """The copies of whole arrays in these loops, none for those that run once."""
    copies = report.to_json()["copies"]
    return [x for x in copies if x["loops"] == [*loops] and x["bytes"] > 4]


# jax#38145: a conditional that passes its carry through.
CHOICE = """change {
  p = f32[4096] parameter(0)
  ROOT n = f32[4096] negate(p)
}
keep {
  ROOT q = f32[4096] parameter(0)
}
"""
CHOOSE = """even = pred[] compare(i, one), direction=EQ
  c = f32[4096] conditional(even, a, a), true_computation=change, false_computation=keep"""

# jax#17845: a slice and an update of the same carry.
POP = """rest = f32[256] dynamic-slice(a, j), dynamic_slice_sizes={256}
  moved = f32[4096] dynamic-update-slice(a, rest, i)"""


@pytest.mark.parametrize(
    ("lines", "a", "b", "functions"),
    [
        ("", "a", "b", ""),
        (CHOOSE, "c", "b", CHOICE),
        (POP, "moved", "b", ""),
        ("n = f32[4096] negate(a)", "n", "b", ""),
    ],
    ids=["passed through", "jax#38145", "jax#17845", "elementwise"],
)
def test_loops_that_keep_their_state_in_place(lines, a, b, functions):
    report = loop(lines, a, b, functions)
    (found,) = report.to_json()["loops"]
    assert found["in_place"]
    assert (found["loop"], found["copied_bytes"], found["reasons"]) == ("w", 0, [])
    assert not large_copies(report, "w")
    assert "; carried in place." in words(report)
    assert "each iteration" not in words(report)


def test_a_carry_that_is_read_after_it_was_overwritten_names_both_uses():
    lines = """first = f32[1] slice(b), slice={[0:1]}
  moved = f32[4096] dynamic-update-slice(a, first, i)
  both = f32[4096] add(moved, a)"""
    report = loop(lines, "moved", "both", donate=True)
    (found,) = report.to_json()["loops"]
    copies = large_copies(report, "w")
    assert not found["in_place"]
    assert found["copied_bytes"] == sum(x["bytes"] for x in copies) >= 16384
    assert found["reasons"] == [x["reason"] for x in copies]
    copy = copies[0]
    assert (copy["computation"], copy["instruction"]) == ("body", "a")
    conflict = copy["conflict"]
    assert (conflict["held"], conflict["reader"]) == ("w{1}", "both")
    assert conflict["writer"] == "moved"
    assert "Copied each iteration: " in words(report)
    assert f" 16.4 KB: {copy['reason']}." in words(report)
    assert "in place" not in words(report).partition("Not optimized")[0].partition("In loop")[2]


def test_a_swap_is_copied_in_full():
    report = loop("", "b", "a", donate=True)
    found = report.to_json()
    assert not found["loops"][0]["in_place"]
    assert found["loops"][0]["copied_bytes"] >= 2 * 16384
    assert "arrays, the largest 16.4 KB: loop carry {" in words(report)


def test_copies_before_the_loop_run_once():
    report = loop("n = f32[4096] negate(a)", "n", "n")
    copies = large_copies(report)
    assert [x["kind"] for x in copies] == ["loop entry", "loop entry"]
    assert "x is an argument that is not donated" in copies[0]["reason"]
    assert f"Copied once: 32.8 KB in 2 arrays, the largest 16.4 KB: {copies[0]['reason']}." in (
        words(report)
    )
    assert "Copied once" not in words(loop("n = f32[4096] negate(a)", "n", "b", donate=True))


def test_copies_within_calls_belong_to_the_loops_around():
    functions = """inner {
  p = f32[4096] parameter(0)
  k = s32[] constant(3)
  one.1 = f32[1] constant({1})
  u = f32[4096] dynamic-update-slice(p, one.1, k)
  ROOT both = (f32[4096], f32[4096]) tuple(p, u)
}
"""
    lines = """two = (f32[4096], f32[4096]) call(a), to_apply=inner
  l = f32[4096] get-tuple-element(two), index=0
  m = f32[4096] get-tuple-element(two), index=1"""
    report = loop(lines, "l", "m", functions, donate=True)
    copies = large_copies(report, "w")
    assert not large_copies(report)
    assert "inner" in {x["computation"] for x in copies}


def test_a_programs_own_copies_are_told_apart():
    report = loop("n = f32[4096] copy(a)", "n", "b")
    (found,) = report.to_json()["loops"]
    assert (found["in_place"], found["own_copied_bytes"]) == (True, 16384)
    assert "carried in place but for own copies of 16.4 KB." in words(report)


def test_copies_are_largest_first_and_name_their_source():
    text = """HloModule m
ENTRY main {
  x = f32[1024] parameter(0), metadata={op_name="x"}
  y = f32[64] parameter(1), metadata={source_file="a.py" source_line=3}
  ROOT r = (f32[64], f32[1024], f32[1024]) tuple(y, x, x)
}
"""
    copies = explain(parse_hlo(text), PlanOptions("input")).to_json()["copies"]
    assert [x["bytes"] for x in copies] == [4096, 4096, 256]
    assert [x["instruction"] for x in copies] == ["x", "x", "y"]
    assert copies[2]["source"] == {"file": "a.py", "line": 3, "function": ""}
    assert {x["kind"] for x in copies} == {"output"}


def test_the_screen_fits_however_many_reasons_there_are():
    name = "n" * 60
    report = loop("", "b", "a")
    text = LOOP.replace("BODY", RETURN.format("b", "a")).replace("FUNCTIONS", "")
    text = text.replace(" w =", f" {name} =").replace(
        "HloModule loop", "HloModule loop, buffer_donor={ (0, {}), (1, {}) }"
    )
    for found in (report, explain(parse_hlo(text), PlanOptions("input"))):
        for width in (80, 100):
            lines = explain_text(found, width=width).split("\n")
            assert len(lines) <= LINES
            assert max([len(line) for line in lines]) <= width
