"""Dump directories of GPUs: read, planned as they are, compared with XLA's plan, taken apart."""

import json

import pytest
from tests.autopsy.plans import planned
from tests.comparison.test_diff import check_parts
from tests.report.test_plan_page import data_of

import lowtide
from lowtide.compiler import ModulePlan
from lowtide.xla.dumps.buffer_assignment import buffer_assignment_text
from lowtide.xla.dumps.memory_usage import memory_usage, memory_usage_text

STEP = """HloModule jit_step, is_scheduled=true

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

triton_gemm {
  l = f32[64,64] parameter(0)
  r = f32[64,64] parameter(1)
  ROOT m = f32[64,64] dot(l, r), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}

command_buffer {
  p = f32[64,64] parameter(0)
  n = f32[64,64] negate(p)
  ROOT e = f32[64,64] exponential(n)
}

ENTRY main {
  w = f32[64,64] parameter(0), metadata={op_name="w"}
  x = f32[64,64] parameter(1), metadata={op_name="x"}
  gemm = (f32[64,64], s8[8192]) custom-call(x, w), custom_call_target="__cublas$gemm", metadata={op_name="jit(step)/dot_general" source_file="step.py" source_line=4}
  h = f32[64,64] get-tuple-element(gemm), index=0
  out = (f32[64,64]{1,0:S(5)}, f32[64,64]{1,0}, u32[]) copy-start(h), metadata={op_name="jit(step)/offload" source_file="step.py" source_line=5}
  reduced = f32[64,64] all-reduce-start(h), replica_groups={{0}}, to_apply=add, metadata={op_name="jit(step)/psum" source_file="step.py" source_line=6}
  t = f32[64,64] fusion(x, w), kind=kCustom, calls=triton_gemm, backend_config={"fusion_backend_config":{"kind":"__triton_gemm"}}, metadata={op_name="jit(step)/dot_general" source_file="step.py" source_line=7}
  sum = f32[64,64] all-reduce-done(reduced)
  far = f32[64,64]{1,0:S(5)} copy-done(out)
  graph = f32[64,64] call(t), to_apply=command_buffer, metadata={op_name="jit(step)/exp" source_file="step.py" source_line=8}
  in = (f32[64,64]{1,0}, f32[64,64]{1,0:S(5)}, u32[]) copy-start(far)
  near = f32[64,64]{1,0} copy-done(in)
  y = f32[64,64] add(graph, sum)
  ROOT z = f32[64,64] add(y, near)
}
"""  # noqa: E501
NAME = "module_0007.jit_step.sm_9.0_gpu_after_optimizations"


@pytest.fixture
def made() -> ModulePlan:
    return planned(STEP)


@pytest.fixture
def dump(tmp_path, made):
    """A dump directory as XLA writes it for a GPU, with a module of another stage."""
    (tmp_path / "module_0007.jit_step.before_optimizations.txt").write_text(STEP)
    (tmp_path / f"{NAME}.txt").write_text(str(made.module))
    report = memory_usage_text(memory_usage(made.assignment))
    (tmp_path / f"{NAME}-memory-usage-report.txt").write_text(report)
    text = buffer_assignment_text(made.module, made.assignment)
    (tmp_path / f"{NAME}-buffer-assignment.txt").write_text(text)
    return tmp_path


def test_the_plan_is_taken_apart(lowtide_command, dump, made):
    assert lowtide_command("explain", dump) == 0
    assert "the plan takes" in lowtide_command.out and "step.py:" in lowtide_command.out
    assert "xla_cpu" not in lowtide_command.out, "options of XLA:CPU do nothing on a GPU"
    assert lowtide_command("explain", dump, "--json") == 0
    document = json.loads(lowtide_command.out)
    assert sum([x["bytes"] for x in document["causes"]]) == document["total_bytes"]
    assert document["autopsy"]["alternatives"]["plan"] == document["ladder"]["arena_bytes"]
    assert document["argument_bytes"] == made.report.argument_bytes
    held = {x["instruction"]: x["shape"] for x in document["peak"]["buffers"]}
    assert set(held) <= set(made.module.entry.instructions) | {"e", "n"}


def test_without_the_plan_the_offsets_are_ours(lowtide_command, dump, made):
    (dump / f"{NAME}-buffer-assignment.txt").unlink()
    assert lowtide_command("explain", dump) == 0
    assert "order as given, offsets by lowtide:" in lowtide_command.out
    assert "XLA's own plan is not in this directory" in lowtide_command.err
    total = memory_usage(made.assignment)[0].nbytes
    assert f"XLA's report counts {total:,} bytes in all" in lowtide_command.err
    assert "the host's memory" in lowtide_command.out
    report = lowtide.explain(str(dump))
    assert report.ladder.arena_bytes == made.report.ladder.arena_bytes
    assert [x.space for x in report.spaces] == [5]
    assert any("custom" in x or "scratch" in x for x in report.caveats)


def test_it_is_compared_and_drawn(lowtide_command, dump, tmp_path):
    diff = lowtide.diff(str(dump), lowtide.parse_hlo(STEP))
    check_parts(diff)
    assert diff.is_related
    page = tmp_path / "page.html"
    assert lowtide_command("explain", dump, "--html", page) == 0
    theirs, ours = data_of(page.read_text())["plans"]
    assert theirs["title"] == "jit_step, the plan" and ours["title"].endswith("by lowtide")
