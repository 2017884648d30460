"""`lowtide run --arena`: what it prints, and the status for a plan at fault."""

import json

from tests.cli.conftest import edited

MODULE = """HloModule m, is_scheduled=true

ENTRY main {
  x = f32[16]{0} parameter(0)
  a = f32[16]{0} sine(x)
  b = f32[16]{0} negate(x)
  c = f32[16]{0} add(a, b)
  ROOT d = f32[16]{0} multiply(a, c)
}
"""


def test_the_arena_and_its_bytes_are_named(lowtide, small):
    assert lowtide("run", small, "--reference", "--arena") == 0
    first, second = lowtide.out.splitlines()[:2]
    assert "inside an arena of " in first
    assert second == "equal to the reference evaluator bit for bit"
    assert lowtide("run", small, "--arena", "--sanitize") == 0
    assert lowtide.out.splitlines()[1].endswith("bit for bit, each byte read was checked")


def test_json_has_the_engine_and_the_arena(lowtide, small):
    assert lowtide("run", small, "--json", "--reference") == 0
    usual = json.loads(lowtide.out)
    assert lowtide("run", small, "--arena", "--sanitize", "--json", "--repeat", 2) == 0
    document = json.loads(lowtide.out)
    assert (document["engine"], document["sanitized"]) == ("arena", True)
    assert document["arena_bytes"] > 0
    assert len(document["seconds"]) == 2
    assert document["outputs"] == usual["outputs"]
    assert usual["engine"] == "reference"
    assert "arena_bytes" not in usual


def test_a_plan_from_a_file(lowtide, tmp_path):
    module, plan = tmp_path / "m.hlo", tmp_path / "plan.json"
    module.write_text(MODULE)
    assert lowtide("plan", module, "-o", plan) == 0
    assert lowtide("run", module, "--plan", plan) == 0
    document = json.loads(plan.read_text())
    arena = document["offsets"]
    by_name = {row["name"]: row for row in arena}
    assert by_name["a"]["offset"] != by_name["b"]["offset"]
    by_name["b"]["offset"] = by_name["a"]["offset"]
    plan.write_text(json.dumps(document))
    assert lowtide("run", module, "--plan", plan, "--sanitize") == 4
    assert "error: %" in lowtide.err
    assert "damaged: %a in %main" in lowtide.err
    assert "written: %b in %main" in lowtide.err
    assert lowtide("run", module, "--plan", plan) == 4
    assert "differs from the evaluator's" in lowtide.err


def test_a_plan_of_another_module(lowtide, tmp_path, small):
    module, plan = tmp_path / "m.hlo", tmp_path / "plan.json"
    module.write_text(MODULE)
    assert lowtide("plan", module, "-o", plan) == 0
    assert lowtide("run", small, "--plan", plan) == 1
    assert f"{plan}: is the plan of another module: its parameters differ" in lowtide.err
    other = edited(module, "sine", "cosine")
    assert lowtide("run", other, "--plan", tmp_path / "none.json") == 1


def test_a_plan_of_another_program_with_the_same_parameters(lowtide, tmp_path):
    given, other, plan = tmp_path / "m.hlo", tmp_path / "other.hlo", tmp_path / "other.json"
    given.write_text(MODULE)
    other.write_text(MODULE.replace("add(a, b)", "subtract(a, b)"))
    assert lowtide("plan", other, "-o", plan) == 0
    assert lowtide("run", given, "--plan", plan) == 1
    assert "is the plan of another program" in lowtide.err
    assert lowtide("run", other, "--plan", plan, "--sanitize") == 0
