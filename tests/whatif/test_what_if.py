"""What-if: changes are made as named, planned again, and only those that pay are listed."""

import itertools
import json

import numpy as np
import pytest
from tests.support import EXAMPLES

import lowtide
from lowtide.compiler import PlanOptions, plan
from lowtide.cost.module_times import run_seconds
from lowtide.ir import LowtideError, Opcode
from lowtide.ir.literal import DTYPES
from lowtide.report.drawing import Paint
from lowtide.report.what_if import what_if_lines
from lowtide.search.deadline import Deadline
from lowtide.search.effort import SearchOptions
from lowtide.verifier import verify
from lowtide.whatif.baseline import Baseline
from lowtide.whatif.change import ImpossibleChangeError
from lowtide.whatif.search import after_change, changes_of, what_if

STEP = """HloModule jit_step, entry_computation_layout={(f32[64,64]{1,0}, f32[64,64]{1,0})->(f32[64,64]{1,0}, f32[])}

ENTRY main {
  state = f32[64,64]{1,0} parameter(0), metadata={op_name="state['w']"}
  x = f32[64,64]{1,0} parameter(1), metadata={op_name="x"}
  a = f32[64,64]{1,0} dot(x, state), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="jit(step)/jvp(f)/dot" source_file="m.py" source_line=3}
  b = f32[64,64]{1,0} tanh(a), metadata={op_name="jit(step)/jvp(f)/tanh" source_file="m.py" source_line=4}
  c = f32[64,64]{1,0} dot(b, state), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="jit(step)/jvp(g)/dot" source_file="m.py" source_line=5}
  d = f32[64,64]{1,0} tanh(c), metadata={op_name="jit(step)/jvp(g)/tanh" source_file="m.py" source_line=6}
  e = f32[64,64]{1,0} dot(d, state), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="jit(step)/jvp(h)/dot" source_file="m.py" source_line=7}
  g = f32[64,64]{1,0} dot(e, d), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="jit(step)/transpose(jvp(g))/dot" source_file="m.py" source_line=7}
  h = f32[64,64]{1,0} dot(g, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="jit(step)/transpose(jvp(f))/dot" source_file="m.py" source_line=3}
  new = f32[64,64]{1,0} multiply(h, h)
  zero = f32[] constant(0)
  ROOT out = (f32[64,64]{1,0}, f32[]) tuple(new, zero)
}
"""  # noqa: E501


def baseline(source: str) -> Baseline:
    module = lowtide.parse_hlo(source)
    options = PlanOptions("input", search=SearchOptions(deadline=Deadline()))
    return Baseline(module, plan(module, options), options)


def change(base: Baseline, name: str):
    return {x.name: x for x in changes_of(base)}[name]


ARGUMENTS = [np.linspace(-1, 1, 4096, dtype=np.float32).reshape(64, 64) for _ in range(2)]
SIZE = 64 * 64 * 4


@pytest.mark.parametrize(
    "name", ["donate:state", "checkpoint:jvp(f)", "checkpoint:jvp(g)", "offload:state", "bf16:x"]
)
def test_a_changed_program_is_valid_and_computes_the_same(name: str) -> None:
    base = baseline(STEP)
    module = change(base, name).plan(base).module
    verify(module)
    types = [DTYPES[x.shape.element_type] for x in module.entry.parameters]
    given = [x.astype(dtype) for x, dtype in zip(ARGUMENTS, types, strict=True)]
    found = lowtide.evaluate(module, given)
    expected = lowtide.evaluate(base.given, ARGUMENTS)
    scale = float(np.abs(expected[0]).max())
    tolerance = 0.05 if name.startswith("bf16") else 0.0
    np.testing.assert_allclose(found[0], expected[0], rtol=tolerance, atol=tolerance * scale)


def test_a_checkpoint_runs_kernels_again() -> None:
    base = baseline(STEP)
    found = change(base, "checkpoint:jvp(f)").plan(base)
    assert found.module.entry.instructions.keys() >= base.module.entry.instructions.keys()
    again = found.module.instruction_count - base.module.instruction_count
    assert again >= 1
    machine = base.options.target.machine
    assert run_seconds(found.module.entry, machine) > run_seconds(base.module.entry, machine)


def test_a_donation_takes_the_output_from_the_arena() -> None:
    base = baseline(STEP)
    report = change(base, "donate:state").plan(base).report
    assert report.alias_bytes == SIZE
    assert base.report.alias_bytes == 0


def test_an_offloaded_argument_is_in_the_memory_of_the_host() -> None:
    base = baseline(STEP)
    report = change(base, "offload:state").plan(base).report
    assert report.argument_bytes == base.report.argument_bytes - SIZE
    assert [x.argument_bytes for x in report.spaces] == [SIZE]


def test_bf16_halves_an_argument() -> None:
    base = baseline(STEP)
    report = change(base, "bf16:x").plan(base).report
    assert report.argument_bytes == base.report.argument_bytes - SIZE // 2


def test_bf16_of_what_a_step_updates_halves_its_new_value_too() -> None:
    base = baseline(STEP)
    state = change(base, "bf16:state")
    report = state.plan(base).report
    assert report.argument_bytes == base.report.argument_bytes - SIZE // 2
    assert report.output_bytes == base.report.output_bytes - SIZE // 2
    assert "its new value too" in state.code
    assert "its new value too" not in change(base, "bf16:x").code
    bare = baseline(STEP.replace("state['w']", "state"))  # As images that a network adds to.
    assert "its new value too" not in change(bare, "bf16:state").code


def test_counts_beside_weights_stay_in_the_line_for_bf16() -> None:
    """As in an optimizer's state: the line must not make its counts and keys numbers of bf16."""
    layout = "f32[64,64]{1,0}, f32[64,64]{1,0})->"
    source = STEP.replace(layout, "f32[64,64]{1,0}, f32[64,64]{1,0}, s32[])->")
    count = "  count = s32[] parameter(2), metadata={op_name=\"state['count']\"}\n"
    base = baseline(source.replace("  a = f32", count + "  a = f32"))
    narrow = "lambda x: x.astype(jnp.bfloat16)"
    assert f"{narrow} if x.dtype == jnp.float32 else x, state" in change(base, "bf16:state").code
    assert f"{narrow}, x)" in change(base, "bf16:x").code


def test_the_order_of_a_scheduled_module_stays() -> None:
    given = plan(lowtide.parse_hlo(STEP), PlanOptions("input")).module
    base = baseline(str(given))
    assert base.has_given_order
    kinds = {x.name.partition(":")[0] for x in changes_of(base)}
    assert kinds <= {"donate", "checkpoint", "budget"}
    module = change(base, "donate:state").plan(base).module
    assert module.schedule is not None
    names = [x.name for x in module.schedule.sequences[module.entry] if x.opcode is not Opcode.COPY]
    before = base.module.schedule.sequences[base.module.entry]
    assert names == [x.name for x in before if x.opcode is not Opcode.COPY]


def test_a_change_without_effect_is_refused() -> None:
    base = baseline(STEP.replace("transpose(jvp(f))", "transpose(jvp(z))"))
    with pytest.raises(ImpossibleChangeError, match="read in the backward pass"):
        change(base, "checkpoint:jvp(f)").plan(base)


# -- what is listed --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cnn() -> lowtide.MemoryReport:
    return lowtide.explain(EXAMPLES / "mnist_cnn.hlo.xz", what_if=True, effort="fast")


def test_those_that_pay_are_listed_best_first(cnn: lowtide.MemoryReport) -> None:
    assert cnn.what_if is not None
    changes = cnn.what_if.changes
    assert len(changes) >= 2
    ranks = [x.rank for x in changes]
    assert ranks == sorted(ranks)
    for x in changes:
        assert x.saved_bytes == cnn.total_bytes - x.total_bytes > 0
        assert x.bound_bytes <= x.total_bytes
        assert x.source is not None and x.source.line > 0
    names = {x.name for x in changes}
    assert not names & set(cnn.what_if.useless)


def test_of_budgets_of_one_plan_the_smallest_is_listed(cnn: lowtide.MemoryReport) -> None:
    assert cnn.what_if is not None
    budgets = [x for x in cnn.what_if.changes if x.name.startswith("budget:")]
    assert len({(x.arena_bytes, x.extra_seconds) for x in budgets}) == len(budgets)
    assert [x.name for x in budgets] == ["budget:50%"]
    assert "budget:75%" in cnn.what_if.useless


def test_what_is_tried_is_what_was_listed(cnn: lowtide.MemoryReport) -> None:
    assert cnn.what_if is not None
    for x in cnn.what_if.changes[:3]:
        report = lowtide.explain(EXAMPLES / "mnist_cnn.hlo.xz", what_if=x.name, effort="fast")
        assert report.total_bytes == x.total_bytes


def test_the_screen_and_the_json_have_them(cnn: lowtide.MemoryReport) -> None:
    assert cnn.what_if is not None
    first = cnn.what_if.changes[0]
    assert first.name in str(cnn) and "What if" in str(cnn)
    document = json.loads(json.dumps(cnn.to_json()))
    assert document["what_if"]["changes"][0]["saved_bytes"] == first.saved_bytes
    assert "what_if" not in lowtide.explain(EXAMPLES / "mlp.hlo.xz", effort="fast").to_json()


@pytest.mark.slow
def test_a_checkpoint_comes_near_the_one_in_the_program() -> None:
    plain, found = [
        lowtide.explain(EXAMPLES / "gpt2.hlo.xz", effort="fast", **given)
        for given in ({}, {"what_if": "checkpoint:transformer_block"})
    ]
    real = lowtide.explain(EXAMPLES / "gpt2_remat.hlo.xz", effort="fast")
    saved = plain.ladder.live_bytes - found.ladder.live_bytes
    assert saved > 0.9 * (plain.ladder.live_bytes - real.ladder.live_bytes) > 0


def test_the_deadline_leaves_out_what_there_is_no_time_for() -> None:
    module = lowtide.parse_hlo(STEP)
    options = PlanOptions("input", search=SearchOptions(deadline=0.0))
    found = what_if(module, options).report.what_if
    assert found is not None
    assert not found.changes and not found.useless
    assert "donate:state" in [x.name for x in found.left_out]
    assert any("Not planned" in x for x in what_if_lines(found, 80, Paint(color=False)))


def test_an_unknown_name_is_told_the_nearest() -> None:
    with pytest.raises(LowtideError, match="no change 'donate:stat'; did you mean 'donate:state'"):
        after_change(lowtide.parse_hlo(STEP), "donate:stat", PlanOptions("input"))


def test_a_module_without_metadata_has_changes_by_shape() -> None:
    text = "\n".join([x.partition(", metadata=")[0] for x in STEP.splitlines()])
    base = baseline(text)
    names = [x.name for x in changes_of(base)]
    assert "checkpoint:f32[64,64]" in names
    module = change(base, "checkpoint:f32[64,64]").plan(base).module
    np.testing.assert_array_equal(
        lowtide.evaluate(module, ARGUMENTS)[0], lowtide.evaluate(base.given, ARGUMENTS)[0]
    )


def test_a_budget_and_what_if_exclude_each_other() -> None:
    with pytest.raises(ValueError, match="leave out memory"):
        lowtide.explain(lowtide.parse_hlo(STEP), what_if=True, memory="1MB")


def test_without_a_deadline_the_clock_decides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    module = lowtide.parse_hlo(STEP)
    options = PlanOptions("input", search=SearchOptions())
    found = what_if(module, options).report.what_if
    clock = itertools.count(0.0, 20.0)
    monkeypatch.setattr("lowtide.whatif.search.perf_counter", lambda: next(clock))
    assert what_if(module, options).report.what_if == found


def test_without_a_deadline_work_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    module = lowtide.parse_hlo(STEP)
    monkeypatch.setattr("lowtide.whatif.search._LEAST_WORK", 0)
    monkeypatch.setattr("lowtide.whatif.search._WORK", 80)
    found = what_if(module, PlanOptions("input", search=SearchOptions())).report.what_if
    assert found is not None and found.changes
    assert [x.name for x in found.left_out] == ["chunk:2", "chunk:8"]
    monkeypatch.setattr("lowtide.whatif.search._WORK", 0)
    found = what_if(module, PlanOptions("input", search=SearchOptions())).report.what_if
    assert found is not None and not found.changes
    assert [x.name for x in found.left_out][:2] == ["budget:50%", "budget:75%"]
    assert any("budget:50% (about " in x for x in what_if_lines(found, 200, Paint(color=False)))
