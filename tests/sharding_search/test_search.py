"""The search of divisions under a cap on memory."""

import subprocess
import sys

import pytest

import lowtide
from lowtide import compiler
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir.errors import InputError
from lowtide.overlap.hiding import hide_communication
from lowtide.search.deadline import Deadline
from lowtide.sharding_search.estimate import DivisionEstimate
from lowtide.sharding_search.evaluation import PlannedDivision
from lowtide.sharding_search.mesh import mesh_of_devices, mesh_of_text
from lowtide.sharding_search.moves import neighbours
from lowtide.sharding_search.program import annotated_module, shardable_program
from lowtide.sharding_search.search import (
    SearchEffort,
    _Search,
    prepared,
    search_prepared,
    search_shardings,
)
from lowtide.sharding_search.strategies import Arrays, strategies
from lowtide.sharding_search.travel import Travel
from lowtide.spmd.choice import choose
from lowtide.spmd.partitioner import partition
from lowtide.spmd.wire import wire_traffic

TWO_WEIGHTS = """HloModule two
ENTRY main {
  x = f32[64,2048] parameter(0)
  w1 = f32[2048,2048] parameter(1)
  w2 = f32[2048,2048] parameter(2)
  h = f32[64,2048] dot(x, w1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT y = f32[64,2048] dot(h, w2), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""
WEIGHT = 4 * 2048 * 2048
TRAINED = """HloModule trained, input_output_alias={ {0}: (0, {}, may-alias) }
ENTRY main {
  w = f32[512,256] parameter(0)
  m = f32[512,256] parameter(1)
  x = f32[64,512] parameter(2)
  y = f32[64,256] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  g = f32[512,256] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  n = f32[512,256] add(m, g)
  v = f32[512,256] subtract(w, n)
  ROOT t = (f32[512,256], f32[512,256], f32[64,256]) tuple(v, n, y)
}
"""
STACKED = """HloModule stacked
body {
  s = (s32[], f32[16,64], f32[6,64,64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[16,64] get-tuple-element(s), index=1
  w = f32[6,64,64] get-tuple-element(s), index=2
  zero = s32[] constant(0)
  cut = f32[1,64,64] dynamic-slice(w, i, zero, zero), dynamic_slice_sizes={1,64,64}
  own = f32[64,64] reshape(cut)
  y = f32[16,64] dot(x, own), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT t = (s32[], f32[16,64], f32[6,64,64]) tuple(j, y, w)
}
condition {
  s = (s32[], f32[16,64], f32[6,64,64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(6)
  ROOT c = pred[] compare(i, n), direction=LT
}
ENTRY main {
  x = f32[16,64] parameter(0)
  w = f32[6,64,64] parameter(1)
  zero = s32[] constant(0)
  s = (s32[], f32[16,64], f32[6,64,64]) tuple(zero, x, w)
  l = (s32[], f32[16,64], f32[6,64,64]) while(s), condition=condition, body=body
  ROOT r = f32[16,64] get-tuple-element(l), index=1
}
"""


NEEDS_SCRATCH = """HloModule transposed
ENTRY main {
  x = f32[1024,256] parameter(0)
  w = f32[64,1024] parameter(1)
  ROOT y = f32[256,64] dot(x, w), lhs_contracting_dims={0}, rhs_contracting_dims={1}
}
"""


def test_peaks_are_what_the_programs_of_devices_hold():
    """With what their kernels need while they run: a cap is kept by what runs, too."""
    module = parse_hlo(NEEDS_SCRATCH)
    best = lowtide.explain(module, mesh="2").best
    memory = lowtide.compile(annotated_module(module, best)).memory
    assert memory["scratch_bytes"] > 0
    assert best.peak_bytes == memory["total_bytes"]


def test_what_has_no_kernel_is_named_where_scratch_is_counted():
    call = 'custom-call(x, w), custom_call_target="far"'
    text = TWO_WEIGHTS.replace(
        "dot(h, w2), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        call.replace("(x, w)", "(h, w2)"),
    )
    (remark,) = lowtide.explain(parse_hlo(text), devices=2).remarks
    assert "custom-call" in remark


def test_weights_are_split_where_whole_ones_do_not_fit():
    report = search_shardings(parse_hlo(TWO_WEIGHTS), mesh_of_devices(4), 20_000_000)
    assert report.choices
    for choice in report.choices:
        assert choice.peak_bytes <= 20_000_000 < 2 * WEIGHT
        assert any(choice.arguments["w1"]) or any(choice.arguments["w2"])
    assert [x.seconds for x in report.choices] == sorted([x.seconds for x in report.choices])
    peaks = [x.peak_bytes for x in report.choices]
    assert peaks == sorted(peaks, reverse=True)
    assert report.bound_bytes == 2 * WEIGHT // 4 + 2 * 64 * 2048 * 4 // 4


def test_figures_are_those_of_the_partitioned_module():
    module = parse_hlo(TWO_WEIGHTS)
    cap = 20_000_000
    for choice in search_shardings(module, mesh_of_text("2x2"), cap).choices:
        parts = partition(annotated_module(module, choice))
        hidden = hide_communication(compiler.plan(parts.module), cap)
        assert choice.peak_bytes == hidden.needed_bytes
        assert choice.seconds == hidden.step.step.seconds
        assert choice.wire_bytes == wire_traffic(parts.module).wire_bytes


def test_equal_input_gives_equal_choices():
    found = [
        search_shardings(parse_hlo(TWO_WEIGHTS), mesh_of_devices(4), 20_000_000).to_json()
        for _ in range(2)
    ]
    assert found[0] == found[1]


def test_below_the_bound_it_is_said_what_would_fit():
    report = search_shardings(parse_hlo(TWO_WEIGHTS), mesh_of_devices(4), 2_000_000)
    assert not report.choices
    assert report.bound_bytes <= report.least_bytes
    assert "no division of the arguments over 4 devices needs less than 8,650,752" in (
        report.failure()
    )
    assert f"{report.least_bytes:,} would do" in report.failure()
    again = search_shardings(parse_hlo(TWO_WEIGHTS), mesh_of_devices(4), report.least_bytes)
    assert again.choices
    assert not again.failure()


def test_results_that_are_updated_arguments_lie_as_these():
    module = parse_hlo(TRAINED)
    program = shardable_program(module, mesh_of_text("4x2"))
    assert [leaf.result for leaf in program.leaves] == [0, 1, None]
    for choice in search_shardings(module, program.mesh, 1 << 20).choices:
        assert choice.results[0] == choice.arguments["w"]
        assert choice.results[1] == choice.arguments["m"]


def test_dimensions_that_travel_together_are_one_class():
    program = shardable_program(parse_hlo(TWO_WEIGHTS), mesh_of_devices(4))
    classes = [x.places for x in Travel(program).classes()]
    assert set(classes) == {((0, 0),), ((0, 1), (1, 0)), ((1, 1), (2, 0)), ((2, 1),)}


def test_layers_in_a_stack_are_a_class_that_the_loop_cuts():
    program = shardable_program(parse_hlo(STACKED), mesh_of_devices(2))
    classes = {x.places: x.is_cut for x in Travel(program).classes()}
    assert classes[((0, 0),)] is False
    assert classes[((1, 0),)] is True
    report = search_shardings(parse_hlo(STACKED), mesh_of_devices(2))
    for choice in report.choices:
        _, stack = choice.arguments.values()
        assert not stack[0]


def test_the_effort_limits_what_is_tried():
    effort = SearchEffort(estimates=5, plans=2)
    report = search_shardings(parse_hlo(TWO_WEIGHTS), mesh_of_devices(4), effort=effort)
    assert report.estimated <= 5
    assert 1 <= report.planned <= 2
    assert report.choices


def test_smaller_divisions_are_planned_when_the_work_is_spent():
    module = parse_hlo(TRAINED)
    found = prepared(module, mesh_of_devices(8))
    effort = SearchEffort(instructions=40 * module.instruction_count)
    search = _Search(found, None, Deadline(), effort)
    arrays = Arrays(found.program, Travel(found.program).classes(), frozenset())
    whole = found.program.whole
    fully = arrays.spread(whole, range(3), (0, 1, 2))
    for division in (whole, fully):
        search.estimate(division)
    search._plan(whole)
    search._work = effort.instructions
    assert search._plan(fully) is None, "there is no work left"
    search._plan_smaller()
    assert search.planned[fully].peak_bytes <= search.planned[whole].peak_bytes / 2


def test_the_smallest_is_planned_where_nothing_takes_half_of_the_memory():
    found = prepared(parse_hlo(TRAINED), mesh_of_devices(8))
    search = _Search(found, None, Deadline(), SearchEffort())
    arrays = Arrays(found.program, Travel(found.program).classes(), frozenset())
    whole = found.program.whole
    smaller = arrays.spread(whole, [2], (0, 1, 2))
    for division in (whole, arrays.spread(whole, [2], (0,)), smaller):
        search.estimate(division)
    search._plan(whole)
    search._plan_smaller()
    assert list(search.planned) == [whole, smaller]
    assert search.planned[smaller].peak_bytes > search.planned[whole].peak_bytes / 2


def test_an_interrupted_search_keeps_the_best_so_far():
    deadline = Deadline()

    def tell(text: str) -> None:
        if text.startswith("2 planned"):
            deadline.interrupt()

    module = parse_hlo(TWO_WEIGHTS)
    report = search_shardings(module, mesh_of_devices(4), deadline=deadline, progress=tell)
    assert report.planned == 2
    assert report.choices
    assert report.remarks == ("Ctrl-C ended the search: another run may give another plan",)


def test_there_is_an_answer_before_most_is_estimated():
    """After the classes that may be the data comes a plan, which is told with its figures."""
    told = []
    search_shardings(parse_hlo(TRAINED), mesh_of_devices(4), progress=told.append)
    first = next(text for text in told if text.startswith("1 planned"))
    _, estimates, best = first.split(", ", 2)
    assert int(estimates.split()[0]) <= 5
    assert best.startswith("best ") and best.endswith(" MB")
    assert len(told) > 10


def test_no_plan_is_begun_that_would_end_behind_the_deadline(monkeypatch):
    """By a clock that goes on by ten seconds with each plan, and with nothing else."""
    now = [0.0]
    monkeypatch.setattr("lowtide.search.deadline.monotonic", lambda: now[0])
    found = prepared(parse_hlo(TWO_WEIGHTS), mesh_of_devices(4))
    plan = found.planner.plan

    def slow(division, cap):
        now[0] += 10.0
        return plan(division, cap)

    found.planner.plan = slow
    report = search_prepared(found, deadline=Deadline(29.0))
    assert report.planned == 2 and now == [20.0]
    assert report.remarks == ("a deadline ended the search: another run may give another plan",)
    assert search_prepared(prepared(parse_hlo(TWO_WEIGHTS), mesh_of_devices(4))).planned > 2


def test_operations_that_are_alike_are_split_once(monkeypatch):
    """Of layers that are written out, in estimates and in plans."""
    asked = []

    def counting(question):
        asked.append(question.instruction.name)
        return choose(question)

    monkeypatch.setattr("lowtide.spmd.memo.choose", counting)
    counts = []
    for layers in (4, 8):
        asked.clear()
        found = prepared(parse_hlo(_layers(layers)), mesh_of_devices(2))
        found.estimator.estimate(found.program.whole)
        found.planner.plan(found.program.whole, None)
        counts.append(len(asked))
    assert counts[0] == counts[1]


def _layers(count):
    lines = ["HloModule layers", "ENTRY main {", "  h0 = f32[16,64] parameter(0)"]
    for i in range(count):
        lines += [
            f"  w{i} = f32[64,64] parameter({i + 1})",
            f"  d{i} = f32[16,64] dot(h{i}, w{i}), lhs_contracting_dims={{1}}, "
            "rhs_contracting_dims={0}",
            f"  h{i + 1} = f32[16,64] tanh(d{i})",
        ]
    return "\n".join([*lines, f"  ROOT r = f32[16,64] negate(h{count})", "}"])


def test_a_search_without_a_cap_that_found_nothing_in_time_fails():
    module = parse_hlo(TWO_WEIGHTS)
    report = search_shardings(module, mesh_of_devices(4), None, deadline=Deadline(0.0))
    assert report.choices == ()
    assert report.failure().startswith("no division over 4 devices was planned; a deadline ended")


def test_a_deadline_is_told_where_nothing_was_found_in_time():
    module = parse_hlo(TWO_WEIGHTS)
    report = search_shardings(module, mesh_of_devices(4), 9_000_000, deadline=Deadline(0.0))
    assert report.planned <= 1
    assert "a deadline ended the search: another run may give another plan" in report.failure()


def test_shardings_of_the_module_are_left_aside_and_counted():
    text = TWO_WEIGHTS.replace(
        "  ROOT y",
        '  k = f32[64,2048] custom-call(h), custom_call_target="Sharding", '
        "sharding={devices=[1,4]<=[4]}\n  ROOT y",
    ).replace("dot(h, w2)", "dot(k, w2)")
    report = search_shardings(parse_hlo(text), mesh_of_devices(4), 20_000_000)
    assert report.choices
    assert report.remarks[0].startswith("1 sharding that the program asks of values inside was")


@pytest.mark.parametrize(
    "line, message",
    [
        ("a = f32[64,2048] all-reduce(h), to_apply=add, replica_groups={}", "for each device"),
        ('a = f32[16,2048] custom-call(h), custom_call_target="SPMDFullToShardShape"', "shard_map"),
    ],
)
def test_programs_whose_division_is_given_are_refused(line, message):
    add = "add {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b)\n}\n"
    text = TWO_WEIGHTS.replace("ENTRY", f"{add}ENTRY").replace("  ROOT y", f"  {line}\n  ROOT y")
    with pytest.raises(InputError, match=message):
        search_shardings(parse_hlo(text), mesh_of_devices(4))


def test_a_mesh_that_divides_nothing_and_one_that_divides_little():
    with pytest.raises(InputError, match="no dimension of an argument divides by 7: give another"):
        search_shardings(parse_hlo(TWO_WEIGHTS), mesh_of_devices(7))
    report = search_shardings(parse_hlo(TWO_WEIGHTS), mesh_of_text("4x7"), 20_000_000)
    assert report.choices
    assert report.remarks == ("no dimension of an argument divides by 7",)


def test_functions_and_modules_are_divided_by_explain():
    report = lowtide.explain(parse_hlo(TWO_WEIGHTS), devices=4, memory="20MB")
    assert report.best.peak_bytes <= 20_000_000
    named = lowtide.explain(parse_hlo(TWO_WEIGHTS), mesh={"data": 2, "model": 2})
    assert tuple(named.best.mesh) == ("data", "model")
    with pytest.raises(ValueError, match="mesh has 4 devices, devices says 8"):
        lowtide.explain(parse_hlo(TWO_WEIGHTS), mesh="2x2", devices=8)
    with pytest.raises(TypeError, match="leave out the others"):
        lowtide.explain(parse_hlo(TWO_WEIGHTS), devices=4, what_if=True)


SCRIPT = """
import os
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
os.environ["JAX_PLATFORMS"] = "cpu"
import jax
import jax.numpy as jnp
import numpy as np

def step(params, x):
    loss = lambda p: jnp.mean((jnp.tanh(x @ p["a"]) @ p["b"]) ** 2)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, jax.grad(loss)(params))

LINES
params = {"a": np.ones((8, 16), np.float32), "b": np.ones((16, 8), np.float32)}
x = np.arange(32, dtype=np.float32).reshape(4, 8) / 32
results = [NamedSharding(mesh, spec) for spec in result_specs]
put = GIVEN
divided = jax.jit(
    step,
    in_shardings=put,
    out_shardings=jax.tree.unflatten(jax.tree.structure(params), results),
)
for one, other in zip(jax.tree.leaves(divided(params, x)), jax.tree.leaves(step(params, x))):
    np.testing.assert_allclose(one, other, 1e-5, 1e-5)
    assert len(one.sharding.device_set) == 4
placed = jax.tree.map(jax.device_put, (params, x), put)
for one, other in zip(jax.tree.leaves(divided(*placed)), jax.tree.leaves(step(params, x))):
    np.testing.assert_allclose(one, other, 1e-5, 1e-5)
given = divided.lower(params, x).compile().input_shardings[0][0]["a"]
print("specs", len(specs), "split", not given.is_fully_replicated)
"""


@pytest.mark.parametrize(
    ("is_text", "name", "given"),
    [
        (False, "params['a']", '(shardings("params", params), shardings("x", x))'),
        (True, "params__a__.1", "shardings(params, x)"),
    ],
)
def test_the_lines_for_a_script_divide_it_in_jax(is_text, name, given):
    """Text of HLO has names of instructions alone, which no path of a pytree is equal to."""
    jax = pytest.importorskip("jax")
    jnp = jax.numpy

    def step(params, x):
        def loss(p):
            return jnp.mean((jnp.tanh(x @ p["a"]) @ p["b"]) ** 2)

        return jax.tree.map(lambda p, g: p - 0.1 * g, params, jax.grad(loss)(params))

    params = {"a": jax.ShapeDtypeStruct((8, 16), "float32")}
    params["b"] = jax.ShapeDtypeStruct((16, 8), "float32")
    x = jax.ShapeDtypeStruct((4, 8), "float32")
    text = jax.jit(step).lower(params, x).compiler_ir("hlo").as_hlo_text()
    given_by = (parse_hlo(text),) if is_text else (step, params, x)
    smallest = lowtide.explain(*given_by, devices=4).choices[-1]
    assert any(smallest.arguments[name])
    text = SCRIPT.replace("LINES", "\n".join(smallest.python_lines())).replace("GIVEN", given)
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("specs ")
    assert done.stdout.rstrip().endswith(f"split {any(smallest.arguments[name])}")


def test_a_dimension_can_be_given_back_on_all_axes_at_once():
    program = shardable_program(parse_hlo(TWO_WEIGHTS), mesh_of_text("2x2"))
    travel = Travel(program)
    arrays = Arrays(program, travel.classes(), frozenset())
    hidden = next(x for x in arrays.classes if x.places == ((0, 1), (1, 0)))
    division = arrays.with_class(program.whole, hidden, (0, 1))
    assert program.whole in set(neighbours(arrays, division))
    assert division.undivided(hidden.places) == program.whole


def test_data_is_not_updated_and_tensors_are_what_makes_a_step_quicker():
    """The columns of the weight alone are quickest; with its rows beside them it is smaller."""
    program = shardable_program(parse_hlo(TRAINED), mesh_of_text("2x2"))
    arrays = Arrays(program, Travel(program).classes(), frozenset())
    batch, columns, rows = (
        next(x for x in arrays.classes if place in x.places) for place in ((2, 0), (0, 1), (0, 0))
    )

    def estimate(division):
        (_, by_columns), _, (by_batch, by_rows) = division.leaves
        saved = 1 * bool(by_batch) + 2 * bool(by_rows) + 3 * bool(by_columns)
        saved -= 3 * bool(by_rows and by_columns)
        return DivisionEstimate(10.0 - saved, 1000 >> 3 * bool(by_rows))

    found = list(strategies(arrays, estimate))
    usual = [x.division for x in found if x.is_usual]
    assert usual[0] == arrays.with_class(program.whole, batch, (0, 1))
    tensors = arrays.with_class(program.whole, columns, (0, 1))
    assert usual[-1] == tensors
    assert arrays.with_class(tensors, rows, (0, 1)) in [x.division for x in found if not x.is_usual]


def test_what_people_write_by_hand_is_planned_first():
    module = parse_hlo(TWO_WEIGHTS.replace("f32[64,", "f32[65536,"))
    found = prepared(module, mesh_of_text("2x2"))
    planned = []
    plan = found.planner.plan
    found.planner.plan = lambda division, cap: planned.append(division) or plan(division, cap)
    search_prepared(found)
    rows = found.program.whole
    for axis in (0, 1):
        rows = rows.given(found.program.mesh, found.program.sizes, (0, 0), axis)
    assert rows in planned[:2]
    spread = [x for x in planned[:2] if x != rows]
    assert all(x.leaves[0] == rows.leaves[0] and any(x.leaves[1]) for x in spread)


@pytest.mark.parametrize("text", [TWO_WEIGHTS, TRAINED, STACKED], ids=["two", "trained", "stacked"])
def test_what_fits_under_one_cap_is_found_under_every_larger_one(text):
    found = prepared(parse_hlo(text), mesh_of_text("2x2"), keeps=True)
    least = search_prepared(found, 1).least_bytes
    assert least is not None
    for part in (1.0, 1.05, 1.2, 1.5):
        assert search_prepared(found, int(least * part)).choices, part


@pytest.mark.parametrize("part", [1.05, 1.2, 1.5, 1.9, 2.5])
@pytest.mark.parametrize("plans", [6, 18])
def test_the_smallest_is_planned_early_where_estimates_promise_too_much(plans, part):
    """What is estimated to fit takes three times as much, but for the least that is known."""

    def planned(division, factor):
        guess = found.estimator.estimate(division)
        return PlannedDivision(division, factor * guess.peak_bytes, 0, guess.seconds, ())

    found = prepared(parse_hlo(TWO_WEIGHTS), mesh_of_text("2x2x2"))
    found.planner.plan = lambda division, memory: planned(division, 1)
    least = search_prepared(found, 1).least_bytes
    cap = int(part * least)

    def misjudged(division, memory):
        guess = found.estimator.estimate(division).peak_bytes
        return planned(division, 3 if least < guess <= cap else 1)

    found = prepared(parse_hlo(TWO_WEIGHTS), mesh_of_text("2x2x2"))
    found.planner.plan = misjudged
    assert search_prepared(found, cap, effort=SearchEffort(plans=plans)).choices


def test_the_words_of_random_keys_stay_together(monkeypatch):
    """A key is one value in JAX, and an array of its words in HLO: no sharding can split these."""
    jax = pytest.importorskip("jax")

    def step(weights, keys, *, last):
        drawn = jax.vmap(lambda key: jax.random.normal(key, (16,)))(keys)
        return (drawn + jax.random.normal(last, (16,))) @ weights

    given = jax.ShapeDtypeStruct((16, 64), "float32"), jax.random.split(jax.random.key(0), 8)
    asked = {}

    def searched(module, mesh, memory, *, options, ranks, deadline):
        asked.update(ranks)
        for known in ({}, ranks):
            program = shardable_program(module, mesh, known)
            names = [leaf.name for leaf in program.leaves]
            words = names.index("keys"), 1
            changed = program.whole.given(mesh, program.sizes, words, 0)
            assert (changed == program.whole) is bool(known)
            batch = names.index("keys"), 0
            assert program.whole.given(mesh, program.sizes, batch, 0) != program.whole

    monkeypatch.setattr("lowtide.sharding_search.search.search_shardings", searched)
    lowtide.explain(step, *given, last=jax.random.key(1), mesh="2x2")
    assert asked == {"keys": 1, "last": 0}
