"""One small case for each rule of orderings; the name of a test says the rule."""

import itertools

import pytest

from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import InvalidModuleError, LowtideError, Schedule
from lowtide.ir.schedule import PartialOrder
from lowtide.ir.traversal import post_order
from lowtide.xla.analysis.execution_order import Constraint
from lowtide.xla.analysis.hlo_dataflow import hlo_dataflow
from lowtide.xla.analysis.ordering import (
    DependencyOrdering,
    PredecessorOrdering,
    SequentialOrdering,
    to_partial_order,
)
from lowtide.xla.analysis.partial_liveness import interference


class Case:
    """A module with its values and instructions by name."""

    def __init__(self, text, *, scheduled=False):
        self.module = parse_hlo(text)
        self.instructions = {
            x.name: x for c in self.module.computations.values() for x in c.instructions.values()
        }
        self.flow = hlo_dataflow(self.module)
        self.values = {value.label: value for value in self.flow.values}
        if scheduled:
            self.module.schedule = Schedule(
                {c: tuple(c.instructions.values()) for c in self.module.computations.values()}
            )

    def of(self, *names):
        return [self.instructions[name] for name in names]

    def interfere(self, ordering, first, second):
        return ordering.may_interfere(self.values[first], self.values[second])

    def before(self, ordering, first, second):
        return ordering.live_range_strictly_before(self.values[first], self.values[second])


DIAMOND = """HloModule m
ENTRY e {
  p = f32[8] parameter(0)
  x = f32[8] cosine(p)
  a = f32[8] negate(x)
  b = f32[8] exponential(x)
  ROOT r = f32[8] add(a, b)
}"""

LOOP = """HloModule m
condition {
  c.p = (s32[], f32[8]) parameter(0)
  c.i = s32[] get-tuple-element(c.p), index=0
  c.limit = s32[] constant(3)
  ROOT c.less = pred[] compare(c.i, c.limit), direction=LT
}
body {
  b.p = (s32[], f32[8]) parameter(0)
  b.i = s32[] get-tuple-element(b.p), index=0
  b.x = f32[8] get-tuple-element(b.p), index=1
  b.one = s32[] constant(1)
  b.next = s32[] add(b.i, b.one)
  b.sine = f32[8] sine(b.x)
  b.new = f32[8] RESULT
  ROOT b.r = (s32[], f32[8]) tuple(b.next, b.new)
}
ENTRY e {
  p = f32[8] parameter(0)
  zero = s32[] constant(0)
  x = f32[8] negate(p)
  before = f32[8] cosine(p)
  init = (s32[], f32[8]) tuple(zero, x)
  w = (s32[], f32[8]) while(init), condition=condition, body=body
  after = f32[8] get-tuple-element(w), index=1
  ROOT r = f32[8] add(after, before)
}"""

BRANCHES = """HloModule m
first {
  f.p = f32[8] parameter(0)
  f.a = f32[8] negate(f.p)
  ROOT f.b = f32[8] sine(f.a)
}
second {
  s.p = f32[8] parameter(0)
  s.a = f32[8] cosine(s.p)
  ROOT s.b = f32[8] add(s.a, s.p)
}
ENTRY e {
  which = pred[] parameter(0)
  p = f32[8] parameter(1)
  x = f32[8] exponential(p)
  y = f32[8] tanh(p)
  c = f32[8] conditional(which, x, x), true_computation=first, false_computation=second
  ROOT r = f32[8] add(c, y)
}"""

ASYNC = """HloModule m
wrapped {
  w.p = f32[8] parameter(0)
  w.a = f32[8] negate(w.p)
  ROOT w.b = f32[8] sine(w.a)
}
ENTRY e {
  p = f32[8] parameter(0)
  x = f32[8] exponential(p)
  s = ((f32[8]), f32[8], s32[]) async-start(x), calls=wrapped
  y = f32[8] cosine(p)
  z = f32[8] tanh(y)
  d = f32[8] async-done(s)
  ROOT r = f32[8] add(d, z)
}"""


def loop(result="cosine(b.x)"):
    return Case(LOOP.replace("RESULT", result), scheduled=True)


# -- one computation ---------------------------------------------------------------------------


def test_unordered_users_keep_their_operand_alive_under_dependencies():
    case = Case(DIAMOND)
    ordering = DependencyOrdering(case.module)
    assert case.interfere(ordering, "x", "a")
    assert case.interfere(ordering, "x", "b")


def test_the_last_user_may_take_over_its_operand_under_a_total_order():
    case = Case(DIAMOND, scheduled=True)
    ordering = SequentialOrdering(case.module)
    assert case.interfere(ordering, "x", "a")
    assert case.before(ordering, "x", "b")


def test_control_edge_orders_what_dependencies_leave_open():
    case = Case(DIAMOND.replace("exponential(x)", "exponential(x), control-predecessors={a}"))
    ordering = DependencyOrdering(case.module)
    assert case.before(ordering, "x", "b")
    assert ordering.executes_before(*case.of("a", "b"))


def test_given_predecessors_order_what_dependencies_leave_open():
    case = Case(DIAMOND)
    dependency = DependencyOrdering(case.module)
    entry = case.module.entry
    p, x, a, b, _ = entry.instructions.values()
    assert case.interfere(dependency, "x", "b")
    order = to_partial_order(dependency, entry)
    order = PartialOrder(entry, {**order.predecessors, b: (x, a)})
    ordering = PredecessorOrdering(case.module, order)
    assert case.before(ordering, "x", "b")
    assert ordering.sequential_order(entry) is None
    assert not ordering.executes_before(b, a)
    assert not ordering.executes_before(p, p)


def test_elementwise_result_may_take_over_its_operand_but_that_of_a_dot_may_not():
    text = DIAMOND.replace("f32[8]", "f32[8,8]").replace("exponential(x)", "FORM")
    dims = ", lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    for form, over in (("sine(x)", True), (f"dot(x, a){dims}", False)):
        case = Case(text.replace("FORM", form), scheduled=True)
        assert case.before(SequentialOrdering(case.module), "x", "b") is over


def test_copy_does_not_take_over_its_operand():
    case = Case(DIAMOND.replace("exponential", "copy"), scheduled=True)
    assert case.interfere(SequentialOrdering(case.module), "x", "b")


def test_entry_arguments_come_before_all_wherever_they_are_scheduled():
    text = """HloModule m, is_scheduled=true
ENTRY e {
  a = f32[8] constant({1,2,3,4,5,6,7,8})
  b = f32[8] negate(a)
  p = f32[8] parameter(0)
  ROOT r = f32[8] add(b, p)
}"""
    case = Case(text)
    ordering = SequentialOrdering(case.module)
    assert ordering.is_defined_before(case.values["p"], case.values["b"])
    assert not ordering.is_defined_before(case.values["b"], case.values["p"])
    assert case.interfere(ordering, "p", "b")


def test_value_that_leaves_the_program_interferes_with_all_that_follows():
    text = """HloModule m, is_scheduled=true
ENTRY e {
  p = f32[8] parameter(0)
  a = f32[8] negate(p)
  b = f32[8] sine(p)
  c = f32[8] cosine(b)
  ROOT r = (f32[8], f32[8]) tuple(a, c)
}"""
    case = Case(text)
    ordering = SequentialOrdering(case.module)
    assert case.interfere(ordering, "a", "c")
    assert case.before(ordering, "b", "c")


def test_value_without_uses_ends_where_it_is_made():
    text = DIAMOND.replace("ROOT", "  dead = f32[8] sine(p)\n  ROOT")
    case = Case(text, scheduled=True)
    ordering = SequentialOrdering(case.module)
    assert case.before(ordering, "dead", "r")
    assert case.interfere(DependencyOrdering(case.module), "dead", "r")


def test_results_of_one_instruction_interfere():
    text = """HloModule m, is_scheduled=true
less {
  k = f32[] parameter(0)
  l = f32[] parameter(1)
  m = f32[] parameter(2)
  n = f32[] parameter(3)
  ROOT o = pred[] compare(k, l), direction=LT
}
ENTRY e {
  p = f32[8] parameter(0)
  q = f32[8] parameter(1)
  s = (f32[8], f32[8]) sort(p, q), dimensions={0}, to_apply=less
  ROOT a = f32[8] get-tuple-element(s), index=0
}"""
    case = Case(text)
    ordering = SequentialOrdering(case.module)
    assert case.interfere(ordering, "s{0}", "s{1}")


def test_no_value_interferes_with_itself():
    case = Case(DIAMOND)
    ordering = DependencyOrdering(case.module)
    assert not any(ordering.may_interfere(value, value) for value in case.flow.values)


# -- loops -------------------------------------------------------------------------------------


def test_condition_runs_before_body_and_both_before_the_end_of_the_loop():
    case = loop()
    for ordering in (DependencyOrdering(case.module), SequentialOrdering(case.module)):
        less, sine, w = case.of("c.less", "b.sine", "w")
        constraint = ordering.execution_constraint
        assert constraint(less, sine) is Constraint.BEFORE_START
        assert constraint(sine, less) is Constraint.AFTER
        assert constraint(sine, w) is Constraint.BEFORE_END
        assert constraint(w, sine) is Constraint.AFTER
        assert constraint(w, w) is Constraint.SAME


def test_instructions_within_a_loop_stand_where_the_loop_stands():
    case = loop()
    dependency, sequential = DependencyOrdering(case.module), SequentialOrdering(case.module)
    x, before, sine, r = case.of("x", "before", "b.sine", "r")
    assert dependency.execution_constraint(x, sine) is Constraint.BEFORE_START
    assert dependency.execution_constraint(sine, r) is Constraint.BEFORE_START
    assert dependency.execution_constraint(before, sine) is Constraint.UNORDERED
    assert sequential.execution_constraint(before, sine) is Constraint.BEFORE_START


def test_what_a_loop_is_given_ends_where_its_state_begins():
    case = loop()
    ordering = DependencyOrdering(case.module)
    for name in ("b.p{1}", "c.p{1}", "b.sine", "w{1}"):
        assert case.before(ordering, "x", name), name


def test_state_of_a_loop_is_there_before_all_that_the_body_makes():
    case = loop()
    for ordering in (DependencyOrdering(case.module), SequentialOrdering(case.module)):
        state, one = case.values["b.p{1}"], case.values["b.one"]
        assert ordering.is_defined_before(state, one)
        assert not ordering.is_defined_before(one, state)


def test_state_of_a_loop_may_be_replaced_where_it_is_read_last():
    case = loop("cosine(b.x)")
    assert case.before(SequentialOrdering(case.module), "b.p{1}", "b.new")
    assert case.interfere(SequentialOrdering(case.module), "b.p{1}", "b.sine")
    assert case.interfere(DependencyOrdering(case.module), "b.p{1}", "b.new")


def test_result_of_a_body_is_needed_to_its_end():
    text = LOOP.replace("RESULT", "negate(b.sine)").replace(
        "ROOT b.r", "b.late = f32[8] tanh(b.sine)\n  ROOT b.r"
    )
    case = Case(text, scheduled=True)
    ordering = SequentialOrdering(case.module)
    assert case.interfere(ordering, "b.new", "b.late")
    assert case.before(ordering, "b.sine", "b.late")


def test_result_of_a_loop_comes_after_all_that_the_loop_makes():
    case = loop()
    ordering = DependencyOrdering(case.module)
    for name in ("b.p{1}", "b.new", "b.sine", "c.less"):
        assert case.before(ordering, name, "w{1}"), name


def test_state_of_a_loop_is_needed_while_the_condition_runs_that_does_not_read_it():
    case = loop()
    for ordering in (DependencyOrdering(case.module), SequentialOrdering(case.module)):
        for name in ("c.limit", "c.less"):
            assert case.interfere(ordering, "c.p{1}", name), name
            assert not case.interfere(ordering, "b.p{1}", name), name


def test_value_that_a_loop_only_passes_on_is_needed_while_the_condition_runs_again():
    case = loop()
    unchanged = Case(
        LOOP.replace("tuple(b.next, b.new)", "tuple(b.next, b.x)").replace(
            "b.new = f32[8] RESULT", "b.new = f32[8] tanh(b.sine)"
        ),
        scheduled=True,
    )
    assert "b.p{1}" in case.values
    assert "b.p{1}" not in unchanged.values
    for ordering in (DependencyOrdering(unchanged.module), SequentialOrdering(unchanged.module)):
        for name in ("c.less", "c.limit", "b.sine", "b.new"):
            assert unchanged.interfere(ordering, "x", name), name


# -- branches, calls, asynchronous computations ------------------------------------------------


def test_branches_exclude_each_other():
    case = Case(BRANCHES)
    ordering = DependencyOrdering(case.module)
    early, late = case.of("f.a", "s.a")
    assert ordering.execution_constraint(early, late) is Constraint.EXCLUSIVE_BEFORE
    assert ordering.execution_constraint(late, early) is Constraint.EXCLUSIVE_AFTER
    assert ordering.executes_before(early, late)
    assert not ordering.executes_before(late, early)
    for a, b in itertools.product(("f.a", "f.b"), ("s.a", "s.b")):
        assert not case.interfere(ordering, a, b)


def test_value_read_in_one_branch_may_be_replaced_in_another():
    case = Case(BRANCHES)
    ordering = DependencyOrdering(case.module)
    assert case.before(ordering, "x", "f.a")
    assert case.interfere(ordering, "x", "s.a")
    assert case.before(ordering, "x", "s.b")


def test_what_a_conditional_is_given_ends_where_its_result_begins():
    case = Case(BRANCHES)
    ordering = DependencyOrdering(case.module)
    assert case.before(ordering, "which", "c")
    assert case.before(ordering, "x", "c")
    assert case.before(ordering, "f.b", "c")


def test_value_read_after_a_conditional_is_kept_in_its_branches():
    case = Case(BRANCHES, scheduled=True)
    ordering = SequentialOrdering(case.module)
    assert all(case.interfere(ordering, "y", name) for name in ("f.a", "f.b", "s.a", "s.b", "c"))


def test_value_read_by_a_callee_ends_where_the_callee_reads_it_last():
    text = """HloModule m
callee {
  k.p = f32[8] parameter(0)
  k.a = f32[8] sine(k.p)
  ROOT k.b = f32[8] cosine(k.a)
}
ENTRY e {
  p = f32[8] parameter(0)
  x = f32[8] negate(p)
  ROOT r = f32[8] call(x), to_apply=callee
}"""
    case = Case(text)
    ordering = DependencyOrdering(case.module)
    assert case.before(ordering, "x", "k.a")
    assert case.before(ordering, "x", "k.b")
    again = Case(text.replace("cosine(k.a)", "add(k.a, k.p)"))
    assert again.interfere(DependencyOrdering(again.module), "x", "k.a")


def test_asynchronous_computation_runs_at_any_time_until_it_is_done():
    case = Case(ASYNC, scheduled=True)
    for ordering in (DependencyOrdering(case.module), SequentialOrdering(case.module)):
        inner, start, y, done = case.of("w.a", "s", "y", "d")
        constraint = ordering.execution_constraint
        assert constraint(start, inner) is Constraint.BEFORE_START
        assert constraint(inner, done) is Constraint.BEFORE_START
        assert constraint(done, inner) is Constraint.AFTER
        assert constraint(inner, y) is Constraint.UNORDERED
        assert case.interfere(ordering, "w.a", "y")
        assert case.interfere(ordering, "x", "y")
        assert case.before(ordering, "w.a", "r")


# -- several orderings, and errors -------------------------------------------------------------


def test_total_order_as_a_partial_order_says_the_same():
    case = loop()
    sequential = SequentialOrdering(case.module)
    orders = [to_partial_order(sequential, c) for c in sequential.tree.computations]
    again = PredecessorOrdering(case.module, *orders)
    values = case.flow.values
    expected = interference(sequential, values).rows
    assert (interference(again, values).rows == expected).all()
    assert sequential.sequential_order(case.module.entry) == tuple(
        case.module.entry.instructions.values()
    )


def test_several_call_sites_are_refused_by_name():
    text = """HloModule m
callee {
  k.p = f32[8] parameter(0)
  ROOT k.a = f32[8] sine(k.p)
}
ENTRY e {
  p = f32[8] parameter(0)
  x = f32[8] call(p), to_apply=callee
  ROOT r = f32[8] call(x), to_apply=callee
}"""
    case = Case(text)
    ordering = DependencyOrdering(case.module)
    inner, x = case.of("k.a", "x")
    with pytest.raises(LowtideError, match=r"%callee is called 2 times \(%x, %r\).*flatten"):
        ordering.executes_before(inner, x)
    with pytest.raises(LowtideError, match="flatten the call graph first"):
        interference(ordering, case.flow.values)


def test_computations_of_kernels_have_no_place_in_the_order():
    text = """HloModule m
sum {
  k = f32[] parameter(0)
  l = f32[] parameter(1)
  ROOT o = f32[] add(k, l)
}
ENTRY e {
  p = f32[8] parameter(0)
  z = f32[] constant(0)
  ROOT r = f32[] reduce(p, z), dimensions={0}, to_apply=sum
}"""
    case = Case(text)
    with pytest.raises(LowtideError, match="%sum runs inside a kernel"):
        DependencyOrdering(case.module).executes_before(*case.of("o", "r"))


def test_order_without_a_schedule_is_refused():
    case = Case(DIAMOND)
    with pytest.raises(LowtideError, match="module m has no schedule"):
        SequentialOrdering(case.module)
    partial = Schedule({})
    with pytest.raises(LowtideError, match="the schedule leaves out %e"):
        SequentialOrdering(case.module, partial).executes_before(*case.of("p", "r"))


def test_cyclic_predecessors_are_refused():
    case = Case(DIAMOND)
    entry = case.module.entry
    order = to_partial_order(DependencyOrdering(case.module), entry)
    a, b = case.of("a", "b")
    wrong = PartialOrder(entry, {**order.predecessors, a: (b,), b: (a,)})
    with pytest.raises(InvalidModuleError, match="has a cycle"):
        PredecessorOrdering(case.module, wrong)


def test_ordering_of_ten_thousand_instructions_takes_seconds():
    lines = ["HloModule m", "ENTRY e {", "  v0 = f32[2] parameter(0)"]
    lines += [f"  v{i} = f32[2] add(v{i // 3}, v{max(0, i - 7)})" for i in range(1, 10_000)]
    module = parse_hlo("\n".join([*lines, "  ROOT r = f32[2] negate(v9999)", "}"]))
    values = hlo_dataflow(module).values
    found = interference(DependencyOrdering(module), values)
    assert len(found.neighbours(5)) > 0
    schedule = Schedule({module.entry: tuple(post_order(module.entry))})
    total = interference(SequentialOrdering(module, schedule), values)
    assert not (total.rows & ~found.rows).any()
