"""`lowtide shard` and `lowtide partition`."""

import json
from itertools import pairwise

import pytest

from lowtide.frontend.files import read
from lowtide.ir import Opcode

MODULE = """HloModule step, num_partitions=4

ENTRY main {
  x = f32[64,16] parameter(0), sharding={devices=[4,1]<=[4]}
  w = f32[16,4] parameter(1), sharding={devices=[4,1]<=[4]}
  d = f32[64,4] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT y = f32[64,4] negate(d), sharding={devices=[4,1]<=[4]}
}
"""


@pytest.fixture
def module(tmp_path):
    path = tmp_path / "step.hlo"
    path.write_text(MODULE)
    return path


def test_shard_tells_what_moves_and_why(lowtide, module):
    assert lowtide("shard", module) == 0
    lines = lowtide.out.splitlines()
    assert lines[0].startswith("%d dot {devices=[4,1]<=[4]}  ")
    assert "(follows %" in lines[0]
    assert lines[-1].startswith("4 devices, each sends ")
    assert lowtide("shard", module, "--moves") == 0
    assert [line.split()[0] for line in lowtide.out.splitlines()] == ["%d", "4"]


def test_shard_json(lowtide, module):
    assert lowtide("shard", module, "--json") == 0
    document = json.loads(lowtide.out)
    assert document["schema"] == "lowtide.shard/1"
    assert document["devices"] == 4
    assert document["results"] == ["{devices=[4,1]<=[4]}"]
    rows = {row["name"]: row for row in document["instructions"]}
    assert rows["d"]["bytes"] == document["wire_bytes"] > 0
    assert rows["y"]["bytes"] == 0


def test_partition_writes_the_program_of_a_device(lowtide, module, tmp_path):
    output = tmp_path / "local.hlo"
    assert lowtide("partition", module, "-o", output) == 0
    local = read(output)
    assert local.num_partitions == 4
    assert [str(p.shape) for p in local.entry.parameters] == ["f32[16,16]{1,0}", "f32[4,4]{1,0}"]
    assert lowtide("partition", module) == 0
    assert lowtide.out.rstrip() == output.read_text().rstrip()


def test_partition_json(lowtide, module):
    assert lowtide("partition", module, "--json") == 0
    document = json.loads(lowtide.out)
    assert document["devices"] == 4
    assert document["wire_bytes"] > 0
    (traffic,) = document["collectives"].values()
    assert traffic["count"] == traffic["runs"] == 1
    assert document["free_of_deadlock"] and document["assumed"] == []
    assert document["memory"]["schema"] == "lowtide.memory/1"
    assert document["memory"]["argument_bytes"] == (16 * 16 + 4 * 4) * 4


def test_the_number_of_devices_may_be_given(lowtide, module):
    module.write_text(MODULE.replace(", num_partitions=4", ""))
    assert lowtide("partition", module) == 1
    assert "step is for one partition: give --devices N" in lowtide.err
    assert lowtide("partition", module, "--devices", "4") == 0
    assert Opcode.PARAMETER.value in lowtide.out


def test_shardings_that_do_not_fit_are_one_error(lowtide, module):
    assert lowtide("shard", module, "--devices", "8") == 1
    assert lowtide.err.count("\n") == 1
    assert "has 4 tiles, the module 8 devices" in lowtide.err


BUSY = """HloModule busy, num_partitions=4

ENTRY main {
  x = f32[256,256] parameter(0), sharding={devices=[4,1]<=[4]}
  w = f32[256,256] parameter(1), sharding={devices=[4,1]<=[4]}
  v = f32[256,256] parameter(2), sharding={devices=[4,1]<=[4]}
  y = f32[256,256] dot(x, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  d = f32[256,256] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  e = f32[256,256] exponential(y)
  f = f32[256,256] dot(d, e), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = f32[256,256] negate(f), sharding={devices=[4,1]<=[4]}
}
"""


@pytest.fixture
def busy(tmp_path):
    path = tmp_path / "busy.hlo"
    path.write_text(BUSY)
    return path


def test_the_simulated_step_is_in_the_json(lowtide, busy):
    assert lowtide("partition", busy, "--json") == 0
    step = json.loads(lowtide.out)["step"]
    assert step["bound_seconds"] <= step["seconds"] <= step["in_given_order_seconds"]
    assert 0 <= step["hidden"] <= 1
    assert step["fits"]
    assert step["arena_bytes"] <= step["cap_bytes"]


def test_a_program_in_the_order_of_its_step_is_written(lowtide, busy, tmp_path):
    output = tmp_path / "busy.overlap.hlo"
    assert lowtide("partition", busy, "--overlap", "-o", output, "--device", "x86-server") == 0
    assert "% hidden" in lowtide.out
    module = read(output)
    assert module.is_scheduled
    opcodes = {x.opcode for x in module.entry.instructions.values()}
    assert Opcode.ALL_GATHER_START in opcodes


def test_the_simulated_step_is_traced(lowtide, busy, tmp_path):
    trace = tmp_path / "step.json"
    assert lowtide("partition", busy, "--trace", trace) == 0
    events = json.loads(trace.read_text())["traceEvents"]
    slices = [x for x in events if x["ph"] == "X"]
    assert {x["pid"] for x in slices} >= {1, 2}
    for one, other in pairwise(slices):
        if one["pid"] == other["pid"] == 1:
            assert one["ts"] + one["dur"] <= other["ts"] + 2e-3


def test_a_step_above_its_memory_ends_with_status_2(lowtide, busy):
    assert lowtide("partition", busy, "--memory", "1KiB", "--overlap", "-o", "/dev/null") == 2
    assert "were allowed" in lowtide.err


def test_an_unknown_device_is_named(lowtide, busy):
    assert lowtide("partition", busy, "--device", "x86-sever") == 1
    assert "x86-server" in lowtide.err
