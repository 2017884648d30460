"""`lowtide verify`: kinds of plans, what it prints, exit status."""

import json
import re
from pathlib import Path

import pytest

from lowtide.compiler import PlanOptions, plan
from lowtide.frontend.hlo_proto import write_buffer_assignment, write_hlo_proto
from lowtide.frontend.hlo_text import parse_hlo

TEXT = """HloModule chain
ENTRY e {
  p = f32[64] parameter(0)
  a = f32[64] negate(p)
  b = f32[64] reverse(a), dimensions={0}
  c = f32[64] add(a, b)
  ROOT d = (f32[64], f32[64]) tuple(b, c)
}
"""
RIGHT = re.compile(r"plan is right: [\d,]+ values, [\d,]+ steps, [\d,]+ bytes\n")


@pytest.fixture
def module(tmp_path: Path) -> Path:
    path = tmp_path / "chain.hlo"
    path.write_text(TEXT)
    return path


@pytest.fixture
def plan_file(lowtide, module) -> Path:
    """A plan that brings its module along."""
    path = module.with_name("plan.json")
    assert lowtide("plan", module, "--stage", "input", "-o", path) == 0
    return path


def put(path: Path, instruction: str, offset: int) -> Path:
    """Return a copy of a JSON plan in which a value lies elsewhere in the arena."""
    document = json.loads(path.read_text())
    arena = next(x["index"] for x in document["allocations"] if x["kind"] == "arena")
    (value,) = [x for x in document["offsets"] if x["instruction"] == instruction]
    value.update(offset=offset, allocation=arena)
    broken = path.with_name("broken.json")
    broken.write_text(json.dumps(document))
    return broken


def test_a_plan_in_json(lowtide, plan_file) -> None:
    assert lowtide("verify", plan_file) == 0
    assert RIGHT.fullmatch(lowtide.out)
    assert not lowtide.err


def test_a_plan_in_a_hlo_proto(lowtide, module) -> None:
    path = module.with_name("plan.pb")
    assert lowtide("plan", module, "-o", path) == 0
    assert lowtide("verify", path) == 0
    assert RIGHT.fullmatch(lowtide.out)
    assert lowtide("verify", path, module) == 1
    assert "leave MODULE out" in lowtide.err or "has no schedule" in lowtide.err


def test_a_bare_buffer_assignment_with_its_module(lowtide, tmp_path) -> None:
    planned = plan(parse_hlo(TEXT), PlanOptions("input"))
    path, other = tmp_path / "plan.ba.pb", tmp_path / "module.pb"
    path.write_bytes(write_buffer_assignment(planned.module, planned.assignment))
    other.write_bytes(write_hlo_proto(planned.module))
    assert lowtide("verify", path, other) == 0
    assert RIGHT.fullmatch(lowtide.out)
    assert lowtide("verify", path) == 1
    assert "give the module proto of the same executable as MODULE" in lowtide.err
    path.write_bytes(path.read_bytes()[:-9])
    assert lowtide("verify", path, other) == 1
    assert "the data end" in lowtide.err


def test_a_plan_that_is_wrong(lowtide, plan_file) -> None:
    document = json.loads(plan_file.read_text())
    (a,) = [x for x in document["offsets"] if x["instruction"] == "a"]
    broken = put(plan_file, "b", a["offset"])
    assert lowtide("verify", broken) == 4
    first = lowtide.out.splitlines()[0]
    assert first.startswith("overlap: b f32[64], made at step 2, overwrites operand 0, a f32[64]")
    assert "the plan is wrong: " in lowtide.err
    count = len(lowtide.out.splitlines())
    assert lowtide("verify", broken, "--limit", 1) == 4
    listed = lowtide.out.splitlines()
    assert listed[0] == first
    assert count == 1 or listed[1:] == [f"and {count - 1} more; --limit lists more"]
    assert lowtide("verify", broken, "--json") == 4
    answer = json.loads(lowtide.out)
    assert not answer["right"]
    assert answer["violation_count"] == count
    assert answer["violations"][0]["names"] == ["b", "a"]


def test_a_packing(lowtide, tmp_path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("id,lower,upper,size,offset\na,0,3,5,0\nb,2,4,5,5\n")
    assert lowtide("verify", path) == 0
    assert lowtide.out == "plan is right: 2 values, 4 steps, 10 bytes\n"
    assert lowtide("verify", path, "--capacity", 9) == 4
    assert lowtide.out == "bounds: b ends at 10, beyond the capacity of 9 bytes\n"
    path.write_text("id,lower,upper,size,offset\na,0,3,5,0\nb,2,4,5,x\n")
    assert lowtide("verify", path) == 1
    assert f"{path}: 3:9: expected a number from 0 as offset, found 'x'" in lowtide.err
    assert lowtide("verify", path, path) == 1
    assert "a packing needs no module" in lowtide.err


def test_what_is_no_plan(lowtide, module, plan_file) -> None:
    assert lowtide("verify", module) == 1
    assert "is no plan; expected what `lowtide plan MODEL -o PLAN` writes" in lowtide.err
    proto = module.with_name("module.pb")
    proto.write_bytes(write_hlo_proto(parse_hlo(TEXT)))
    assert lowtide("verify", proto) == 1
    assert "plan" in lowtide.err
    assert lowtide("verify", plan_file, module) == 1
    assert "has no schedule (is_scheduled=true)" in lowtide.err
    empty = module.with_name("empty")
    empty.write_bytes(b"")
    assert lowtide("verify", empty) == 1
    assert "the input is empty" in lowtide.err
    assert lowtide("verify", "-", "-") == 1
    assert lowtide("verify", module.with_name("none")) == 1
    assert "no such file" in lowtide.err


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("m.onnx", b"\x08\x08" + b"\x3a\x03\x12\x01g" + b"\x42\x02\x10\x12"),
        ("m.tflite", b"\x1c\0\0\0TFL3" + bytes(20)),
        ("m.mlir", b"ML\xefR" + bytes(20)),
    ],
)
def test_models_in_place_of_a_plan(lowtide, tmp_path, name: str, data: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    assert lowtide("verify", path) == 1
    assert f"{path}: is no plan; expected what `lowtide plan MODEL" in lowtide.err


def test_bytes_that_changed_are_one_error_in_every_command(lowtide, module) -> None:
    path = module.with_name("plan.pb")
    assert lowtide("plan", module, "-o", path) == 0
    right = path.read_bytes()
    broken = [right[: len(right) * i // 24] for i in range(24)]
    for i in range(0, len(right), 13):
        broken += [right[:i] + bytes([right[i] ^ 1 << i % 8]) + right[i + 1 :]]
    commands = (("verify",), ("explain", "--no-compile", "--plan"), ("run", module, "--plan"))
    for data in broken:
        path.write_bytes(data)
        for command in commands:
            status = lowtide(*command, path)
            assert status in (0, 1, 4)
            assert lowtide.err.count("error: ") == (status != 0)


def test_numbers_beyond_all_measure(lowtide, tmp_path, plan_file) -> None:
    packing = tmp_path / "x.csv"
    packing.write_text(f"id,lower,upper,size,offset\na,0,3,5,{'9' * 5000}\n")
    assert lowtide("verify", packing) == 1
    assert f"{packing}: 2:9: expected at most 19 digits" in lowtide.err
    document = json.loads(plan_file.read_text())
    for number in (10**30, 1 << 63):
        document["allocations"][-1]["bytes"] = number
        plan_file.write_text(json.dumps(document))
        assert lowtide("verify", plan_file) == 1
        assert "below 2^63" in lowtide.err
    plan_file.write_text(plan_file.read_text().replace(str(number), "9" * 5000))
    assert lowtide("verify", plan_file) == 1
    assert lowtide.err.startswith(f"error: {plan_file}: not a plan: ")


def test_a_module_in_a_plan_that_breaks_a_rule_is_not_run(lowtide, module, plan_file) -> None:
    document = json.loads(plan_file.read_text())
    text = document["scheduled_module"].replace("add(", "dot(")
    plan_file.write_text(json.dumps({**document, "scheduled_module": text}))
    for command in (("verify",), ("explain", "--plan"), ("run", module, "--plan")):
        assert lowtide(*command, plan_file) == 1
        assert lowtide.err.startswith(f"error: {plan_file}: ")


def test_a_plan_of_another_module(lowtide, plan_file) -> None:
    other = plan_file.with_name("other.hlo")
    text = TEXT.replace("HloModule chain", "HloModule chain, is_scheduled=true")
    other.write_text(text.replace("f32[64]", "f32[65]"))
    assert lowtide("verify", plan_file, other) == 1
    assert "256 bytes for" in lowtide.err
    other.write_text(text)
    assert lowtide("verify", plan_file, other) == 0
