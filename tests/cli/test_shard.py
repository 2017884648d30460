"""`lowtide shard` and `lowtide partition`."""

import json

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
