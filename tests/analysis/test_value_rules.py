"""One small program for each rule of dataflow, aliasing and live ranges; names are the reasons."""

from itertools import pairwise
from textwrap import dedent

import pytest

from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import InvalidModuleError
from lowtide.verifier import verify
from lowtide.xla.analysis.computation_kind import computation_kinds
from lowtide.xla.analysis.hlo_alias import hlo_alias_analysis
from lowtide.xla.analysis.hlo_dataflow import hlo_dataflow
from lowtide.xla.analysis.hlo_live_range import hlo_live_range
from lowtide.xla.analysis.ordering import DependencyOrdering, SequentialOrdering


class Program:
    """A module, its instructions by name, and what the analyses say of them."""

    def __init__(self, entry, others="", header=""):
        text = f"HloModule m{header}\n\n{dedent(others)}\nENTRY e {{\n{dedent(entry)}}}\n"
        self.module = parse_hlo(text)
        verify(self.module)
        self.by_name = {
            x.name: x for c in self.module.computations.values() for x in c.instructions.values()
        }
        self.dataflow = hlo_dataflow(self.module)
        self.dataflow.check()
        self.alias = hlo_alias_analysis(self.module, self.dataflow)

    def __getitem__(self, name):
        return self.by_name[name]

    def value(self, name, *index):
        return self.dataflow.value_at(self[name], index)

    def defines(self, name):
        """Return the indices at which an instruction defines values."""
        return [value.index for value in self.dataflow.defined_by(self[name])]

    def one_buffer(self, *places):
        """Whether places, given as a name or (name, index...), lie in one buffer."""
        found = set()
        for place in places:
            name, *index = (place,) if isinstance(place, str) else place
            found.add(self.alias.unique_buffer_at(self[name], tuple(index)))
        return len(found) == 1

    def range_of(self, name, *index):
        """Return the first and the last time of a value."""
        bound = hlo_live_range(self.module, self.alias).ranges[self.value(name, *index)]
        return bound.start, bound.end


SCHEDULED = ", is_scheduled=true"
ADD = "add { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT s = f32[] add(x, y) }\n"

# -- which instructions define values ----------------------------------------------------------


def test_what_only_renames_defines_nothing():
    program = Program("""
        p = f32[4] parameter(0)
        q = f32[4] parameter(1)
        cast = f32[2,2] bitcast(p)
        ready = token[] after-all()
        later = f32[4] add-dependency(p, ready)
        pair = (f32[4], f32[4]) tuple(p, q)
        kept = (f32[4], f32[4]) opt-barrier(pair)
        ROOT second = f32[4] get-tuple-element(kept), index=1
    """)
    assert [program.defines(x) for x in ("cast", "later", "kept", "second")] == [[], [], [], []]
    assert program.value("cast") is program.value("p") is program.value("later")
    assert program.value("kept", 1) is program.value("q") is program.value("second")


def test_a_tuple_and_a_copy_of_one_define_the_table_only():
    program = Program("""
        p = f32[4] parameter(0)
        inner = (f32[4]) tuple(p)
        outer = ((f32[4]), f32[4]) tuple(inner, p)
        ROOT shallow = ((f32[4]), f32[4]) copy(outer)
    """)
    assert program.defines("outer") == program.defines("shallow") == [()]
    assert program.value("shallow", 0, 0) is program.value("p")
    assert program.value("shallow", 0) is program.value("inner")


def test_an_entry_argument_defines_all_and_a_callees_argument_nothing():
    program = Program(
        """
        p = (f32[4], f32[4]) parameter(0)
        q = f32[4] get-tuple-element(p), index=1
        ROOT called = f32[4] call(q), to_apply=callee
        """,
        """
        callee {
          x = f32[4] parameter(0)
          ROOT negated = f32[4] negate(x)
        }
        """,
    )
    assert program.defines("p") == [(), (0,), (1,)]
    assert program.defines("x") == program.defines("called") == []
    assert program.value("x") is program.value("p", 1)
    assert program.value("called") is program.value("negated")


@pytest.mark.parametrize(
    ("step", "phis"),
    [
        ("tuple(next, x, y)", [(0,)]),
        ("tuple(next, y, x)", [(0,), (1,), (2,)]),
        ("tuple(next, x, x)", [(0,), (2,)]),
        ("tuple(i, x, y)", []),
    ],
)
def test_a_loop_has_phis_for_what_it_changes_and_none_for_what_it_passes_on(step, phis):
    program = Program(LOOP_ENTRY, loop(step))
    for name in ("loop", "state", "before"):
        assert program.defines(name) == [(), *phis]
        assert all(program.dataflow.defined_at(program[name], x).is_phi for x in phis)


def loop(step):
    return f"""
        condition {{
          before = (s32[], f32[4], f32[4]) parameter(0)
          count = s32[] get-tuple-element(before), index=0
          limit = s32[] constant(3)
          ROOT less = pred[] compare(count, limit), direction=LT
        }}
        body {{
          state = (s32[], f32[4], f32[4]) parameter(0)
          i = s32[] get-tuple-element(state), index=0
          x = f32[4] get-tuple-element(state), index=1
          y = f32[4] get-tuple-element(state), index=2
          one = s32[] constant(1)
          next = s32[] add(i, one)
          ROOT stepped = (s32[], f32[4], f32[4]) {step}
        }}
    """


LOOP_ENTRY = """
    zero = s32[] constant(0)
    p = f32[4] parameter(0)
    q = f32[4] parameter(1)
    init = (s32[], f32[4], f32[4]) tuple(zero, p, q)
    ROOT loop = (s32[], f32[4], f32[4]) while(init), condition=condition, body=body
"""

STATES = ("init", "before", "state", "stepped", "loop")

CHOICE = """
    c = pred[] parameter(0)
    p = f32[4] parameter(1)
    sine = f32[4] sine(p)
    operand = (f32[4], f32[4]) tuple(p, sine)
    ROOT chosen = (f32[4], f32[4]) conditional(c, operand, operand), true_computation=taken, \
false_computation=left
"""


def branches(left):
    return f"""
        taken {{
          a = (f32[4], f32[4]) parameter(0)
          a0 = f32[4] get-tuple-element(a), index=0
          a1 = f32[4] get-tuple-element(a), index=1
          ROOT ra = (f32[4], f32[4]) tuple(a0, a1)
        }}
        left {{
          b = (f32[4], f32[4]) parameter(0)
          b0 = f32[4] get-tuple-element(b), index=0
          b1 = f32[4] get-tuple-element(b), index=1
          negated = f32[4] negate(b0)
          ROOT rb = (f32[4], f32[4]) tuple({left})
        }}
    """


def test_a_conditional_has_phis_where_its_branches_differ():
    program = Program(CHOICE, branches("negated, b1"))
    assert program.defines("chosen") == [(), (0,)]
    assert program.dataflow.defined_at(program["chosen"], (0,)).is_phi
    assert program.value("chosen", 1) is program.value("sine")


def test_a_conditional_whose_branches_agree_has_no_phi_for_elements():
    program = Program(CHOICE, branches("b0, b1"))
    assert program.value("chosen", 0) is program.value("p")
    assert program.value("chosen", 1) is program.value("sine")


def test_an_asynchronous_copy_forwards_its_source_and_makes_a_destination():
    program = Program("""
        p = f32[4] parameter(0)
        start = (f32[4], f32[4], u32[]) copy-start(p)
        ROOT done = f32[4] copy-done(start)
    """)
    assert program.defines("start") == [(), (0,), (2,)]
    assert program.value("start", 1) is program.value("p")
    assert program.value("done") is program.value("start", 0)


def test_an_asynchronous_call_forwards_operands_and_the_result_of_its_computation():
    program = Program(
        """
        p = f32[4] parameter(0)
        start = ((f32[4]), f32[4], s32[]) async-start(p), calls=task
        ROOT done = f32[4] async-done(start)
        """,
        """
        task {
          x = f32[4] parameter(0)
          sine = f32[4] sine(x)
          ROOT cosine = f32[4] cosine(sine)
        }
        """,
    )
    assert program.defines("start") == [(), (0,), (2,)]
    assert program.defines("done") == []
    assert program.value("start", 0, 0) is program.value("p")
    assert program.value("done") is program.value("start", 1) is program.value("cosine")


def test_an_all_gather_defines_what_it_gathers_and_forwards_its_operand():
    program = Program("""
        p = f32[4] parameter(0)
        start = (f32[4], f32[8]) all-gather-start(p), dimensions={0}, replica_groups={{0,1}}
        ROOT done = f32[8] all-gather-done(start)
    """)
    assert program.defines("start") == [(), (1,)]
    assert program.value("start", 0) is program.value("p")
    assert program.value("done") is program.value("start", 1)


def test_an_all_reduce_defines_a_value_which_its_end_forwards():
    program = Program(
        """
        p = f32[4] parameter(0)
        start = f32[4] all-reduce-start(p), to_apply=add
        ROOT done = f32[4] all-reduce-done(start)
        """,
        ADD,
    )
    assert program.defines("start") == [()]
    assert program.value("done") is program.value("start")


def test_a_collective_permute_forwards_its_source_and_makes_a_destination():
    program = Program("""
        p = f32[4] parameter(0)
        start = (f32[4], f32[4]) collective-permute-start(p), source_target_pairs={{0,1}}
        ROOT done = f32[4] collective-permute-done(start)
    """)
    assert program.defines("start") == [(), (1,)]
    assert program.value("done") is program.value("start", 1)


def test_a_send_forwards_its_operand_and_a_receive_what_it_received():
    program = Program("""
        p = f32[4] parameter(0)
        ready = token[] after-all()
        send = (f32[4], u32[], token[]) send(p, ready), channel_id=1
        sent = token[] send-done(send), channel_id=1
        recv = (f32[4], u32[], token[]) recv(ready), channel_id=2
        received = (f32[4], token[]) recv-done(recv), channel_id=2
        ROOT result = f32[4] get-tuple-element(received), index=0
    """)
    assert program.value("send", 0) is program.value("p")
    assert program.value("result") is program.value("recv", 0)
    assert program.defines("received") == [(), (1,)]


# -- which values lie in one buffer ------------------------------------------------------------


@pytest.mark.parametrize("kind", ["may-alias", "must-alias"])
def test_an_output_lies_in_the_argument_that_it_overwrites(kind):
    program = Program(
        """
        p = f32[4] parameter(0)
        ROOT sine = f32[4] sine(p)
        """,
        header=f", input_output_alias={{ {{}}: (0, {{}}, {kind}) }}",
    )
    assert program.one_buffer("p", "sine")


def test_the_state_of_a_loop_lies_in_one_place():
    program = Program(LOOP_ENTRY, loop("tuple(next, y, y)"))
    assert program.one_buffer("next", *[(x, 0) for x in STATES])
    assert program.one_buffer("p", "q", *[(x, i) for x in STATES for i in (1, 2)])
    assert not program.one_buffer(("loop", 0), ("loop", 2))


def test_results_of_branches_lie_where_the_result_of_the_conditional_does():
    program = Program(CHOICE, branches("negated, b1"))
    assert program.one_buffer(("chosen", 0), "negated", "p")
    assert not program.one_buffer(("chosen", 1), "negated")


IN_PLACE = {
    "dynamic-update-slice": "d = f32[4] dynamic-update-slice(b, u, k)",
    "scatter": "d = f32[4] scatter(b, i, u), to_apply=add, update_window_dims={}, "
    "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1",
    "all-reduce-start": "d = f32[4] all-reduce-start(b), to_apply=add",
    "custom-call": 'd = f32[4] custom-call(b), custom_call_target="Sharding", '
    "output_to_operand_aliasing={{}: (0, {})}",
    "fusion": "d = f32[4] fusion(b, u, k), kind=kLoop, calls=updated",
    "fusion of a fusion": "d = f32[4] fusion(b, u, k), kind=kLoop, calls=nested",
    "fusion through a bitcast": "d = f32[2,2] fusion(b, u, k), kind=kLoop, calls=cast",
    "fusion that declares it": "d = f32[4] fusion(b), kind=kLoop, calls=reversed, "
    "output_to_operand_aliasing={{}: (0, {})}",
}
NOT_IN_PLACE = {
    "elementwise": "d = f32[4] cosine(b)",
    "copy": "d = f32[4] copy(b)",
    "sort": "d = f32[4] sort(b), dimensions={0}, to_apply=less",
    "fusion": "d = f32[4] fusion(b), kind=kLoop, calls=reversed",
    "custom-call": 'd = f32[4] custom-call(b), custom_call_target="Sharding"',
}
CALLED = """
    add { x = f32[] parameter(0)
      y = f32[] parameter(1)
      ROOT s = f32[] add(x, y) }
    less { v = f32[] parameter(0)
      w = f32[] parameter(1)
      ROOT l = pred[] compare(v, w), direction=LT }
    reversed { f = f32[4] parameter(0)
      ROOT r = f32[4] reverse(f), dimensions={0} }
    updated { t = f32[4] parameter(0)
      part = f32[1] parameter(1)
      at = s32[] parameter(2)
      ROOT written = f32[4] dynamic-update-slice(t, part, at) }
    cast { t2 = f32[4] parameter(0)
      part2 = f32[1] parameter(1)
      at2 = s32[] parameter(2)
      written2 = f32[4] dynamic-update-slice(t2, part2, at2)
      ROOT square = f32[2,2] bitcast(written2) }
    inner { t3 = f32[4] parameter(0)
      part3 = f32[1] parameter(1)
      at3 = s32[] parameter(2)
      ROOT written3 = f32[4] dynamic-update-slice(t3, part3, at3) }
    nested { t4 = f32[4] parameter(0)
      part4 = f32[1] parameter(1)
      at4 = s32[] parameter(2)
      ROOT again = f32[4] fusion(t4, part4, at4), kind=kLoop, calls=inner }
"""


def in_place_program(line):
    lines = [
        "p = f32[4] parameter(0)",
        "u = f32[1] parameter(1)",
        "k = s32[] parameter(2)",
        "i = s32[1,1] parameter(3)",
        "b = f32[4] sine(p)",
        f"ROOT {line}",
    ]
    return Program("\n".join(lines) + "\n", CALLED)


@pytest.mark.parametrize("name", IN_PLACE)
def test_what_is_written_in_place_lies_in_the_operands_buffer(name):
    program = in_place_program(IN_PLACE[name])
    assert program.one_buffer("b", "d")
    assert not program.one_buffer("b", "p")


@pytest.mark.parametrize("name", NOT_IN_PLACE)
def test_what_only_may_share_a_buffer_has_one_of_its_own(name):
    assert not in_place_program(NOT_IN_PLACE[name]).one_buffer("b", "d")


# -- what happens before what ------------------------------------------------------------------

DIAMOND = """
    p = f32[4] parameter(0)
    negated = f32[4] negate(p)
    exponential = f32[4] exponential(p)
    ROOT sum = f32[4] add(negated, exponential)
"""


def test_more_parallel_orders_let_more_values_interfere():
    program = Program(DIAMOND, header=SCHEDULED)
    p, exponential = program.value("p"), program.value("exponential")
    assert DependencyOrdering(program.module).may_interfere(p, exponential)
    assert not SequentialOrdering(program.module).may_interfere(p, exponential)
    assert SequentialOrdering(program.module).may_interfere(p, program.value("negated"))


def test_control_dependencies_order_what_data_does_not():
    entry = DIAMOND.replace("exponential(p)", "exponential(p), control-predecessors={negated}")
    program = Program(entry)
    ordering = DependencyOrdering(program.module)
    assert ordering.executes_before(program["negated"], program["exponential"])
    assert not ordering.may_interfere(program.value("p"), program.value("exponential"))


def test_an_elementwise_result_may_follow_its_operand_and_a_reversal_may_not():
    program = Program("""
        p = f32[4] parameter(0)
        sine = f32[4] sine(p)
        cosine = f32[4] cosine(sine)
        ROOT reverse = f32[4] reverse(cosine), dimensions={0}
    """)
    ordering = DependencyOrdering(program.module)
    assert ordering.live_range_strictly_before(program.value("sine"), program.value("cosine"))
    assert ordering.may_interfere(program.value("cosine"), program.value("reverse"))


def test_a_condition_runs_before_its_body_and_the_loop_after_both():
    program = Program(LOOP_ENTRY, loop("tuple(next, x, y)"))
    ordering = DependencyOrdering(program.module)
    assert ordering.executes_before(program["less"], program["next"])
    assert ordering.executes_before(program["next"], program["loop"])
    assert ordering.executes_before(program["init"], program["less"])
    assert not ordering.executes_before(program["next"], program["less"])


def test_what_starts_a_loop_is_over_when_its_state_is_there():
    program = Program(
        LOOP_ENTRY.replace("p = f32", "p0 = f32").replace(
            "q = f32[4] parameter(1)", "q = f32[4] parameter(1)\n    p = f32[4] sine(p0)"
        ),
        loop("tuple(next, y, y)"),
    )
    ordering = DependencyOrdering(program.module)
    state = program.dataflow.defined_at(program["state"], (1,))
    assert ordering.live_range_strictly_before(program.value("p"), state)


def test_branches_exclude_each_other():
    program = Program(
        CHOICE,
        branches("negated, b1").replace(
            "ROOT ra = (f32[4], f32[4]) tuple(a0, a1)",
            "other = f32[4] cosine(a0)\n          ROOT ra = (f32[4], f32[4]) tuple(other, a1)",
        ),
    )
    ordering = DependencyOrdering(program.module)
    constraint = ordering.execution_constraint(program["other"], program["negated"])
    assert constraint == "exclusive before"
    assert ordering.execution_constraint(program["negated"], program["other"]) == "exclusive after"
    assert not ordering.may_interfere(program.value("other"), program.value("negated"))


def test_two_callees_are_ordered_as_their_callers_are():
    program = Program(
        """
        p = f32[4] parameter(0)
        first = f32[4] call(p), to_apply=one
        ROOT second = f32[4] call(first), to_apply=two
        """,
        """
        one { x = f32[4] parameter(0)
          ROOT negated = f32[4] negate(x) }
        two { y = f32[4] parameter(0)
          ROOT sine = f32[4] sine(y) }
        """,
    )
    ordering = DependencyOrdering(program.module)
    assert ordering.executes_before(program["negated"], program["sine"])
    assert ordering.execution_constraint(program["sine"], program["negated"]) == "after"


# -- live ranges -------------------------------------------------------------------------------


def test_a_range_includes_definition_and_last_use():
    program = Program(
        """
        p = f32[4] parameter(0)
        a = f32[4] sine(p)
        b = f32[4] cosine(a)
        c = f32[4] negate(b)
        ROOT d = f32[4] add(a, c)
        """,
        header=SCHEDULED,
    )
    assert program.range_of("a") == (1, 4)
    assert program.range_of("b") == (2, 3)
    assert program.range_of("d") == (4, 5)


def test_an_argument_that_is_not_given_away_is_live_to_the_end():
    entry = """
        p = f32[4] parameter(0)
        a = f32[4] sine(p)
        ROOT b = f32[4] cosine(a)
    """
    assert Program(entry, header=SCHEDULED).range_of("p") == (0, 3)
    given = SCHEDULED + ", input_output_alias={ {}: (0, {}, may-alias) }"
    program = Program(entry, header=given)
    assert program.range_of("p") == (0, 1)
    assert program.range_of("b") == (2, 3)


def test_a_constant_is_live_to_its_last_use():
    program = Program(
        """
        one = f32[] constant(1)
        p = f32[] parameter(0)
        a = f32[] add(p, one)
        ROOT b = f32[] negate(a)
        """,
        header=SCHEDULED,
    )
    assert program.range_of("one") == (0, 2)


def test_a_callee_stands_before_its_caller():
    program = Program(
        """
        p = f32[4] parameter(0)
        a = f32[4] sine(p)
        ROOT called = f32[4] call(a), to_apply=callee
        """,
        """
        callee {
          x = f32[4] parameter(0)
          ROOT negated = f32[4] negate(x)
        }
        """,
        SCHEDULED,
    )
    names = [x.name for x in hlo_live_range(program.module, program.alias).sequence.instructions]
    assert names == ["p", "a", "x", "negated", "called"]
    assert program.range_of("a") == (1, 3)
    assert program.range_of("negated") == (3, 5)


def test_a_condition_stands_before_its_body_and_the_state_is_live_throughout():
    program = Program(LOOP_ENTRY, loop("tuple(next, x, y)"), SCHEDULED)
    live = hlo_live_range(program.module, program.alias)
    order = [live.time_of(program[x]) for x in ("init", "before", "less", "state", "next", "loop")]
    assert order == sorted(order)
    buffer = program.alias.unique_buffer_at(program["loop"], (0,))
    held = sorted([(live.ranges[x].start, live.ranges[x].end) for x in buffer.values])
    assert all(before[1] <= after[0] for before, after in pairwise(held))
    assert held[0][0] == live.time_of(program["zero"])
    assert held[-1][1] == live.end


def test_the_peak_is_the_earliest_time_of_most_bytes():
    program = Program(
        """
        p = f32[4] parameter(0)
        wide = f32[100] broadcast(p), dimensions={}
        ROOT sum = f32[100] negate(wide)
        """.replace("broadcast(p), dimensions={}", 'custom-call(p), custom_call_target="c"'),
        header=SCHEDULED,
    )
    live = hlo_live_range(program.module, program.alias)
    assert live.peak_moment == 2
    assert live.profile[2] == 816


# -- kinds of computations ---------------------------------------------------------------------


def test_what_control_flow_runs_is_global_and_what_is_applied_per_element_is_not():
    program = Program(
        """
        p = f32[4] parameter(0)
        zero = f32[] constant(0)
        r = f32[] reduce(p, zero), dimensions={0}, to_apply=add
        ROOT c = f32[] call(r), to_apply=callee
        """,
        ADD + "callee { n = f32[] parameter(0)\n ROOT neg = f32[] negate(n) }\n",
    )
    kinds = computation_kinds(program.module)
    assert [x.name for x in kinds.global_computations] == ["callee", "e"]
    assert [x.name for x in kinds.thread_local] == ["add"]


def test_no_computation_is_of_both_kinds():
    program = Program(
        """
        p = f32[4] parameter(0)
        zero = f32[] constant(0)
        r = f32[] reduce(p, zero), dimensions={0}, to_apply=add
        ROOT c = f32[] call(r, zero), to_apply=add
        """,
        ADD,
    )
    with pytest.raises(InvalidModuleError, match="add"):
        computation_kinds(program.module)
