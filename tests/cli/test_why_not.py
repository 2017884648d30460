"""`lowtide explain --why-not`."""

import json

import pytest

MODULE = """HloModule step

ENTRY main {
  x = f32[64,64] parameter(0)
  first = f32[64,64] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  scaled = f32[64,64] tanh(first)
  ROOT second = f32[64,64] dot(scaled, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""


@pytest.fixture
def module(tmp_path):
    path = tmp_path / "step.hlo"
    path.write_text(MODULE)
    return path


def test_two_kernels(lowtide, module):
    assert lowtide("explain", module, "--why-not", "first", "second") == 0
    lines = lowtide.out.splitlines()
    assert lines[0] == "first is in tanh_fusion; second is in second"
    assert lines[1] == (
        "  scaled is not computed where it is read: second would follow a contraction in one "
        "kernel, and only elementwise work can"
    )


def test_one_kernel(lowtide, module):
    assert lowtide("explain", module, "--why-not", "first", "%scaled") == 0
    assert lowtide.out == "first and %scaled are one kernel: tanh_fusion\n"


def test_json(lowtide, module):
    assert lowtide("explain", module, "--why-not", "scaled", "second", "--json") == 0
    found = json.loads(lowtide.out)
    assert found["kernels"] == [["tanh_fusion"], ["second"]]
    assert found["reasons"][0]["kind"] == "not_a_loop"
    assert found["reasons"][0]["by"] == "second"


def test_names_and_options(lowtide, module):
    assert lowtide("explain", module, "--why-not", "frist", "second") == 1
    assert "no instruction 'frist' in step; did you mean 'first'?" in lowtide.err
    assert lowtide("explain", module, "--why-not", "first") == 1
    assert lowtide("explain", module, "--why-not", "first", "second", "--what-if") == 1
    assert "--why-not is a question by itself" in lowtide.err
    scheduled = module.with_name("scheduled.hlo")
    scheduled.write_text(MODULE.replace("HloModule step", "HloModule step, is_scheduled=true"))
    assert lowtide("explain", scheduled, "--why-not", "first", "second") == 1
    assert "with --reoptimize lowtide makes its own" in lowtide.err
    assert lowtide("explain", scheduled, "--why-not", "first", "second", "--reoptimize") == 0
