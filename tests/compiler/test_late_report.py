"""Reports that are made when they are read: the same, and of nothing that lasts for long."""

import json

import pytest
from tests.support import EXAMPLES

import lowtide
from lowtide import compiler
from lowtide.client.executable import anew
from lowtide.compiler import pipeline, reporting
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.options import Options
from lowtide.search.effort import SearchOptions

LOOP = """HloModule m

body {
  p = (s32[], f32[64], f32[64]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  x = f32[64] get-tuple-element(p), index=1
  y = f32[64] get-tuple-element(p), index=2
  c = f32[64] cosine(x)
  r = f32[64] reverse(c), dimensions={0}
  s = f32[64] multiply(r, y)
  ROOT state = (s32[], f32[64], f32[64]) tuple(next, s, x)
}

condition {
  q = (s32[], f32[64], f32[64]) parameter(0)
  j = s32[] get-tuple-element(q), index=0
  ROOT less = pred[] compare(j, j), direction=LT
}

ENTRY main {
  a = f32[64] parameter(0)
  zero = s32[] constant(0)
  start = (s32[], f32[64], f32[64]) tuple(zero, a, a)
  ROOT end = (s32[], f32[64], f32[64]) while(start), condition=condition, body=body
}
"""


def modules():
    return [parse_hlo(LOOP), lowtide.read(EXAMPLES / "mlp.hlo.xz")]


def without_times(report):
    return {k: v for k, v in report.to_json().items() if k != "seconds"}


@pytest.fixture
def made(monkeypatch):
    """The reports that are made from now on."""
    found = []
    plain = reporting.report
    monkeypatch.setattr(
        reporting, "report", lambda *given: found.append(plain(*given)) or found[-1]
    )
    return found


def test_a_late_report_is_made_once_and_says_the_same(made):
    for module in modules():
        made.clear()
        plan = compiler.plan(module, late=True)
        assert not made and not plan.late_report.is_made
        assert plan.seconds["schedule"] >= 0
        assert plan.report is plan.report
        assert len(made) == 1
        assert without_times(plan.report) == without_times(compiler.plan(module).report)
        assert plan.report.ladder.arena_bytes == plan.packed.arena_bytes


def test_a_plan_within_a_deadline_is_reported_on_at_once(made):
    options = compiler.PlanOptions(search=SearchOptions(deadline=1e6))
    plan = compiler.plan(parse_hlo(LOOP), options, late=True)
    assert len(made) == 1 and plan.late_report.is_made
    assert plan.report is made[0]


def test_large_modules_are_reported_on_at_once(made, monkeypatch):
    monkeypatch.setattr(pipeline, "_MOST_KEPT", 3)
    assert compiler.plan(parse_hlo(LOOP), late=True).late_report.is_made
    assert len(made) == 1


def test_a_deadline_that_passes_later_is_not_in_a_late_report():
    options = compiler.PlanOptions().begun()
    plan = compiler.plan(parse_hlo(LOOP), options, late=True)
    with options.deadline.held():
        options.deadline.interrupt()
    assert options.deadline.passed
    expected = compiler.plan(parse_hlo(LOOP)).report
    assert without_times(plan.report) == without_times(expected)


def test_another_report_takes_the_place_of_one(made):
    plan = compiler.plan(parse_hlo(LOOP), late=True)
    other = compiler.plan(parse_hlo(LOOP)).report
    assert plan.with_report(other).report is other
    assert plan.with_report(other).seconds is other.seconds
    assert len(made) == 1


def test_programs_that_no_cache_keeps_are_described_when_asked(made, monkeypatch):
    texts = []
    plain = anew.to_text
    monkeypatch.setattr(anew, "to_text", lambda *given: texts.append(plain(*given)) or texts[-1])
    executable = lowtide.compile(parse_hlo(LOOP), options=Options(cache=False))
    assert executable.arena_bytes >= 0
    assert not made and not texts
    assert executable.as_text() is executable.as_text()
    assert executable.memory["ladder"]["arena_bytes"] == executable.arena_bytes
    assert len(made) == len(texts) == 1


def test_programs_are_described_alike_late_and_at_once(monkeypatch):
    for module in modules():
        late = lowtide.compile(module, options=Options(cache=False))
        monkeypatch.setattr(pipeline, "_MOST_KEPT", 0)
        early = lowtide.compile(module, options=Options(cache=False))
        monkeypatch.undo()
        assert late.as_text() == early.as_text()
        assert json.dumps({**late.memory, "seconds": {}}) == json.dumps(
            {**early.memory, "seconds": {}}
        )
        assert late.serialize() == early.serialize()
