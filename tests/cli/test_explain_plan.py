"""`lowtide explain --plan`: each kind of file, and each way in which a file can be wrong."""

import gzip
import json
from pathlib import Path

import pytest
from tests.autopsy.plans import WASTEFUL, planned
from tests.cli.test_commands import MEMORY_KEYS, check_memory_document

from lowtide.frontend.hlo_proto import write_hlo_proto, write_hlo_proto_plan
from lowtide.frontend.hlo_proto.messages import parse_message


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    """A HloProto with a module in a wasteful order, and its plan."""
    made = planned(WASTEFUL)
    path = tmp_path / "wasteful.pb"
    path.write_bytes(write_hlo_proto_plan(made.module, made.assignment))
    return path


@pytest.fixture
def blob(plan: Path) -> Path:
    """The same plan without the module."""
    path = plan.with_name("blob.pb")
    path.write_bytes(parse_message("HloProto", plan.read_bytes()).buffer_assignment)
    return path


def autopsy(document: dict) -> dict:
    """Return the section on the plan, the rest of the document checked."""
    check_memory_document(document)
    assert set(document) == MEMORY_KEYS | {"autopsy"}
    section = document["autopsy"]
    assert set(section) == {"alternatives", "live", "cause", "causes", "remedies", "loops"}
    assert set(section["alternatives"]) == {"plan", "same_order", "other_order", "bound"}
    for remedy in section["remedies"]:
        assert set(remedy) == {"change", "code", "predicted_bytes", "verified_bytes", "how"}
    return section


def test_a_plan_with_its_module(lowtide, plan):
    assert lowtide("explain", "--plan", plan, "--no-compile") == 0
    assert len(lowtide.out.splitlines()) <= 24
    assert "cause: order" in lowtide.out
    assert "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED" in lowtide.out


def test_json(lowtide, plan):
    assert lowtide("explain", "--plan", plan, "--json", "--no-compile") == 0
    section = autopsy(json.loads(lowtide.out))
    assert section["cause"] == "order"
    assert section["alternatives"]["plan"] > 3 * section["alternatives"]["other_order"]
    assert section["remedies"][0]["verified_bytes"] is None


@pytest.mark.parametrize(
    "options", [("--deadline", 1), ("--effort", "fast"), ("--stage", "input"), ("--reoptimize",)]
)
def test_what_is_about_making_a_plan_is_refused(lowtide, plan, options):
    assert lowtide("explain", "--plan", plan, *options) == 1
    assert lowtide.err.count("\n") == 1 and "leave out --plan" in lowtide.err
    assert lowtide("explain", "--plan", plan, "--effort", "much") == 1
    assert "no effort 'much'" in lowtide.err


def test_a_plan_beside_its_module(lowtide, plan, blob):
    assert lowtide("explain", plan, "--plan", blob, "--json", "--no-compile") == 0
    beside = json.loads(lowtide.out)
    assert lowtide("explain", plan, "--plan", plan, "--json", "--no-compile") == 0
    within = json.loads(lowtide.out)
    assert autopsy(beside) == autopsy(within)


def test_a_compressed_plan(lowtide, plan):
    packed = plan.with_name("wasteful.pb.gz")
    packed.write_bytes(gzip.compress(plan.read_bytes()))
    assert lowtide("explain", "--plan", packed, "--no-compile") == 0
    assert "cause: order" in lowtide.out


def test_a_plan_of_our_own(lowtide, tmp_path):
    module, plan = tmp_path / "m.hlo", tmp_path / "plan.json"
    module.write_text(WASTEFUL)
    assert lowtide("plan", module, "-o", plan) == 0
    assert lowtide("explain", "--plan", plan, "--json") == 0
    section = autopsy(json.loads(lowtide.out))
    assert section["cause"] == "order"
    assert section["remedies"] == []


def test_a_limit_shows_more_rows(lowtide, plan):
    assert lowtide("explain", "--plan", plan, "--no-compile", "--limit", 1) == 0
    short = lowtide.out
    assert lowtide("explain", "--plan", plan, "--no-compile", "--limit", 5) == 0
    assert len(lowtide.out.splitlines()) > len(short.splitlines())


# -- errors ------------------------------------------------------------------------------------


def test_no_module(lowtide, blob):
    assert lowtide("explain", "--plan", blob) == 1
    assert "a plan without its module" in lowtide.err


def test_neither_module_nor_plan(lowtide):
    assert lowtide("explain") == 1
    assert "Missing argument 'MODULE'" in lowtide.err


def test_no_file(lowtide, tmp_path):
    assert lowtide("explain", "--plan", tmp_path / "none.pb") == 1
    assert "none.pb: cannot be read: no such file" in lowtide.err


def test_a_module_as_text_has_no_ids(lowtide, tmp_path, blob):
    text = tmp_path / "m.hlo"
    text.write_text(WASTEFUL)
    assert lowtide("explain", text, "--plan", blob) == 1
    assert "read the module from protobuf too" in lowtide.err


def test_no_plan_in_the_file(lowtide, tmp_path):
    path = tmp_path / "m.pb"
    path.write_bytes(write_hlo_proto(planned(WASTEFUL).module))
    assert lowtide("explain", "--plan", path) == 1
    assert "there is no plan" in lowtide.err


def test_a_plan_of_another_module(lowtide, tmp_path, blob):
    other = tmp_path / "other.pb"
    other.write_bytes(write_hlo_proto(planned(WASTEFUL.replace("[1024]", "[512]")).module))
    assert lowtide("explain", other, "--plan", blob) == 1
    assert "4096 bytes for x" in lowtide.err


@pytest.mark.parametrize("keep", [0.0, 0.3, 0.6, 0.9, 0.99])
def test_a_truncated_plan(lowtide, plan, keep):
    data = plan.read_bytes()
    plan.write_bytes(data[: int(len(data) * keep)])
    assert lowtide("explain", "--plan", plan) == 1
    assert lowtide.err.startswith("error: ")
    assert plan.name in lowtide.err
    assert "This is a fault in lowtide" not in lowtide.err


def test_a_truncated_document(lowtide, tmp_path):
    path = tmp_path / "plan.json"
    path.write_text('{"schema": "lowtide.memory/1", ')
    assert lowtide("explain", "--plan", path) == 1
    assert "plan.json" in lowtide.err
    assert "not JSON" in lowtide.err
