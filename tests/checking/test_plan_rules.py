"""One broken rule after the other, on plans made by hand; beside each the plan that is right."""

import re
from dataclasses import replace

import pytest

from lowtide.checking import PlanMismatchError, check_plan
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import Schedule
from lowtide.ir.buffer import BufferSlice

from .layouts import kinds, layout


def entry(body, *, parameters=1, header=""):
    lines = [f"  p{i} = f32[16] parameter({i})" for i in range(parameters)]
    return f"HloModule m, is_scheduled=true{header}\nENTRY e {{\n" + "\n".join([*lines, body, "}"])


CHAIN = entry("""
  a = f32[16] negate(p0)
  b = f32[16] exponential(a)
  c = f32[16] add(a, b)
  ROOT d = f32[16] negate(c)""")


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        ({}, []),
        ({"c": "a"}, []),
        ({"c": "b", "d": "b"}, []),
        ({"b": "a"}, ["overlap"]),
        ({"a": 0, "c": 32}, ["alignment", "overlap"]),
        ({"a": 0, "b": 64, "d": 64}, []),
        ({"d": 1 << 20}, ["bounds"]),
        ({"b": BufferSlice(0, 0, 60)}, ["size"]),
        ({"b": BufferSlice(0, 2, 64)}, ["alignment"]),
        ({"b": "p0"}, ["read-only"]),
        ({"d": "p0"}, ["read-only", "alias"]),
    ],
)  # fmt: skip
def test_values_of_a_chain(places, expected):
    assert kinds(CHAIN, places) == expected


def test_a_violation_names_values_steps_and_bytes():
    (found,) = check_plan(*layout(CHAIN, {"a": 0, "b": 0}))
    assert found.names == ("a", "b")
    assert found.steps == (1, 2, 3)
    assert found.places == (BufferSlice(0, 0, 64), BufferSlice(0, 0, 64))
    assert str(found) == (
        "overlap: a f32[16], made at step 1, is not in bytes 0 to 64 of allocation 0 (arena) when "
        "c reads it at step 3: b f32[16], made at step 2, overwrites bytes 0 to 64"
    )


def test_a_value_without_a_place_is_missing():
    module, plan = layout(CHAIN)
    row = dict(plan.call_sites[0].slices)
    del row[module.entry.instructions["b"]]
    plan = replace(plan, call_sites=(replace(plan.call_sites[0], slices=row),))
    assert [x.kind.value for x in check_plan(module, plan)] == ["missing"]


def test_a_value_passed_on_has_one_place():
    module, plan = layout(CHAIN.replace("negate(c)", "bitcast(c)"))
    root, row = module.entry.root, plan.call_sites[0].slices
    row[root] = (BufferSlice(0, 640, 64),)
    plan = replace(plan, outputs=row[root])
    assert [x.kind.value for x in check_plan(module, plan)] == ["misplaced", "misplaced"]


# -- one step ----------------------------------------------------------------------------------


def step(operation, made, operands=("f32[4,4]",), extra=""):
    """One operation on values that nothing else needs."""
    lines = [
        f"  p{i} = {shape} parameter({i})\n  x{i} = {shape} copy(p{i})"
        for i, shape in enumerate(operands)
    ]
    return (
        f"HloModule m, is_scheduled=true\n{extra}\nENTRY e {{\n"
        + "\n".join(lines)
        + f"\n  y = {made} {operation}\n  ROOT z = {made} copy(y)\n}}"
    )


LESS = """less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT l = pred[] compare(a, b), direction=LT
}"""
DUS = "dynamic-update-slice(x0, x1, x2, x2)"


@pytest.mark.parametrize(
    ("text", "victim", "expected"),
    [
        (step("exponential(x0)", "f32[4,4]"), "x0", []),
        (step("add(x0, x0)", "f32[4,4]"), "x0", []),
        (step("bitcast-convert(x0)", "s32[4,4]"), "x0", []),
        (step("transpose(x0), dimensions={1,0}", "f32[4,4]"), "x0", ["overlap"]),
        (step("reverse(x0), dimensions={0}", "f32[4,4]"), "x0", ["overlap"]),
        (step("convert(x0)", "bf16[4,4]"), "x0", ["overlap"]),
        (step("negate(x0)", "f32[4,4]{0,1}"), "x0", ["overlap"]),
        (step("sort(x0), dimensions={0}, to_apply=less", "f32[16]", ("f32[16]",), LESS), "x0", []),
        (step("select(x0, x1, x1)", "f32[4,4]", ("pred[4,4]", "f32[4,4]")), "x1", []),
        (step(DUS, "f32[4,4]", ("f32[4,4]", "f32[1,4]", "s32[]")), "x0", []),
        (step(DUS, "f32[4,4]", ("f32[4,4]", "f32[4,4]", "s32[]")), "x1",
         ["colocation", "overlap"]),
        (step("dynamic-update-slice(x0, x0, x1, x1)", "f32[4,4]", ("f32[4,4]", "s32[]")), "x0",
         ["overlap"]),
        (step('custom-call(x0), custom_call_target="t", output_to_operand_aliasing={{}: (0, {})}',
              "f32[4,4]"), "x0", []),
        (step('custom-call(x0), custom_call_target="t"', "f32[4,4]"), "x0", ["overlap"]),
    ],
)  # fmt: skip
def test_what_an_operation_may_write_over(text, victim, expected):
    assert kinds(text, {"y": victim}) == expected


EPILOGUE = 'kOutput, backend_config={"kernel":"epilogue"}'

FUSED = """f {{
  a = f32[4,4] parameter(0)
  b = f32[4,4] parameter(1)
{body}
}}"""


@pytest.mark.parametrize(
    ("body", "kind", "victim", "expected"),
    [
        ("  c = f32[4,4] add(a, b)\n  ROOT d = f32[4,4] exponential(c)", "kLoop", "x0", []),
        ("  c = f32[16] reshape(a)\n  d = f32[16] negate(c)\n  ROOT e = f32[4,4] reshape(d)",
         "kLoop", "x0", []),
        ("  c = f32[4,4] transpose(a), dimensions={1,0}\n  ROOT d = f32[4,4] add(c, b)",
         "kLoop", "x0", ["overlap"]),
        ("  c = f32[4,4] transpose(a), dimensions={1,0}\n  ROOT d = f32[4,4] add(c, b)",
         "kLoop", "x1", []),
        ("  c = f32[4,4] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
         "  ROOT d = f32[4,4] add(c, b)", "kOutput", "x1", []),
        ("  c = f32[4,4] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
         "  ROOT d = f32[4,4] add(c, b)", "kOutput", "x0", ["overlap"]),
        ("  c = f32[4,4] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
         "  n = f32[4,4] negate(a)\n  s = f32[4,4] add(b, c)\n"
         "  ROOT d = f32[4,4] add(s, n)", "kOutput", "x1", []),
        ("  c = f32[4,4] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
         "  n = f32[4,4] negate(a)\n  s = f32[4,4] add(n, c)\n"
         "  ROOT d = f32[4,4] add(s, b)", "kOutput", "x1", ["overlap"]),
        ("  c = f32[4,4] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
         "  n = f32[4,4] negate(b)\n  s = f32[4,4] add(n, c)\n"
         "  ROOT d = f32[4,4] multiply(s, b)", EPILOGUE, "x1", []),
        ("  c = f32[4,4] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
         "  n = f32[4,4] transpose(b), dimensions={1,0}\n"
         "  ROOT d = f32[4,4] add(n, c)", EPILOGUE, "x1", ["overlap"]),
        ("  c = f32[4,4] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
         "  ROOT d = f32[4,4] add(a, c)", EPILOGUE, "x0", ["overlap"]),
        ("  c = f32[4] slice(b), slice={[0:1], [0:4]}\n  z = s32[] constant(0)\n"
         "  ROOT d = f32[4,4] dynamic-update-slice(a, c, z, z)", "kLoop", "x0", []),
        ("  c = f32[4] slice(b), slice={[0:1], [0:4]}\n  z = s32[] constant(0)\n"
         "  ROOT d = f32[4,4] dynamic-update-slice(a, c, z, z)", "kLoop", "x1",
         ["colocation", "overlap"]),
    ],
)  # fmt: skip
def test_what_a_fusion_may_write_over(body, kind, victim, expected):
    body = body.replace("f32[4] slice", "f32[1,4] slice")
    fused = FUSED.format(body=body)
    text = step(
        f"fusion(x0, x1), calls=f, kind={kind}", "f32[4,4]", ("f32[4,4]", "f32[4,4]"), fused
    )
    assert kinds(text, {"y": victim}) == expected


UPDATING = """set {{ u = f32[] parameter(0) ROOT v = f32[] parameter(1) }}
f {{
  a = f32[4,4] parameter(0)
  i = s32[] parameter(1)
  z = s32[] constant(0)
  m = s32[4,1] iota(), iota_dimension=0
{body}
}}"""
CUT = "dynamic_slice_sizes={1,4}"
INTO = "ROOT d = f32[4,4] dynamic-update-slice(a, c, i, z)"
ROWS = (
    "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
    "index_vector_dim=1, to_apply=set"
)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (f"c = f32[1,4] dynamic-slice(a, i, z), {CUT}\n{INTO}", []),
        (f"e = f32[4,4] negate(a)\n c = f32[1,4] dynamic-slice(e, i, z), {CUT}\n{INTO}", []),
        (f"b = f32[1,4] dynamic-slice(a, i, z), {CUT}\n e = f32[4] reshape(b)\n"
         f"c = f32[1,4] reshape(e)\n{INTO}", []),
        (f"c = f32[1,4] dynamic-slice(a, z, z), {CUT}\n{INTO}", ["overlap"]),
        (f"b = f32[1,4] dynamic-slice(a, i, z), {CUT}\n c = f32[1,4] reverse(b), dimensions={{1}}\n"
         f"{INTO}", ["overlap"]),
        (f"e = f32[4,4] transpose(a), dimensions={{1,0}}\n"
         f"c = f32[1,4] dynamic-slice(e, i, z), {CUT}\n{INTO}", ["overlap"]),
        (f"b = f32[4,4] bitcast(a)\n c = f32[1,4] dynamic-slice(b, i, z), {CUT}\n{INTO}", []),
        (f"b = f32[4,4]{{0,1}} bitcast(a)\n c = f32[1,4] dynamic-slice(b, i, z), {CUT}\n{INTO}",
         ["overlap"]),
        (f"e = f32[4,4] negate(a)\n ROOT d = f32[4,4] scatter(a, m, e), {ROWS}", ["overlap"]),
        (f"ROOT d = f32[4,4] scatter(a, m, a), {ROWS}", ["overlap"]),
        (f"k = f32[] constant(3)\n e = f32[4,4] broadcast(k), dimensions={{}}\n"
         f"ROOT d = f32[4,4] scatter(a, m, e), {ROWS}", []),
        ("ROOT d = f32[4,4]{0,1} dynamic-update-slice(a, a, i, z)", ["overlap"]),
    ],
)  # fmt: skip
def test_what_a_fusion_may_read_of_what_it_updates(body, expected):
    made = "f32[4,4]{0,1}" if "ROOT d = f32[4,4]{0,1}" in body else "f32[4,4]"
    text = step(
        "fusion(x0, x1), kind=kLoop, calls=f", made, ("f32[4,4]", "s32[]"),
        UPDATING.format(body=body),
    )  # fmt: skip
    assert kinds(text, {"y": "x0"}) == expected


def test_a_donated_argument_has_one_allocation():
    text = entry(
        "  a = f32[16] negate(p1)\n  b = f32[16] abs(p1)\n"
        "  ROOT t = (f32[16], f32[16]) tuple(a, b)",
        parameters=2,
        header=", buffer_donor={ (0, {}) }",
    )
    module, plan = layout(text)
    known = {x.name: x for x in module.entry.instructions.values()}
    (own,) = (x for x in plan.allocations if x.parameter == (0, ()))
    second = replace(own, index=len(plan.allocations), output=(1,))
    allocations = [replace(x, output=(0,)) if x is own else x for x in plan.allocations]
    places = BufferSlice(own.index, 0, 64), BufferSlice(second.index, 0, 64)
    row = {**plan.call_sites[0].slices, known["p0"]: (places[1],)}
    row |= {known["a"]: (places[0],), known["b"]: (places[1],)}
    plan = replace(
        plan,
        allocations=(*allocations, second),
        call_sites=(replace(plan.call_sites[0], slices=row),),
        outputs=places,
        kept_bytes=0,
    )
    assert [str(x) for x in check_plan(module, plan)] == [
        f"alias: argument 0 has two allocations, {own.index} and {second.index}"
    ]


def test_two_results_of_one_operation_lie_apart():
    text = entry("""
  s = (f32[16], f32[16]) custom-call(p0), custom_call_target="t"
  a = f32[16] get-tuple-element(s), index=0
  ROOT b = f32[16] get-tuple-element(s), index=1""")
    assert kinds(text) == []
    assert kinds(text, {"s{1}": "s{0}"}) == ["overlap"]


# -- loops -------------------------------------------------------------------------------------


def loop(body="next = f32[16] negate(x)", after="", result="r = f32[16] add(w1, q)"):
    return f"""HloModule m, is_scheduled=true
body {{
  s = (s32[], f32[16], f32[16]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  x = f32[16] get-tuple-element(s), index=1
  k = f32[16] get-tuple-element(s), index=2
  {body}
  ROOT t = (s32[], f32[16], f32[16]) tuple(j, next, k)
}}
cond {{
  s.1 = (s32[], f32[16], f32[16]) parameter(0)
  i.1 = s32[] get-tuple-element(s.1), index=0
  limit = s32[] constant(5)
  ROOT less = pred[] compare(i.1, limit), direction=LT
}}
ENTRY e {{
  p0 = f32[16] parameter(0)
  zero = s32[] constant(0)
  i0 = s32[] copy(zero)
  x0 = f32[16] copy(p0)
  q = f32[16] negate(p0)
  init = (s32[], f32[16], f32[16]) tuple(i0, x0, q)
  w = (s32[], f32[16], f32[16]) while(init), condition=cond, body=body
  w1 = f32[16] get-tuple-element(w), index=1
  {after}
  ROOT {result}
}}"""


IN_PLACE = {"j": "i0", "next": "x0"}
TWO_STEPS = "tmp = f32[16] negate(x)\n  next = f32[16] add(tmp, k)"


@pytest.mark.parametrize(
    ("text", "places", "expected"),
    [
        (loop(), IN_PLACE, []),
        (loop(), {"j": "i0"}, ["colocation"]),
        (loop(TWO_STEPS), {**IN_PLACE, "tmp": "x0"}, []),
        # q is not changed by the loop, but read after it and in the next iteration.
        (loop(TWO_STEPS), {**IN_PLACE, "tmp": "q"}, ["overlap"]),
        (loop("tmp = f32[16] negate(x)\n  next = f32[16] negate(tmp)"),
         {**IN_PLACE, "tmp": "q"}, ["overlap"]),
        (loop("tmp = f32[16] negate(x)\n  next = f32[16] negate(tmp)",
              result="r = f32[16] negate(w1)"), {**IN_PLACE, "tmp": "q"}, []),
        # The state is read again after the value of the next iteration is written.
        (loop("next = f32[16] negate(x)\n  dead = f32[16] negate(x)"), IN_PLACE, ["overlap"]),
        # The condition runs once more after the last iteration.
        (loop(), {**IN_PLACE, "less": "x0"}, ["overlap", "overlap"]),
        (loop(result="r = f32[16] negate(p0)"), {**IN_PLACE, "less": "q"}, []),
        # The initial value is needed after the loop.
        (loop(result="r = f32[16] add(w1, x0)"), IN_PLACE, ["overlap"]),
        # A constant cannot be the state.
        (loop().replace("tuple(i0", "tuple(zero"), {"j": "zero", "next": "x0"},
         ["read-only", "read-only"]),
    ],
)  # fmt: skip
def test_loops(text, places, expected):
    assert kinds(text, places) == expected


def test_a_value_passed_round_the_loop_may_not_be_overwritten_in_it():
    """k of iteration 1 is that of iteration 2; a walk over one iteration would not see it."""
    text = loop("y = f32[16] add(x, k)\n  tmp = f32[16] negate(y)\n  next = f32[16] negate(tmp)")
    (found,) = check_plan(
        *layout(text.replace("add(w1, q)", "negate(w1)"), {**IN_PLACE, "tmp": "q"})
    )
    assert "w/tmp" in found.message
    assert found.names == ("q", "w/tmp")


# -- conditionals, calls, asynchronous operations ----------------------------------------------

BRANCHES = """HloModule m, is_scheduled=true
left {
  a = f32[16] parameter(0)
  l = f32[16] negate(a)
  ROOT lr = f32[16] exponential(l)
}
right {
  b = f32[16] parameter(0)
  ROOT rr = f32[16] exponential(b)
}
ENTRY e {
  p0 = f32[16] parameter(0)
  p1 = pred[] parameter(1)
  x = f32[16] negate(p0)
  y = f32[16] exponential(p0)
  keep = f32[16] negate(p0)
  c = f32[16] conditional(p1, x, y), true_computation=left, false_computation=right
  ROOT r = f32[16] add(c, keep)
}"""
SELECTED = {"c": 0, "lr": 0, "rr": 0}


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        (SELECTED, []),
        ({"c": 0, "lr": 0}, ["colocation"]),
        ({**SELECTED, "l": 64, "y": 64}, []),
        ({**SELECTED, "l": 64, "x": 64, "y": 0}, []),
        ({**SELECTED, "keep": 64, "l": 64}, ["overlap"]),
        ({**SELECTED, "x": 64, "l": 64, "y": 64}, ["overlap"]),
        ({"x": 0, "c": 0, "lr": 0, "rr": 0, "y": 0}, ["overlap"]),
    ],
)
def test_branches_exclude_one_another(places, expected):
    assert kinds(BRANCHES, places) == expected


TWICE = """HloModule m, is_scheduled=true
layer {
  a = f32[16] parameter(0)
  t = f32[16] negate(a)
  ROOT u = f32[16] exponential(t)
}
ENTRY e {
  p0 = f32[16] parameter(0)
  x = f32[16] call(p0), to_apply=layer
  y = f32[16] call(x), to_apply=layer
  ROOT r = f32[16] add(x, y)
}"""


def test_a_computation_has_a_row_of_slices_per_call_site():
    module, plan = layout(TWICE)
    assert check_plan(module, plan) == ()
    u = module.computations["layer"].instructions["u"]
    first, second = plan.call_sites[1].slices, plan.call_sites[2].slices
    second[u] = first[u]
    (found,) = check_plan(module, plan)
    assert found.names == ("x/u", "y/u")
    assert found.steps == (3, 7, 9)


ASYNC = """HloModule m, is_scheduled=true
task {
  a = f32[16] parameter(0)
  t = f32[16] negate(a)
  ROOT u = f32[16] exponential(t)
}
ENTRY e {
  p0 = f32[16] parameter(0)
  x = f32[16] negate(p0)
  s = ((f32[16]), f32[16]) async-start(x), calls=task
  between = f32[16] exponential(p0)
  d = f32[16] async-done(s), calls=task
  after = f32[16] negate(p0)
  ROOT r = f32[16] add(d, after)
}"""


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        ({"after": "x"}, []),
        ({"between": "x"}, ["overlap"]),
        ({"x": 0, "t": 64, "u": 128, "between": 64}, ["overlap"]),
        ({"x": 0, "t": 64, "u": 128, "between": 128}, ["overlap"]),
        ({"x": 0, "t": 64, "u": 128, "after": 64}, []),
    ],
)
def test_an_asynchronous_operation_goes_on_until_its_end(places, expected):
    assert kinds(ASYNC, places) == expected


# -- borders of the program --------------------------------------------------------------------

ALIASED = entry(
    """
  a = f32[16] negate(p0)
  b = f32[16] exponential(p1)
  ROOT t = (f32[16], f32[16]) tuple(a, b)""",
    parameters=2,
    header=", input_output_alias={ {1}: (0, {}, must-alias) }",
)


def test_an_output_lies_in_the_argument_that_it_overwrites():
    assert kinds(ALIASED, {"b": "p0"}) == []
    assert kinds(ALIASED) == ["alias"]
    assert kinds(ALIASED, {"a": "p0"}) == ["alias", "alias"]
    assert kinds(ALIASED, {"b": "p0"}, aliases=False) == ["read-only", "alias"]


def test_outputs_lie_apart():
    text = entry("""
  a = f32[16] negate(p0)
  b = f32[16] bitcast(a)
  ROOT t = (f32[16], f32[16]) tuple(a, b)""")
    assert kinds(text) == ["alias"]


def test_an_argument_is_no_output():
    assert kinds(entry("  ROOT t = (f32[16]) tuple(p0)")) == ["alias"]


def test_allocations_of_arguments_and_constants_have_their_size():
    text = entry("""
  c = f32[16] constant({1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16})
  ROOT a = f32[16] add(p0, c)""")
    module, plan = layout(text)
    assert check_plan(module, plan) == ()
    allocations = [x if x.index == 0 else replace(x, nbytes=128) for x in plan.allocations]
    found = check_plan(module, replace(plan, allocations=tuple(allocations)))
    assert [x.kind.value for x in found] == ["size", "size"]


def test_a_constant_lies_alone():
    text = entry("""
  c = f32[16] constant({1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16})
  d = f32[16] constant({1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,17})
  e = f32[16] add(p0, c)
  ROOT a = f32[16] add(e, d)""")
    assert kinds(text) == []
    assert "read-only" in kinds(text, {"d": "c"})


def test_memory_spaces_do_not_mix():
    text = entry("""
  a = f32[16]{0:S(1)} copy(p0)
  b = f32[16] negate(p0)
  c = f32[16] copy(a)
  ROOT d = f32[16] add(b, c)""")
    assert kinds(text) == ["memory space"]


# -- plans that cannot be checked --------------------------------------------------------------


def test_a_module_without_a_schedule_is_refused():
    module, plan = layout(CHAIN)
    module.schedule = None
    with pytest.raises(PlanMismatchError, match="m has no schedule"):
        check_plan(module, plan)


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (["a", "p0", "b", "c", "d"], "the schedule of e has a before p0"),
        (["p0", "a", "b", "c"], "the schedule of e lacks d"),
        (["p0", "a", "a", "b", "c", "d"], "the schedule of e has a twice"),
    ],
)
def test_a_schedule_that_is_no_order_is_refused(order, message):
    module, plan = layout(CHAIN)
    names = module.entry.instructions
    module.schedule = Schedule({module.entry: tuple(names[x] for x in order)})
    with pytest.raises(PlanMismatchError, match=re.escape(message)):
        check_plan(module, plan)


def test_a_plan_of_another_module_is_refused():
    _, plan = layout(CHAIN)
    with pytest.raises(PlanMismatchError, match="belongs to another module"):
        check_plan(parse_hlo(CHAIN), plan)


def test_a_slice_of_no_allocation_is_refused():
    module, plan = layout(CHAIN, {"b": BufferSlice(7, 0, 64)})
    with pytest.raises(PlanMismatchError, match="puts b into allocation 7, but has 2 allocations"):
        check_plan(module, plan)
