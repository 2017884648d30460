"""When buffers are taken: against a walk with sets, and against figures worked out by hand."""

import pytest
from tests.support import CORPUS, needs_shared, read_text

from lowtide.analysis.dataflow import dataflow
from lowtide.analysis.donation import aliases
from lowtide.analysis.live_range import live_ranges
from lowtide.buffers.copy_insertion import insert_copies
from lowtide.compiler import PlanOptions, plan
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.scheduling.module_scheduler import schedule_module

from .live_sets import live_profile
from .memory_machine import MemoryMachine
from .random_modules import RandomModule


def ranges_of(module):
    """The live ranges of a module, with the copies that it needs put in, and these."""
    inserted = insert_copies(module)
    flows = dataflow(module.entry)
    pairs = aliases(module)
    module.schedule = schedule_module(module, flows)
    sequences = module.schedule.sequences
    return live_ranges(module.entry, sequences, flows, pairs, owns_results=True), inserted.copies


@pytest.mark.parametrize("seed", range(80))
def test_the_profile_is_that_of_a_walk_with_sets(seed):
    module = parse_hlo(RandomModule(seed, 25, control=("call",), aliased=False).text())
    ranges, _ = ranges_of(module)
    assert ranges.profile.tolist() == live_profile(module, module.schedule.sequences)


@pytest.mark.parametrize("seed", range(80))
def test_no_value_is_overwritten_while_it_is_needed(seed):
    module = parse_hlo(RandomModule(seed, 6 + seed % 20).text())
    planned = plan(module, PlanOptions("input"))
    for trips, branch in ((0, 0), (2, 0), (3, 1)):
        MemoryMachine(planned, trips, branch).run()


REAL = sorted(CORPUS.glob("*.hlo.txt.xz"), key=lambda path: path.stat().st_size)


@needs_shared
@pytest.mark.parametrize(
    "path",
    [*REAL[:5], *[pytest.param(path, marks=pytest.mark.slow) for path in REAL[5:]]],
    ids=lambda path: path.name.split(".hlo")[0],
)
def test_plans_of_real_modules_hold(path):
    module = parse_hlo(read_text(path))
    machine = MemoryMachine(plan(module, PlanOptions("input")))
    machine.run()
    assert machine.reads > 100


def loop(state, body, root, entry, result):
    """A module with a counted loop over vectors of 400 bytes: x, or x and y."""
    names = ["x", "y"][:state]
    shape = ", ".join(["s32[]", *["f32[100]"] * state])
    elements = "\n".join(
        [f"  {n} = f32[100] get-tuple-element(p), index={k}" for k, n in enumerate(names, 1)]
    )
    return f"""HloModule loop
body {{
  p = ({shape}) parameter(0)
  i = s32[] get-tuple-element(p), index=0
{elements}
  one = s32[] constant(1)
  next = s32[] add(i, one)
{body}
  ROOT r = ({shape}) tuple(next, {root})
}}
condition {{
  p = ({shape}) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  limit = s32[] constant(9)
  ROOT less = pred[] compare(i, limit), direction=LT
}}
ENTRY main {{
  P = f32[100] parameter(0)
  Q = f32[100] parameter(1)
  zero = s32[] constant(0)
{entry}
  w = ({shape}) while(s), condition=condition, body=body
{result}
}}
"""


def straight(lines, header=""):
    """A module of one computation with two parameters of 400 bytes."""
    body = "\n".join([f"  {line}" for line in lines])
    return f"""HloModule straight{header}
ENTRY main {{
  P = f32[100] parameter(0)
  Q = f32[100] parameter(1)
  u = f32[10] constant({{{", ".join(["0"] * 10)}}})
  k = s32[] constant(3)
{body}
}}
"""


ONE_OF_P = "  s = (s32[], f32[100]) tuple(zero, P)"
TWO_MADE = """  a = f32[100] sine(P)
  b = f32[100] cosine(Q)
  s = (s32[], f32[100], f32[100]) tuple(zero, a, b)"""
FIRST = "  ROOT out = f32[100] get-tuple-element(w), index=1"
BOTH = """  o = f32[100] get-tuple-element(w), index=1
  v = f32[100] get-tuple-element(w), index=2
  ROOT out = (f32[100], f32[100]) tuple(o, v)"""
ALIASED = ", input_output_alias={ {}: (0, {}, may-alias) }"

CASES = {
    # The argument is copied to the state; sine writes over it; 4 bytes of counter, 1 of pred.
    "loop over an argument": (
        loop(1, "  z = f32[100] sine(x)", "z", ONE_OF_P, FIRST), 405, ["loop entry"] * 2),
    # x is returned as it is: no state, no copy but that of the counter; Q is the result's copy.
    "state passed through": (
        loop(1, "", "x", ONE_OF_P, FIRST), 400, ["loop entry", "output"]),
    # Two states change places through one more buffer: 3 * 400, and the counter.
    "states change places": (
        loop(2, "", "y, x", TWO_MADE, BOTH), 1204, ["loop entry", *["loop state"] * 3]),
    # y becomes the old x before x is written: no third buffer is needed for that.
    "a state moves on": (
        loop(2, "  z = f32[100] reverse(x), dimensions={0}", "z, x", TWO_MADE, BOTH), 1204,
        ["loop entry", "loop state", "loop state"]),
    # Both states begin as one value: the second one is a copy.
    "one value for two states": (
        loop(2, "  z = f32[100] sine(x)\n  t = f32[100] sine(y)", "z, t",
             "  a = f32[100] sine(P)\n  s = (s32[], f32[100], f32[100]) tuple(zero, a, a)", BOTH),
        805, ["loop entry"] * 2),
    # The new state is made from a scalar while the old one is dead: t takes its place.
    "a state that is dead in between": (
        loop(1, """  d = f32[1] slice(x), slice={[0:1]}
  e = f32[] reshape(d)
  t = f32[100] broadcast(e), dimensions={}
  g = f32[1] slice(t), slice={[1:2]}
  h = f32[] reshape(g)
  z = f32[100] broadcast(h), dimensions={}""", "z", ONE_OF_P, FIRST),
        408, ["loop entry"] * 2),
    # The operand of an update is read later, so the update writes into a copy.
    "update of a value read later": (
        straight(["b = f32[100] sine(P)", "d = f32[100] dynamic-update-slice(b, u, k)",
                  "ROOT out = f32[100] subtract(d, b)"]), 800, ["in place"]),
    "updates one after the other": (
        straight(["b = f32[100] sine(P)", "d = f32[100] dynamic-update-slice(b, u, k)",
                  "ROOT out = f32[100] dynamic-update-slice(d, u, k)"]), 400, []),
    "an argument updated, not donated": (
        straight(["ROOT d = f32[100] dynamic-update-slice(P, u, k)"]), 400, ["in place"]),
    "an argument updated, donated": (
        straight(["ROOT d = f32[100] dynamic-update-slice(P, u, k)"], ALIASED), 0, []),
    # The reader of the donated argument writes the result over it.
    "a donated argument read too late": (
        straight(["d = f32[100] reverse(P), dimensions={0}", "ROOT r = f32[100] subtract(d, P)"],
                 ALIASED), 400, []),
    "an argument returned": (straight(["ROOT c = f32[100] bitcast(P)"]), 400, ["output"]),
    "a value returned twice": (
        straight(["b = f32[100] sine(P)", "ROOT r = (f32[100], f32[100]) tuple(b, b)"]), 800,
        ["output"]),
    "outputs that change places": (
        straight(["ROOT r = (f32[100], f32[100]) tuple(Q, P)"],
                 ", input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {}, may-alias) }"),
        400, ["aliased output"] * 3),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_by_hand(name):
    text, live_bytes, kinds = CASES[name]
    ranges, copies = ranges_of(parse_hlo(text))
    assert sorted([copy.reason.kind for copy in copies]) == kinds
    assert ranges.live_bytes == live_bytes


CONDITIONAL = """HloModule choice
left {
  p = (f32[100]) parameter(0)
  x = f32[100] get-tuple-element(p), index=0
  ROOT r = (f32[100]) tuple(x)
}
right {
  p = (f32[100]) parameter(0)
  x = f32[100] get-tuple-element(p), index=0
  y = f32[100] reverse(x), dimensions={0}
  z = f32[100] reverse(y), dimensions={0}
  ROOT r = (f32[100]) tuple(z)
}
ENTRY main {
  P = f32[100] parameter(0)
  q = pred[] parameter(1)
  a = (f32[100]) tuple(P)
  c = (f32[100]) conditional(q, a, a), true_computation=left, false_computation=right
  ROOT out = f32[100] get-tuple-element(c), index=0
}
"""


def test_a_branch_that_returns_its_argument_copies_it():
    ranges, copies = ranges_of(parse_hlo(CONDITIONAL))
    assert [copy.reason.kind for copy in copies] == ["branch result"]
    assert ranges.live_bytes == 800


def test_an_argument_of_a_call_dies_inside_it():
    text = """HloModule calls
callee {
  x = f32[100] parameter(0)
  s = f32[1] slice(x), slice={[0:1]}
  e = f32[] reshape(s)
  ROOT b = f32[100] broadcast(e), dimensions={}
}
ENTRY main {
  P = f32[100] parameter(0)
  a = f32[100] sine(P)
  b = f32[100] call(a), to_apply=callee
  ROOT c = f32[100] call(b), to_apply=callee
}
"""
    ranges, _ = ranges_of(parse_hlo(text))
    assert ranges.live_bytes == 404
    assert len(ranges.flat.sites) == 3


def test_positions_are_those_of_the_flattened_schedule():
    ranges, _ = ranges_of(parse_hlo(loop(1, "  z = f32[100] sine(x)", "z", ONE_OF_P, FIRST)))
    names = [instruction.name for instruction in ranges.flat.instructions]
    assert len(names) == 4 + 7 + 6 + 2
    assert names.index("less") < names.index("next") < names.index("w") < names.index("out")
    assert (ranges.last < ranges.flat.length).all()


def test_a_long_chain_of_calls_is_walked_without_recursion():
    lines = ["HloModule deep", "call0 {", "  p.0 = f32[4] parameter(0)",
             "  ROOT n.0 = f32[4] negate(p.0)", "}"]  # fmt: skip
    for i in range(1, 3000):
        lines += [f"call{i} {{", f"  p.{i} = f32[4] parameter(0)",
                  f"  ROOT c.{i} = f32[4] call(p.{i}), to_apply=call{i - 1}", "}"]  # fmt: skip
    lines += ["ENTRY main {", "  P = f32[4] parameter(0)",
              "  ROOT c = f32[4] call(P), to_apply=call2999", "}"]  # fmt: skip
    ranges, _ = ranges_of(parse_hlo("\n".join(lines)))
    assert ranges.live_bytes == 16


ASYNC_UPDATE = """HloModule m, is_scheduled=true
update {
  a = f32[100] parameter(0)
  u = f32[10] parameter(1)
  i = s32[] parameter(2)
  ROOT d = f32[100] dynamic-update-slice(a, u, i)
}
ENTRY main {
  p = f32[100] parameter(0)
  u = f32[10] parameter(1)
  i = s32[] parameter(2)
  n = f32[100] negate(p)
  s = ((f32[100], f32[10], s32[]), f32[100], u32[]) async-start(n, u, i), calls=update
  m = f32[10] slice(READ), slice={[0:10]}
  d = f32[100] async-done(s)
  ROOT t = (f32[100], f32[10]) tuple(d, m)
}
"""


@pytest.mark.parametrize(("read", "live_bytes"), [("p", 444), ("n", 844)])
def test_an_asynchronous_update_is_in_place_where_its_operand_is_not_read_later(read, live_bytes):
    """One array, a slice of 40 bytes, and the context of 4."""
    ranges, _ = ranges_of(parse_hlo(ASYNC_UPDATE.replace("READ", read)))
    assert ranges.live_bytes == live_bytes


def test_the_result_of_a_condition_lasts_to_its_end():
    """What stands behind the root takes another place than what decides on the loop's end."""
    module = parse_hlo("""HloModule m, is_scheduled=true

cond {
  p = s32[] parameter(0)
  c = s32[] constant(3)
  ROOT lt = pred[] compare(p, c), direction=LT
  ge = pred[] compare(p, c), direction=GE
  no = pred[] not(ge)
}

body {
  p = s32[] parameter(0)
  c = s32[] constant(1)
  ROOT j = s32[] add(p, c)
}

ENTRY e {
  x = s32[] parameter(0)
  y = s32[] copy(x)
  ROOT w = s32[] while(y), condition=cond, body=body
}
""")
    planned = plan(module)
    flat = planned.ranges.flat
    made = {maker.name: n for n, maker in enumerate(flat.values.maker)}
    end = flat.values.first[made["no"]]
    assert flat.values.last[made["lt"]] == end
    assert not flat.ends(made["lt"], end)
