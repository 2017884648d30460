"""Copies as a whole plan sees them: what is put in, what goes again, what the modules become."""

import pytest

from lowtide import compiler
from lowtide.checking import check_plan
from lowtide.evaluator import evaluate, value_leaves
from lowtide.evaluator.in_arena import run_in_arena
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import Opcode
from lowtide.testing.check_pass import seeded_arguments
from lowtide.verifier import verify


def planned(text):
    """The plan of a module, checked by the rules and by running inside it."""
    module = parse_hlo(text)
    arguments = seeded_arguments(module, 3)
    plan = compiler.plan(module, compiler.PlanOptions("input"))
    verify(plan.module)
    assert check_plan(plan.module, plan.assignment) == ()
    result = run_in_arena(plan.module, plan.assignment, arguments, sanitize=True)
    expected = evaluate(module, arguments)
    for a, b in zip(value_leaves(result), value_leaves(expected), strict=True):
        assert a.tobytes() == b.tobytes()
    return plan


LOOP = """HloModule loop{header}
body {{
  p = (s32[], {a}, {b}) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = {a} get-tuple-element(p), index=1
  y = {b} get-tuple-element(p), index=2
  one = s32[] constant(1)
  next = s32[] add(i, one)
{body}
}}
condition {{
  p = (s32[], {a}, {b}) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  limit = s32[] constant(3)
  ROOT less = pred[] compare(i, limit), direction=LT
}}
ENTRY main {{
  P = {a} parameter(0)
  Q = {b} parameter(1)
  zero = s32[] constant(0)
  s = (s32[], {a}, {b}) tuple(zero, P, Q)
  ROOT w = (s32[], {a}, {b}) while(s), condition=condition, body=body
}}
"""


@pytest.mark.parametrize(
    ("a", "b", "moved"),
    [
        ("f32[6]{0}", "f32[2,3]{1,0}", "reshape(x)"),
        ("f32[3,2]{0,1}", "f32[2,3]{1,0}", "transpose(x), dimensions={1,0}"),
        ("f32[6]{0}", "f32[2,3]{1,0}", "bitcast(x)"),
    ],
)
def test_a_state_that_moves_on_under_another_shape(a, b, moved):
    body = f"""  z = {a} add(x, x)
  m = {b} {moved}
  ROOT r = (s32[], {a}, {b}) tuple(next, z, m)"""
    plan = planned(LOOP.format(header="", a=a, b=b, body=body))
    assert any(inserted.reason.kind == "loop state" for inserted in plan.copies.copies)


def test_states_that_change_places_take_three_copies():
    shape = "f32[4]{0}"
    body = f"  ROOT r = (s32[], {shape}, {shape}) tuple(next, y, x)"
    plan = planned(LOOP.format(header="", a=shape, b=shape, body=body))
    kinds = [inserted.reason.kind for inserted in plan.copies.copies]
    assert kinds.count("loop state") == 3


def test_a_reader_of_a_donated_argument_gets_the_copy():
    header = "is_scheduled=true, input_output_alias={ {0}: (0, {}, may-alias) }"
    plan = planned(
        f"HloModule cache, {header}"
        + """
ENTRY main {
  cache = f32[100] parameter(0)
  u = f32[10] parameter(1)
  k = s32[] constant(3)
  new = f32[100] dynamic-update-slice(cache, u, k)
  old = f32[10] slice(cache), slice={[0:10]}
  ROOT r = (f32[100], f32[10]) tuple(new, old)
}
"""
    )
    (inserted,) = plan.copies.copies
    assert inserted.reason.text() == (
        "cache is copied before new overwrites it, because old reads it later"
    )
    assert plan.report.ladder.live_bytes == 440


def test_what_one_branch_reads_is_free_in_the_other():
    plan = planned("""HloModule choice
left {
  p = f32[100] parameter(0)
  u = f32[10] slice(p), slice={[0:10]}
  k = s32[] constant(3)
  ROOT d = f32[100] dynamic-update-slice(p, u, k)
}
right {
  q = f32[100] parameter(0)
  ROOT n = f32[100] negate(q)
}
ENTRY main {
  P = f32[100] parameter(0)
  c = pred[] parameter(1)
  a = f32[100] sine(P)
  ROOT r = f32[100] conditional(c, a, a), true_computation=left, false_computation=right
}
""")
    assert plan.copies.copies == ()
    assert plan.report.ladder.live_bytes == 440


def test_each_memory_space_has_an_arena():
    plan = planned("""HloModule spaces
ENTRY main {
  P = f32[100]{0} parameter(0)
  a = f32[100]{0:S(1)} copy(P)
  b = f32[100]{0:S(1)} sine(a)
  ROOT r = f32[100]{0} copy(b)
}
""")
    arenas = [x for x in plan.assignment.allocations if x.kind == "arena"]
    assert [(x.colour, x.nbytes) for x in arenas] == [(0, 400), (1, 400)]


def test_of_two_updates_of_one_value_the_later_one_is_in_place():
    plan = planned("""HloModule updates
ENTRY main {
  P = f32[100] parameter(0)
  u = f32[10] parameter(1)
  k = s32[] constant(3)
  m = s32[] constant(4)
  b = f32[100] sine(P)
  d = f32[100] dynamic-update-slice(b, u, k)
  e = f32[100] dynamic-update-slice(b, u, m)
  ROOT r = f32[100] add(d, e)
}
""")
    copies = [x for x in plan.module.entry.instructions.values() if x.opcode is Opcode.COPY]
    assert len(copies) == 1


def test_a_copy_stays_where_only_its_sole_reader_may_write_over_it():
    less = (
        "less { a = f32[] parameter(0) b = f32[] parameter(1) "
        "ROOT l = pred[] compare(a, b), direction=LT }\n"
    )
    body = """
  d = f32[8] dynamic-update-slice(x, x, one)
  s = f32[8] sort(x), dimensions={0}, to_apply=less
  ROOT r = (s32[], f32[8], f32[8]) tuple(next, s, y)"""
    text = LOOP.format(header="", a="f32[8]", b="f32[8]", body=body)
    planned(text.replace("body {", less + "body {", 1))


def test_an_argument_that_nobody_reads_is_overwritten_later():
    plan = planned("""HloModule unread, buffer_donor={ (0, {}) }
ENTRY main {
  p = u32[1,1] parameter(0)
  i = f32[1] iota(), iota_dimension=0
  ROOT t = (f32[1]) tuple(i)
}
""")
    assert plan.copies.copies == ()


def test_each_array_that_a_permute_writes_to_is_in_place():
    module = parse_hlo("""HloModule m, is_scheduled=true, replica_count=2
ENTRY main {
  zero = s32[] constant(0)
  one = f32[] constant(1)
  starts = (s32[], s32[]) tuple(zero, zero)
  both = ((s32[], s32[]), (s32[], s32[])) tuple(starts, starts)
  x = f32[8,4] parameter(0)
  sent = (f32[8,4], f32[8,4]) tuple(x, x)
  a = f32[8,8] broadcast(one), dimensions={}
  b = f32[8,8] iota(), iota_dimension=0
  written = (f32[8,8], f32[8,8]) tuple(a, b)
  ROOT r = (f32[8,8], f32[8,8]) collective-permute(sent, written, both, both),
    source_target_pairs={{0,1}}, slice_sizes={{8,4},{8,4}}
}
""")
    plan = compiler.plan(module, compiler.PlanOptions("input"))
    assert plan.copies.copies == ()
    assert check_plan(plan.module, plan.assignment) == ()
