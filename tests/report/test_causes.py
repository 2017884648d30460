"""The causes of the peak: they add up, and each is told for a program that has it."""

from collections import Counter

import pytest
from hypothesis import given, settings
from tests.random_modules.strategies import memory_modules, modules
from tests.support import CORPUS, EXAMPLES

from lowtide.compiler import PlanOptions, explain
from lowtide.frontend.files import read
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.report.causes import peak_causes
from lowtide.report.grouping import GROUPINGS, groups_of
from lowtide.report.memory import MemoryReport
from lowtide.report.peak import CauseKind

SMALL = [
    path
    for path in [*sorted(EXAMPLES.glob("*.xz")), *sorted(CORPUS.glob("*.xz"))]
    if path.stat().st_size < 40_000
]


def check_sums(report: MemoryReport) -> None:
    """Causes, groups and the tree hold each byte once."""
    causes = peak_causes(report)
    assert sum([x.nbytes for x in causes]) == report.total_bytes
    assert all(x.nbytes > 0 for x in causes)
    assert [x.nbytes for x in causes] == sorted([x.nbytes for x in causes], reverse=True)
    by_kind = {x.kind: x.nbytes for x in causes}
    held = Counter(dict.fromkeys(CauseKind, 0))
    for buffer in report.peak.buffers:
        held[buffer.cause] += buffer.nbytes
    for kind in set(CauseKind) - {"arguments", "constants", "packing", "order", "irreducible"}:
        assert by_kind.get(kind, 0) == held[kind]
    whole = by_kind.get(CauseKind.ORDER, 0) + by_kind.get(CauseKind.IRREDUCIBLE, 0)
    assert whole == held[CauseKind.IRREDUCIBLE]
    total = sum(held.values())
    for by in GROUPINGS:
        assert sum([x.nbytes for x in groups_of(report.peak.buffers, by)]) == total
    peak = report.peak.to_json()
    roots = sum([x["bytes"] for x in peak["tree"] if x["parent"] < 0])
    assert roots + sum([x["bytes"] for x in peak["buffers"] if x["frame"] < 0]) == total
    for number, node in enumerate(peak["tree"]):
        assert -1 <= node["parent"] < number


@settings(max_examples=60, deadline=None)
@given(modules())
def test_causes_of_random_modules_add_up(module):
    check_sums(explain(module, PlanOptions("input")))


@settings(max_examples=60, deadline=None)
@given(memory_modules())
def test_causes_of_modules_full_of_wishes_add_up(module):
    check_sums(explain(module))


@pytest.mark.slow
@settings(max_examples=1000, deadline=None)
@given(memory_modules())
def test_causes_of_many_modules_add_up(module):
    check_sums(explain(module))


@pytest.mark.parametrize("path", SMALL, ids=lambda path: path.name.split(".hlo")[0])
def test_causes_of_real_modules_add_up(path):
    check_sums(explain(read(path), PlanOptions("input")))


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(CORPUS.glob("*.xz")), ids=lambda path: path.name)
def test_causes_of_all_real_modules_add_up(path):
    check_sums(explain(read(path), PlanOptions("input")))


# -- one program per cause -----------------------------------------------------------------------

HEAD = "HloModule m\n"
BACKWARD = """
ENTRY e {
  w = f32[64,64] parameter(0)
  x = f32[64,64] parameter(1)
  h = f32[64,64] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="jit(f)/jvp(net)/dot_general"}
  y = f32[64,64] dot(h, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="jit(f)/jvp(net)/dot_general"}
  z = f32[64,64] dot(y, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="jit(f)/jvp(net)/dot_general"}
  ROOT g = f32[64,64] dot(h, z), lhs_contracting_dims={0}, rhs_contracting_dims={0}, metadata={op_name="jit(f)/transpose(jvp(net))/dot_general"}
}
"""  # noqa: E501
COPIED_STATE = """
body {
  s = (s32[], f32[256], f32[256]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  a = f32[256] get-tuple-element(s), index=1
  b = f32[256] get-tuple-element(s), index=2
  one = s32[] constant(1)
  n = s32[] add(i, one)
  ROOT r = (s32[], f32[256], f32[256]) tuple(n, b, a)
}
condition {
  s.1 = (s32[], f32[256], f32[256]) parameter(0)
  i.1 = s32[] get-tuple-element(s.1), index=0
  most = s32[] constant(5)
  ROOT c = pred[] compare(i.1, most), direction=LT
}
ENTRY e {
  zero = s32[] constant(0)
  x = f32[256] parameter(0)
  y = f32[256] parameter(1)
  t = (s32[], f32[256], f32[256]) tuple(zero, x, y)
  w = (s32[], f32[256], f32[256]) while(t), condition=condition, body=body
  p = f32[256] get-tuple-element(w), index=1
  q = f32[256] get-tuple-element(w), index=2
  ROOT d = f32[] dot(p, q), lhs_contracting_dims={0}, rhs_contracting_dims={0}
}
"""
STORED = """
ENTRY e {
  x = f32[64] parameter(0)
  b = f32[64,64] broadcast(x), dimensions={0}
  ROOT s = f32[64,64] dot(b, b), lhs_contracting_dims={0}, rhs_contracting_dims={0}
}
"""
LARGE_OUTPUT = """
ENTRY e {
  x = f32[64] parameter(0)
  y = f32[32] parameter(1)
  a = f32[64] negate(x)
  b = f32[16] slice(y), slice={[0:16]}
  ROOT t = (f32[64], f32[16]) tuple(a, b)
}
"""


GRADIENT = """
ENTRY e {
  w = f32[64,64] parameter(0)
  x = f32[64,64] parameter(1)
  y = f32[64,256] parameter(2)
  g = f32[64,64] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  a = f32[64,256] dot(g, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  s = f32[64,64] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  h = f32[64,64] add(g, s)
  ROOT n = f32[64,64] subtract(w, h)
}
"""
"""At the peak, s, the result's buffer holds what is made while the argument is still read."""


def causes(text: str, stage: str = "input") -> dict[str, int]:
    report = explain(parse_hlo(HEAD + text), PlanOptions(stage))
    check_sums(report)
    return {x.kind.value: x.nbytes for x in report.causes}


def test_what_the_gradient_needs():
    assert causes(BACKWARD)["saved for the backward pass"] == 2 * 64 * 64 * 4
    forward = BACKWARD.replace("transpose(jvp(net))", "jvp(net)")
    assert "saved for the backward pass" not in causes(forward)


def test_a_loop_that_changes_places():
    assert causes(COPIED_STATE)["loop state doubled"] >= 256 * 4
    same = COPIED_STATE.replace("tuple(n, b, a)", "tuple(n, a, b)")
    assert causes(same).get("loop state doubled", 0) < 256 * 4


def test_what_is_stored_though_its_reader_could_compute_it():
    found = causes(STORED)
    assert found["materialized"] == found["outputs"] == 64 * 64 * 4


def test_results_that_could_overwrite_an_argument():
    found = causes(LARGE_OUTPUT)
    assert found["not donated"] == 64 * 4
    assert found["outputs"] == 16 * 4
    assert found["arguments"] == 64 * 4 + 32 * 4
    held = causes(GRADIENT)
    assert "not donated" not in held and held["outputs"] == 64 * 64 * 4
    aliased = "HloModule m, input_output_alias={ {0}: (0, {}, may-alias) }\n"
    report = explain(parse_hlo(aliased + LARGE_OUTPUT), PlanOptions("input"))
    check_sums(report)
    assert "not donated" not in {x.kind.value for x in report.causes}


def test_an_order_above_the_bound():
    from dataclasses import replace

    report = explain(parse_hlo(HEAD + BACKWARD), PlanOptions("input"))
    ladder = replace(report.ladder, bound_bytes=report.ladder.live_bytes - 100)
    found = {x.kind.value: x.nbytes for x in replace(report, ladder=ladder).causes}
    assert found["order"] == 100


def test_a_large_constant_is_named_with_the_line_that_reads_it():
    values = "{" + ", ".join(["1"] * 63 + ["2"]) + "}"
    text = f"""HloModule m
ENTRY e {{
  x = f32[64] parameter(0)
  c = f32[64] constant({values})
  ROOT y = f32[64] add(x, c), metadata={{op_name="jit(f)/add" source_file="m.py" source_line=3}}
}}
"""
    report = explain(parse_hlo(text), PlanOptions("input"))
    check_sums(report)
    assert "constant f32[64] of 256 B, read at m.py:3: make it an argument" in str(report)
    assert report.to_json()["largest_constant"]["bytes"] == 256
    assert explain(parse_hlo(HEAD + BACKWARD), PlanOptions("input")).largest_constant is None
