"""Which positions define values and which pass them on, as XLA's dataflow analysis has it."""

import pytest
from tests.random_modules import random_module
from tests.support import CORPUS, needs_shared, read_text

from lowtide.analysis.dataflow import dataflow
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir.opcode import CALLERS
from lowtide.transforms.flatten_call_graph import flatten_call_graph
from lowtide.xla.analysis.hlo_dataflow import hlo_dataflow

CALLEES = """HloModule m
sum { x.s = f32[] parameter(0)
  y.s = f32[] parameter(1)
  ROOT add.s = f32[] add(x.s, y.s) }
"""

IN_THE_ENTRY = {
    "a tuple makes its table and passes its elements on": (
        "t = (f32[4], f32[4]) tuple(p, p)",
        "t: t{} p p",
    ),
    "get-tuple-element makes nothing": (
        "t = (f32[4], f32[4]) tuple(p, p)\n g = f32[4] get-tuple-element(t), index=1",
        "g: p",
    ),
    "get-tuple-element of a nested tuple passes its table on": (
        "t = (f32[4]) tuple(p)\n u = ((f32[4])) tuple(t)\n"
        " g = (f32[4]) get-tuple-element(u), index=0",
        "u: u{} t{} p\ng: t{} p",
    ),
    "a copy of an array is a value": ("c = f32[4] copy(p)", "c: c"),
    "a copy of a tuple copies the outermost table only": (
        "t = (f32[4]) tuple(p)\n u = ((f32[4]), f32[4]) tuple(t, p)\n"
        " c = ((f32[4]), f32[4]) copy(u)",
        "c: c{} t{} p p",
    ),
    "a bitcast makes nothing": ("b = f32[2,2] bitcast(p)", "b: p"),
    "a reshape makes a value even where it moves nothing": ("r = f32[2,2] reshape(p)", "r: r"),
    "an optimization barrier passes on the table too": (
        "t = (f32[4]) tuple(p)\n o = (f32[4]) opt-barrier(t)",
        "o: t{} p",
    ),
    "add-dependency passes its first operand on": (
        "k = token[] after-all()\n a = f32[4] add-dependency(p, k)",
        "a: p",
    ),
    "domain passes its operand on": (
        'd = f32[4] domain(p), domain={kind="sharding", entry={maximal device=0}, '
        "exit={maximal device=1}}",
        "d: p",
    ),
    "copy-start makes target, context and table, and keeps the source": (
        "s = (f32[4], f32[4], u32[]) copy-start(p)\n d = f32[4] copy-done(s)",
        "s: s{} s{0} p s{2}\nd: s{0}",
    ),
    "all-gather-start keeps its operand, and done passes the result on": (
        "s = (f32[4], f32[8]) all-gather-start(p), dimensions={0}, replica_groups={{0,1}}\n"
        " d = f32[8] all-gather-done(s)",
        "s: s{} p s{1}\nd: s{1}",
    ),
    "all-gather-start of several operands makes the inner tables": (
        "s = ((f32[4], f32[2]), (f32[8], f32[4])) all-gather-start(p, q), dimensions={0}, "
        "replica_groups={{0,1}}\n d = (f32[8], f32[4]) all-gather-done(s)",
        "s: s{} s{0} p q s{1} s{1,0} s{1,1}\nd: d{} s{1,0} s{1,1}",
    ),
    "all-reduce-start makes its result, and done passes it on": (
        "s = f32[4] all-reduce-start(p), replica_groups={}, to_apply=sum\n"
        " d = f32[4] all-reduce-done(s)",
        "s: s\nd: s",
    ),
    "collective-permute-start keeps its operand": (
        "s = (f32[4], f32[4], u32[], u32[]) collective-permute-start(p), "
        "source_target_pairs={{0,1}}\n d = f32[4] collective-permute-done(s)",
        "s: s{} p s{1} s{2} s{3}\nd: s{1}",
    ),
    "send keeps its operand": (
        "k = token[] after-all()\n s = (f32[4], u32[], token[]) send(p, k), channel_id=1\n"
        " d = token[] send-done(s), channel_id=1",
        "s: s{} p s{1} s{2}\nd: d",
    ),
    "recv-done passes the data on and makes table and token": (
        "k = token[] after-all()\n r = (f32[4], u32[], token[]) recv(k), channel_id=1\n"
        " d = (f32[4], token[]) recv-done(r), channel_id=1",
        "r: r{} r{0} r{1} r{2}\nd: d{} r{0} d{1}",
    ),
    "a custom call makes all its results": (
        'c = (f32[4], (f32[4])) custom-call(p), custom_call_target="f", '
        "output_to_operand_aliasing={{0}: (0, {})}",
        "c: c{} c{0} c{1} c{1,0}",
    ),
    "sharding custom calls make a value": (
        'c = f32[4] custom-call(p), custom_call_target="Sharding"',
        "c: c",
    ),
    "a reduction makes its result, and its reducer its parameters": (
        "z = f32[] constant(0)\n r = f32[] reduce(p, z), dimensions={0}, to_apply=sum",
        "r: r\nx.s: x.s\ny.s: y.s\nadd.s: add.s",
    ),
}


def entry(lines, callees=""):
    """A module with these computations, and an entry with parameters p and q."""
    body = f"p = f32[4] parameter(0)\n q = f32[2] parameter(1)\n {lines}\n"
    return parse_hlo(f"{CALLEES}{callees}\nENTRY e {{ {body} ROOT z.out = f32[2] negate(q) }}")


def named(module):
    return {x.name: x for c in module.computations.values() for x in c.instructions.values()}


def labels(flow, instruction):
    """The values of an instruction, position by position; several of one are joined by `|`."""
    found = []
    for index, _ in instruction.shape.subshapes():
        values = flow.value_set(instruction, index)
        found.append("|".join([f"{v.label}{'*' if v.is_phi else ''}" for v in values]))
    return " ".join(found)


def expect(module, text, **options):
    flow = hlo_dataflow(module, **options)
    flow.check()
    instructions = named(module)
    for line in text.splitlines():
        name, values = line.split(": ")
        assert f"{name}: {labels(flow, instructions[name])}" == f"{name}: {values}"
    return flow


@pytest.mark.parametrize("rule", IN_THE_ENTRY)
def test_rule(rule):
    lines, expected = IN_THE_ENTRY[rule]
    expect(entry(lines), expected)


def test_a_bitcast_makes_a_value_where_that_is_asked_for():
    expect(entry("b = f32[2,2] bitcast(p)"), "b: b", bitcast_defines=True)


def test_relabelling_passes_on_where_that_is_asked_for():
    lines = 'r = f32[2,2] reshape(p)\n s = f32[4] custom-call(p), custom_call_target="Sharding"'
    expect(entry(lines), "r: p\ns: p", relabelling_defines=False)


# -- calls -------------------------------------------------------------------------------------

TWO_VALUES = """f { x.f = f32[4] parameter(0)
  y.f = f32[4] negate(x.f)
  ROOT t.f = (f32[4], f32[4]) tuple(x.f, y.f) }
"""


def test_a_call_makes_nothing_and_its_parameter_is_the_operand():
    module = entry("c = (f32[4], f32[4]) call(p), to_apply=f", TWO_VALUES)
    expect(module, "c: t.f{} p y.f\nx.f: p")


def test_a_fusion_makes_all_its_results_and_its_body_its_parameters():
    module = entry("c = (f32[4], f32[4]) fusion(p), kind=kLoop, calls=f", TWO_VALUES)
    expect(module, "c: c{} c{0} c{1}\nx.f: x.f\nt.f: t.f{} x.f y.f")


def test_a_computation_that_nobody_calls_makes_its_parameters():
    expect(entry("", TWO_VALUES), "x.f: x.f")


def test_a_parameter_with_two_callers_has_the_values_of_both():
    calls = "c = (f32[4], f32[4]) call(p), to_apply=f\n n = f32[4] negate(p)\n"
    module = entry(f"{calls} d = (f32[4], f32[4]) call(n), to_apply=f", TWO_VALUES)
    flow = expect(module, "x.f: p|n\nc: t.f{} p|n y.f\nd: t.f{} p|n y.f")
    with pytest.raises(ValueError, match=r"x\.f \{\} may be any of <\d+ p @0>, <\d+ n @0>"):
        flow.value_at(named(module)["x.f"])
    flatten_call_graph(module)
    assert all(len(flow) == 1 for flow in value_sets(module))


def value_sets(module):
    flow = hlo_dataflow(module)
    for instruction in flow.instructions:
        for index, _ in instruction.shape.subshapes():
            yield flow.value_set(instruction, index)


ASYNC = """f { x.f = f32[4] parameter(0)
  ROOT y.f = f32[4] custom-call(x.f), custom_call_target="f" }
"""


def test_async_operations_make_tables_and_contexts():
    chain = (
        "s = ((f32[4]), f32[4], u32[]) async-start(p), calls=f\n"
        " u = ((f32[4]), f32[4], u32[]) async-update(s)\n d = f32[4] async-done(u)"
    )
    module = entry(chain, ASYNC)
    expected = "x.f: p\ns: s{} s{0} p y.f s{2}\nu: u{} u{0} p y.f u{2}\nd: y.f"
    expect(module, expected)


def test_the_result_of_an_async_done_that_is_a_tuple_has_a_table_of_its_own():
    chain = (
        "s = ((f32[4]), (f32[4], f32[4]), u32[]) async-start(p), calls=f\n"
        " d = (f32[4], f32[4]) async-done(s)"
    )
    callee = TWO_VALUES.replace(
        "ROOT t.f = (f32[4], f32[4]) tuple(x.f, y.f)",
        'ROOT t.f = (f32[4], f32[4]) custom-call(x.f), custom_call_target="f"',
    )
    expect(entry(chain, callee), "s: s{} s{0} p s{1} t.f{0} t.f{1} s{2}\nd: d{} t.f{0} t.f{1}")


# -- loops -------------------------------------------------------------------------------------


def loop(body, inner=""):
    """A loop over (f32[4], f32[4]) that starts with p and `y`."""
    callees = f"""{inner}
cond {{ s.c = (f32[4], f32[4]) parameter(0)
  ROOT k.c = pred[] constant(false) }}
body {{ s.b = (f32[4], f32[4]) parameter(0)
  g0 = f32[4] get-tuple-element(s.b), index=0
  g1 = f32[4] get-tuple-element(s.b), index=1
  {body} }}
"""
    lines = """y = f32[4] negate(p)
  i = (f32[4], f32[4]) tuple(p, y)
  w = (f32[4], f32[4]) while(i), condition=cond, body=body"""
    return entry(lines, callees)


CHANGES_ONE = "n = f32[4] negate(g1)\n ROOT r.b = (f32[4], f32[4]) tuple(g0, n)"
CHANGES_PLACES = "ROOT r.b = (f32[4], f32[4]) tuple(g1, g0)"


def test_an_element_that_a_loop_changes_has_phis_in_condition_body_and_result():
    expect(
        loop(CHANGES_ONE),
        "s.c: s.c{}* p s.c{1}*\ns.b: s.b{}* p s.b{1}*\nw: w{}* p w{1}*\nr.b: r.b{} p n",
    )


def test_a_loop_that_returns_its_state_has_no_phi():
    flow = expect(
        loop("ROOT r.b = (f32[4], f32[4]) opt-barrier(s.b)"),
        "s.c: i{} p y\ns.b: i{} p y\nw: i{} p y",
    )
    assert not any(value.is_phi for value in flow.values)


def test_elements_that_change_places_have_phis():
    expect(loop(CHANGES_PLACES), "s.b: s.b{}* s.b{0}* s.b{1}*\nw: w{}* w{0}* w{1}*")


def test_equal_elements_that_change_places_are_one_value():
    text = str(loop(CHANGES_PLACES)).replace("tuple(%p, %y)", "tuple(%p, %p)")
    text = text.replace("tuple(p, y)", "tuple(p, p)")
    expect(parse_hlo(text), "s.b: s.b{}* p p\nw: w{}* p p")


def test_what_an_inner_loop_passes_through_is_the_outer_state():
    inner = """cond.i { s.ci = (f32[4], f32[4]) parameter(0)
  ROOT k.ci = pred[] constant(false) }
body.i { s.bi = (f32[4], f32[4]) parameter(0)
  h0 = f32[4] get-tuple-element(s.bi), index=0
  h1 = f32[4] get-tuple-element(s.bi), index=1
  m = f32[4] add(h0, h1)
  ROOT r.bi = (f32[4], f32[4]) tuple(h0, m) }
"""
    body = """v = (f32[4], f32[4]) while(s.b), condition=cond.i, body=body.i
  v0 = f32[4] get-tuple-element(v), index=0
  v1 = f32[4] get-tuple-element(v), index=1
  n = f32[4] negate(v0)
  ROOT r.b = (f32[4], f32[4]) tuple(n, v1)"""
    expect(
        loop(body, inner),
        "s.b: s.b{}* s.b{0}* s.b{1}*\nv: v{}* s.b{0}* v{1}*\n"
        "s.bi: s.bi{}* s.b{0}* s.bi{1}*\nr.b: r.b{} n v{1}*",
    )


def test_without_phis_a_position_has_all_values_that_may_be_there():
    flow = expect(
        loop(CHANGES_PLACES),
        "s.c: r.b{}|i{} p|y p|y\ns.b: r.b{}|i{} p|y p|y\nw: r.b{}|i{} p|y p|y",
        ssa=False,
    )
    assert not any(value.is_phi for value in flow.values)


BRANCHES = """one { x.1 = f32[4] parameter(0)
  ROOT n.1 = (f32[4], f32[4]) tuple(x.1, x.1) }
two { x.2 = f32[4] parameter(0)
  y.2 = f32[4] negate(x.2)
  ROOT n.2 = (f32[4], f32[4]) tuple(x.2, y.2) }
"""
CONDITIONAL = (
    "k = pred[] constant(true)\n c = (f32[4], f32[4]) conditional(k, p, p), "
    "true_computation=one, false_computation=two"
)


def test_a_conditional_has_a_phi_where_its_branches_differ():
    expect(entry(CONDITIONAL, BRANCHES), "x.1: p\nx.2: p\nc: c{}* p c{1}*")


def test_without_phis_a_conditional_has_the_values_of_its_branches():
    expect(entry(CONDITIONAL, BRANCHES), "c: n.1{}|n.2{} p y.2|p", ssa=False)


def test_a_conditional_of_one_branch_passes_its_result_on():
    lines = (
        "k = s32[] constant(0)\n c = (f32[4], f32[4]) conditional(k, p), branch_computations={two}"
    )
    expect(entry(lines, BRANCHES), "c: n.2{} p y.2")


# -- positions and uses ------------------------------------------------------------------------


def uses_of(flow, instruction, index=()):
    return [str(use) for use in flow.value_at(instruction, index).uses]


def test_a_tuple_is_no_use_of_its_elements_and_an_element_no_use_of_the_others():
    module = entry(
        "t = (f32[4]) tuple(p)\n g = f32[4] get-tuple-element(t), index=0\n n = f32[4] negate(g)"
    )
    flow = hlo_dataflow(module)
    assert uses_of(flow, named(module)["p"]) == ["n, operand 0 {}"]
    assert uses_of(flow, named(module)["t"]) == ["g, operand 0 {}"]


def test_a_loop_uses_its_operand_at_every_index():
    module = loop(CHANGES_ONE)
    flow = hlo_dataflow(module)
    assert uses_of(flow, named(module)["y"]) == ["w, operand 0 {1}"]
    assert uses_of(flow, named(module)["i"]) == ["w, operand 0 {}"]


def test_a_bitcast_is_a_use():
    module = entry("b = f32[2,2] bitcast(p)")
    assert uses_of(hlo_dataflow(module), named(module)["p"]) == ["b, operand 0 {}"]


def test_an_operand_that_is_read_twice_has_two_uses():
    module = entry("a = f32[4] add(p, p)")
    flow = hlo_dataflow(module)
    assert uses_of(flow, named(module)["p"]) == ["a, operand 0 {}", "a, operand 1 {}"]


def test_the_defining_position_comes_first():
    flow = hlo_dataflow(loop(CHANGES_ONE))
    assert [value.positions[0] for value in flow.values] == [v.defining for v in flow.values]


def test_what_the_entry_returns_is_live_out():
    text = """HloModule m
ENTRY e { p = f32[4] parameter(0)
  n = f32[4] negate(p)
  m = f32[4] negate(n)
  u = (f32[4]) tuple(m)
  ROOT t = ((f32[4]), f32[4]) tuple(u, p) }"""
    module = parse_hlo(text)
    flow = hlo_dataflow(module)
    assert sorted([v.label for v in flow.values if v.live_out]) == ["m", "p", "t{}", "u{}"]


def test_values_print_as_xla_prints_them():
    flow = hlo_dataflow(loop(CHANGES_ONE))
    texts = {value.label: str(value) for value in flow.values}
    assert texts["p"].endswith(" p @0>")
    assert texts["w{1}"].startswith("<") and texts["w{1}"].endswith(" w{1} (phi) @0>")


def test_the_colour_of_a_value_is_its_memory_space():
    module = entry("c = f32[4]{0:S(5)} copy(p)\n t = (f32[4]{0:S(5)}) tuple(c)")
    flow = hlo_dataflow(module)
    colours = {value.label: value.colour for value in flow.values}
    assert (colours["c"], colours["p"], colours["t{}"]) == (5, 0, 0)


def test_tables_take_eight_bytes_per_element():
    sizes = {value.label: value.nbytes for value in hlo_dataflow(loop(CHANGES_ONE)).values}
    assert (sizes["i{}"], sizes["p"], sizes["w{}"]) == (16, 16, 16)


def test_values_are_numbered_from_callees_to_callers_and_phis_last():
    flow = hlo_dataflow(loop(CHANGES_ONE))
    kinds = [value.is_phi for value in flow.values]
    assert kinds == sorted(kinds)
    order = [value.label for value in flow.values]
    assert order.index("n") < order.index("r.b{}") < order.index("p") < order.index("i{}")
    assert [v.label for v in flow.values if v.is_phi] == [
        *("s.c{}", "s.b{}", "s.c{1}", "s.b{1}", "w{}", "w{1}")
    ]


def test_a_chain_of_ten_thousand_passes_is_followed():
    steps = [f"t.{i} = (f32[4]) opt-barrier(t.{i - 1})" for i in range(1, 10_000)]
    module = entry("\n".join(["t.0 = (f32[4]) tuple(p)", *steps]))
    flow = hlo_dataflow(module)
    assert len(flow.value_at(named(module)["t.0"]).positions) == 10_000
    assert labels(flow, named(module)["t.9999"]) == "t.0{} p"


# -- one implementation ------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(60))
def test_both_engines_agree_on_what_is_one_value(seed):
    """Per computation, but for what is given to a callee twice: only phis see that it is one."""
    module = random_module(seed)
    flatten_call_graph(module)
    flow = hlo_dataflow(module, relabelling_defines=False)
    flow.check()
    hlo_dataflow(module, ssa=False).check()
    for computation, local in dataflow(module.entry).items():
        value_of, number_of = {}, {}
        for instruction, numbers in zip(local.nodes, local.leaves, strict=True):
            for (index, _), number in zip(instruction.shape.leaves(), numbers, strict=True):
                value = flow.value_at(instruction, index)
                assert value_of.setdefault(number, value) is value
                if value.instruction.parent is computation and not given_twice(value):
                    assert number_of.setdefault(value, number) == number


def given_twice(value):
    callers = [use.instruction for use in value.uses if use.instruction.opcode in CALLERS]
    return len(set(callers)) < len(callers)


@needs_shared
@pytest.mark.slow
def test_every_module_of_the_corpus_is_analysed():
    files = sorted(CORPUS.glob("*.xz"))
    assert files
    for file in files:
        module = parse_hlo(read_text(file))
        for ssa in (True, False):
            hlo_dataflow(module, ssa=ssa).check()
        flatten_call_graph(module)
        flow = hlo_dataflow(module)
        flow.check()
        assert all(len(found) == 1 for found in value_sets(module))
