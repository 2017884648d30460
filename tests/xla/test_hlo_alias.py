"""Which values have to lie in one place, as XLA's alias analysis has it."""

import pytest

from lowtide.frontend.hlo_text import parse_hlo
from lowtide.xla.analysis.hlo_alias import hlo_alias_analysis

SUM = """sum { x.s = f32[] parameter(0)
  y.s = f32[] parameter(1)
  ROOT add.s = f32[] add(x.s, y.s) }
"""
ENTRY = """ENTRY e { p = f32[8] parameter(0)
  q = f32[8] parameter(1)
  i = s32[] parameter(2)
  u = f32[2] parameter(3)
"""

IN_PLACE = {
    "dynamic-update-slice writes into operand 0": (
        "d = f32[8] dynamic-update-slice(p, u, i)",
        "p d",
    ),
    "scatter writes into its operands": (
        "k = s32[2,1] constant({{0},{1}})\n"
        " d = (f32[8], f32[8]) scatter(p, q, k, u, u), to_apply=two, update_window_dims={}, "
        "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1",
        "p d{0}\nq d{1}",
    ),
    "all-reduce-start writes into its operands": (
        "d = (f32[8], f32[8]) all-reduce-start(p, q), replica_groups={}, to_apply=sum",
        "p d{0}\nq d{1}",
    ),
    "a plain all-reduce has memory of its own": (
        "d = f32[8] all-reduce(p), replica_groups={}, to_apply=sum",
        "",
    ),
    "set-dimension-size writes into operand 0": (
        "d = f32[<=8] set-dimension-size(p, i), dimensions={0}",
        "p d",
    ),
    "a custom call writes where it says": (
        'd = (f32[2], f32[8]) custom-call(p, q), custom_call_target="f", '
        "output_to_operand_aliasing={{1}: (0, {})}",
        "p d{1}",
    ),
    "a custom call writes into elements of tuples": (
        't = (f32[8], f32[8]) tuple(p, q)\n d = f32[8] custom-call(t), custom_call_target="f", '
        "output_to_operand_aliasing={{}: (0, {1})}",
        "q d",
    ),
    "a fusion writes where it says": (
        "d = f32[8] fusion(p, q), kind=kLoop, calls=adds, output_to_operand_aliasing={{}: (1, {})}",
        "q d",
    ),
    "an elementwise fusion has memory of its own": (
        "d = f32[8] fusion(p, q), kind=kLoop, calls=adds",
        "",
    ),
    "a fusion with an update at its root writes into the operand behind it": (
        "d = f32[8] fusion(i, q, u), kind=kLoop, calls=updates",
        "q d",
    ),
    "a fusion with an update in its root tuple does too": (
        "d = (f32[2], f32[8]) fusion(i, q, u), kind=kLoop, calls=updates.2",
        "q d{1}",
    ),
    "an update of what a fusion computes has memory of its own": (
        "d = f32[8] fusion(i, q, u), kind=kLoop, calls=computes",
        "",
    ),
    "a bitcast shares all": (
        "b = f32[4,2] bitcast(p)\n c = s32[] copy(i)\n"
        " d = f32[4,2] dynamic-update-slice(b, v, c, i)\n",
        "p d",
    ),
    "a sort has memory of its own": ("d = f32[8] sort(p), dimensions={0}, to_apply=less", ""),
    "a copy has memory of its own": ("d = f32[8] copy(p)", ""),
    "add has memory of its own": ("d = f32[8] add(p, q)", ""),
}

CALLEES = """two { x.t = f32[] parameter(0)
  y.t = f32[] parameter(1)
  z.t = f32[] parameter(2)
  w.t = f32[] parameter(3)
  ROOT r.t = (f32[], f32[]) tuple(z.t, w.t) }
less { x.o = f32[] parameter(0)
  y.o = f32[] parameter(1)
  ROOT r.o = pred[] compare(x.o, y.o), direction=LT }
adds { x.a = f32[8] parameter(0)
  y.a = f32[8] parameter(1)
  ROOT r.a = f32[8] add(x.a, y.a) }
updates { i.u = s32[] parameter(0)
  x.u = f32[8] parameter(1)
  u.u = f32[2] parameter(2)
  b.u = f32[8] bitcast(x.u)
  ROOT r.u = f32[8] dynamic-update-slice(b.u, u.u, i.u) }
updates.2 { i.v = s32[] parameter(0)
  x.v = f32[8] parameter(1)
  u.v = f32[2] parameter(2)
  n.v = f32[2] negate(u.v)
  d.v = f32[8] dynamic-update-slice(x.v, u.v, i.v)
  ROOT r.v = (f32[2], f32[8]) tuple(n.v, d.v) }
computes { i.c = s32[] parameter(0)
  x.c = f32[8] parameter(1)
  u.c = f32[2] parameter(2)
  n.c = f32[8] negate(x.c)
  ROOT r.c = f32[8] dynamic-update-slice(n.c, u.c, i.c) }
"""


def shared(text, within=()):
    """The buffers with several values, as lines of labels in alphabetical order."""
    module = parse_hlo(text)
    alias = hlo_alias_analysis(module)
    values = [value for buffer in alias.buffers for value in buffer.values]
    assert sorted(values, key=lambda x: x.number) == list(alias.dataflow.values)
    for buffer in alias.buffers:
        assert all(alias.buffer_of(value) is buffer for value in buffer.values)
    found = []
    for buffer in alias.buffers:
        labels = [
            value.label
            for value in buffer.values
            if not within or value.instruction.parent.name in within
        ]
        if len(labels) > 1:
            found.append(" ".join(sorted(labels)))
    return sorted(found)


def expected(lines):
    return sorted([" ".join(sorted(line.split())) for line in lines.splitlines()])


@pytest.mark.parametrize("rule", IN_PLACE)
def test_rule(rule):
    lines, same = IN_PLACE[rule]
    entry = ENTRY
    if " v, " in lines:
        entry += "  v = f32[1,2] parameter(4)\n"
    text = f"HloModule m\n{SUM}{CALLEES}{entry} {lines}\n ROOT z = f32[2] negate(u) }}"
    assert shared(text, within="e") == expected(same)


def test_an_update_in_a_nested_fusion_is_in_place_too():
    text = f"""HloModule m
{CALLEES}
outer {{ i.w = s32[] parameter(0)
  x.w = f32[8] parameter(1)
  u.w = f32[2] parameter(2)
  ROOT f.w = f32[8] fusion(i.w, x.w, u.w), kind=kLoop, calls=updates }}
{ENTRY}
  ROOT d = f32[8] fusion(i, q, u), kind=kLoop, calls=outer }}"""
    assert shared(text, within="e") == ["d q"]


@pytest.mark.parametrize("kind", ["may-alias", "must-alias"])
def test_an_output_and_the_argument_that_it_overwrites_share_a_buffer(kind):
    text = f"""HloModule m, input_output_alias={{ {{0}}: (1, {{}}, {kind}) }}
ENTRY e {{ p = f32[8] parameter(0)
  q = f32[8] parameter(1)
  n = f32[8] negate(p)
  ROOT t = (f32[8], f32[8]) tuple(n, p) }}"""
    assert shared(text) == ["n q"]


LOOP = """HloModule m
cond { s.c = (f32[8], f32[8]) parameter(0)
  ROOT k.c = pred[] constant(false) }
body { s.b = (f32[8], f32[8]) parameter(0)
  g = f32[8] get-tuple-element(s.b), index=0
  h = f32[8] get-tuple-element(s.b), index=1
  n = f32[8] negate(h)
  ROOT r = (f32[8], f32[8]) tuple(g, n) }
ENTRY e { p = f32[8] parameter(0)
  q = f32[8] copy(p)
  o = f32[8] copy(p)
  i = (f32[8], f32[8]) tuple(q, o)
  ROOT w = (f32[8], f32[8]) while(i), condition=cond, body=body }
"""


def test_initial_value_state_and_result_of_a_loop_share_a_buffer_at_each_index():
    assert shared(LOOP) == ["i{} r{} s.b{} s.c{} w{}", "n o s.b{1} s.c{1} w{1}"]


def test_elements_that_change_places_share_one_buffer():
    text = LOOP.replace("tuple(g, n)", "tuple(h, g)")
    assert "o q s.b{0} s.b{1} s.c{0} s.c{1} w{0} w{1}" in shared(text)


BRANCHES = """HloModule m
one { x.1 = f32[8] parameter(0)
  ROOT y.1 = f32[8] negate(x.1) }
two { x.2 = f32[8] parameter(0)
  ROOT y.2 = f32[8] exponential(x.2) }
ENTRY e { p = f32[8] parameter(0)
  k = pred[] constant(true)
  ROOT c = f32[8] conditional(k, p, p), true_computation=one, false_computation=two }
"""


def test_the_results_of_all_branches_share_a_buffer_with_that_of_the_conditional():
    assert shared(BRANCHES) == ["c y.1 y.2"]


def test_a_branch_that_returns_its_argument_shares_that_too():
    text = BRANCHES.replace("  ROOT y.1 = f32[8] negate(x.1) }", " }").replace(
        "x.1 =", "ROOT x.1 ="
    )
    assert shared(text) == ["c p y.2"]


def test_a_call_shares_by_being_the_same_value():
    text = BRANCHES.replace(
        "conditional(k, p, p), true_computation=one, false_computation=two", "call(p), to_apply=one"
    )
    assert shared(text) == []


def test_async_operations_share_what_the_wrapped_one_does():
    text = """HloModule m
f { x.f = f32[8] parameter(0)
  ROOT y.f = f32[8] custom-call(x.f), custom_call_target="f",
    output_to_operand_aliasing={{}: (0, {})} }
ENTRY e { p = f32[8] parameter(0)
  s = ((f32[8]), f32[8], u32[]) async-start(p), calls=f
  ROOT d = f32[8] async-done(s) }"""
    assert shared(text) == ["p y.f"]


def test_what_a_buffer_knows():
    module = parse_hlo(LOOP)
    alias = hlo_alias_analysis(module)
    w = module.entry.root
    buffer = alias.unique_buffer_at(w, (1,))
    assert buffer in alias.live_out_buffers and buffer.live_out
    assert (buffer.nbytes, buffer.colour) == (32, 0)
    assert alias.buffers_at(w, (0,)) == (alias.buffer_of(alias.dataflow.value_at(w, (0,))),)
    p = module.entry.parameters[0]
    assert not alias.unique_buffer_at(p).live_out
    assert [x.number for x in alias.buffers] == list(range(len(alias.buffers)))
    assert f"\n    {buffer}\n" in str(alias)


def test_where_a_callee_is_shared_there_are_several_buffers():
    text = """HloModule m
f { x.f = f32[8] parameter(0)
  ROOT y.f = f32[8] negate(x.f) }
ENTRY e { p = f32[8] parameter(0)
  c = f32[8] call(p), to_apply=f
  n = f32[8] exponential(c)
  ROOT d = f32[8] call(n), to_apply=f }"""
    module = parse_hlo(text)
    alias = hlo_alias_analysis(module)
    parameter = module.entry.root.called_computations[0].parameters[0]
    assert len(alias.buffers_at(parameter)) == 2
    with pytest.raises(ValueError, match="may be in any of HloBuffer"):
        alias.unique_buffer_at(parameter)
