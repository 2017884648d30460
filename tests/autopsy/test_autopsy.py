"""Plans taken apart: the ladder of alternatives, and each cause on a plan that has just that."""

from dataclasses import replace

import pytest
from tests.autopsy.plans import WASTEFUL, planned

from lowtide.autopsy.autopsy import explain_plan
from lowtide.autopsy.repeatable import repeatable_bytes
from lowtide.autopsy.report import PlanReport
from lowtide.autopsy.screen import autopsy_text
from lowtide.compiler import ModulePlan
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import LowtideError, Module
from lowtide.ir.buffer import AllocationKind, BufferAssignment, BufferSlice


def examined(plan: ModulePlan, assignment: BufferAssignment | None = None) -> PlanReport:
    """Return the report on a plan, with what has to hold for every report checked."""
    report = explain_plan(plan.module, assignment or plan.assignment, compile_again=False)
    other = report.autopsy.alternatives
    ladder = [
        other.plan, other.held, other.same_order, other.other_order, other.without_copies,
        other.bound,
    ]  # fmt: skip
    assert ladder == sorted(ladder, reverse=True)
    assert sum([x.nbytes for x in report.autopsy.causes]) == other.plan - other.bound
    memory = report.memory
    taken = sum([x.nbytes for x in memory.peak.buffers])
    assert taken == memory.ladder.live_bytes + memory.alias_bytes
    assert memory.ladder.arena_bytes == memory.temp_bytes + memory.output_bytes - memory.alias_bytes
    for width in (80, 100):
        lines = autopsy_text(report, width=width).splitlines()
        assert len(lines) <= 24
        assert all(len(x) <= width for x in lines if not x.startswith(("  .", "  jax.jit")))
    return report


def moved(assignment: BufferAssignment, by: int) -> BufferAssignment:
    """Return a plan whose temporaries lie `by` bytes further behind, with nothing in between."""
    arena = next(x for x in assignment.allocations if x.kind is AllocationKind.ARENA)

    def move(place: BufferSlice | None) -> BufferSlice | None:
        if place is None or place.allocation != arena.index or place.offset < assignment.kept_bytes:
            return place
        return replace(place, offset=place.offset + by)

    sites = tuple(
        [
            replace(site, slices={x: tuple(map(move, row)) for x, row in site.slices.items()})
            for site in assignment.call_sites
        ]
    )
    allocations = list(assignment.allocations)
    allocations[arena.index] = replace(arena, nbytes=arena.nbytes + by)
    return replace(assignment, allocations=tuple(allocations), call_sites=sites)


def test_order_is_named_where_another_order_needs_less():
    report = examined(planned(WASTEFUL))
    assert report.autopsy.cause == "order"
    assert report.memory.ladder.arena_bytes > 16384
    assert report.autopsy.other_order_arena < 4300
    (remedy,) = report.autopsy.helpful
    assert "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED" in remedy.code
    assert remedy.predicted_bytes == report.autopsy.other_order_arena
    assert remedy.verified_bytes is None
    text = str(report)
    assert "cause: order" in text
    assert remedy.code in text


def test_packing_is_named_where_the_offsets_leave_holes():
    plan = planned(WASTEFUL)
    report = examined(plan, moved(plan.assignment, 65536))
    assert report.autopsy.cause == "packing"
    causes = {x.name: x.nbytes for x in report.autopsy.causes}
    assert causes["packing"] == 65536
    assert causes["order"] == 16388 - 4112


def test_a_good_plan_has_no_cause():
    text = WASTEFUL.replace("HloModule wasteful, is_scheduled=true", "HloModule wasteful")
    report = examined(planned(text))
    assert report.autopsy.cause == ""
    assert not report.autopsy.helpful
    assert "no better one is known" in str(report)


IN_PLACE = """HloModule chain, is_scheduled=true

ENTRY main {
  x = f32[1024] parameter(0)
  a = f32[1024] exponential(x)
  b = f32[1024] cosine(a)
  c = f32[1024] sine(b)
  ROOT d = f32[1024] tanh(c)
}
"""


def test_in_place_is_named_where_results_get_places_of_their_own():
    plan = planned(IN_PLACE)
    site = plan.assignment.call_sites[0]
    arena = next(x for x in plan.assignment.allocations if x.kind is AllocationKind.ARENA)
    slices = dict(site.slices)
    for instruction in plan.module.entry.instructions.values():
        if instruction.name == "b":
            slices[instruction] = (BufferSlice(arena.index, 4096, 4096),)
    allocations = [
        replace(x, nbytes=8192) if x.index == arena.index else x
        for x in plan.assignment.allocations
    ]
    worse = replace(
        plan.assignment, allocations=tuple(allocations), call_sites=(replace(site, slices=slices),)
    )
    report = examined(plan, worse)
    assert report.autopsy.cause == "in-place"
    assert report.autopsy.alternatives.plan == 8192
    assert report.autopsy.alternatives.same_order == 4096


COPIES = """HloModule copies, is_scheduled=true

ENTRY main {
  x = f32[1024] parameter(0)
  y = f32[1024] parameter(1)
  a = f32[1024] copy(x)
  b = f32[1024] copy(y)
  c = f32[1024] add(a, b)
  r = f32[1024] reverse(c), dimensions={0}
  ROOT s = f32[1024] multiply(r, b)
}
"""


def test_copies_are_named_where_the_program_runs_without_them():
    report = examined(planned(COPIES))
    causes = {x.name: x.nbytes for x in report.autopsy.causes}
    assert causes["copies"] == 4096


WIDE = """HloModule wide, is_scheduled=true

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

ENTRY main {
  x = f32[64] parameter(0)
  zero = f32[] constant(0)
  wide = f32[64,64] broadcast(x), dimensions={0}
  root = f32[64,64] reverse(wide), dimensions={0}
  sums = f32[64] reduce(root, zero), dimensions={1}, to_apply=add
  more = f32[64] reduce(wide, zero), dimensions={0}, to_apply=add
  ROOT both = (f32[64], f32[64]) tuple(sums, more)
}
"""


def test_materialisation_counts_what_is_cheap_to_repeat():
    plan = planned(WIDE)
    assert repeatable_bytes(plan.module, plan.report.peak) == 64 * 64 * 4


LOOP = """HloModule loop, is_scheduled=true

condition {
  p = (s32[], f32[1024], f32[1024]) parameter(0)
  n = s32[] get-tuple-element(p), index=0
  limit = s32[] constant(8)
  ROOT less = pred[] compare(n, limit), direction=LT
}

body {
  p.1 = (s32[], f32[1024], f32[1024]) parameter(0)
  i = s32[] get-tuple-element(p.1), index=0
  first = f32[1024] get-tuple-element(p.1), index=1
  second = f32[1024] get-tuple-element(p.1), index=2
  one = s32[] constant(1)
  next = s32[] add(i, one)
  STEP
}

ENTRY main {
  start = s32[] parameter(0)
  x = f32[1024] parameter(1)
  y = f32[1024] parameter(2)
  state = (s32[], f32[1024], f32[1024]) tuple(start, x, y)
  ROOT loop = (s32[], f32[1024], f32[1024]) while(state), condition=condition, body=body
}
"""


@pytest.mark.parametrize(
    ("step", "in_place"),
    [
        ("ROOT out = (s32[], f32[1024], f32[1024]) tuple(next, second, first)", False),
        (
            """more = f32[1024] exponential(first)
            kept = f32[1024] copy(more)
            ROOT out = (s32[], f32[1024], f32[1024]) tuple(next, kept, second)""",
            True,
        ),
    ],
    ids=["swapped", "copied for nothing"],
)
def test_loops_are_proved_in_place_or_the_reason_is_given(step: str, in_place: bool):
    report = examined(planned(LOOP.replace("STEP", step)))
    (loop,) = report.autopsy.loops
    assert loop.in_place == in_place
    assert bool(loop.reasons) != in_place
    assert loop.planned_bytes >= 4096
    text = " ".join(str(report).split())
    assert ("could be changed in place" in text) == in_place
    assert ("has to copy" in text) != in_place


def test_a_module_without_order_is_refused():
    plan = planned(WASTEFUL)
    unordered: Module = parse_hlo(WASTEFUL.replace(", is_scheduled=true", ""))
    with pytest.raises(LowtideError, match="wasteful has no schedule"):
        explain_plan(unordered, plan.assignment, compile_again=False)
