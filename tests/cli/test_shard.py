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


WEIGHTS = """HloModule two

ENTRY main {
  x = f32[64,2048] parameter(0)
  w1 = f32[2048,2048] parameter(1)
  w2 = f32[2048,2048] parameter(2)
  h = f32[64,2048] dot(x, w1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT y = f32[64,2048] dot(h, w2), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""


@pytest.fixture
def weights(tmp_path):
    path = tmp_path / "weights.hlo"
    path.write_text(WEIGHTS)
    return path


def test_the_message_of_partition_names_the_search_that_fits(lowtide, module, weights):
    module.write_text(WEIGHTS.replace("two", "two, num_partitions=4"))
    assert lowtide("partition", module, "--memory", "20MB") == 2
    assert f"`lowtide shard {module} --devices 4 --memory 20000000`" in lowtide.err
    assert lowtide("shard", weights, "--devices", "4", "--memory", "20000000") == 0
    assert "two on 4 devices, 20.0 MB each: time against memory" in lowtide.out
    assert "mesh = jax.make_mesh((" in lowtide.out


def test_choices_in_json_fit_and_are_those_of_partition(lowtide, weights, tmp_path):
    output = tmp_path / "divided.hlo"
    arguments = ("--mesh", "data=2,model=2", "--memory", "20MB", "--link", "50GB/s")
    assert lowtide("shard", weights, *arguments, "--json", "-o", output) == 0
    document = json.loads(lowtide.out)
    assert document["schema"] == "lowtide.shardings/1"
    assert document["bound_bytes"] == 8_650_752
    best = document["choices"][0]
    assert best["mesh"] == {"data": 2, "model": 2}
    assert set(best["arguments"]) == {"x", "w1", "w2"}
    assert all(text.startswith("P(") for text in best["arguments"].values())
    assert all(x["peak_bytes"] <= 20_000_000 for x in document["choices"])
    assert lowtide("partition", output, "--memory", "20MB", "--json") == 0
    assert json.loads(lowtide.out)["wire_bytes"] == best["wire_bytes"]


def test_a_module_without_shardings_is_divided_at_once(lowtide, weights):
    assert lowtide("shard", weights, "--devices", "2") == 0
    assert "two on 2 devices: time against memory" in lowtide.out
    assert lowtide("shard", weights, "--mesh", "2x2", "--device", "x86-server", "--json") == 0
    assert json.loads(lowtide.out)["devices"] == 4


@pytest.mark.parametrize(
    "arguments, status, message",
    [
        (("--memory", "20MB"), 1, "for one partition: give --devices N or --mesh"),
        (("--mesh", "4x"), 1, "expected a mesh of at most 6 axes such as 4x2"),
        (("--mesh", "2x2", "--devices", "8"), 1, "has 4 devices, --devices says 8"),
        (("--mesh", "7x3"), 1, "no dimension of an argument divides by 7 or by 3"),
        (("--devices", "4", "--memory", "8 apples"), 1, "expected a size such as"),
        (("--devices", "4", "--memory", "9MB", "--link", "3GB"), 1, "a rate such as 300GB/s"),
        (("--devices", "4", "--memory", "9MB", "--link", "0/s"), 1, "more than nothing"),
        (("--devices", "4", "--memory", "9MB", "--device", "x"), 1, "no device 'x'"),
        (("--devices", "4", "--moves"), 1, "--moves shows the shardings of a module"),
        (("--devices", "4", "--memory", "2000000"), 2, "needs less than 8,650,752; "),
        (("--devices", "100000", "--memory", "9MB"), 1, "2 to 65,536 devices, found 100,000"),
        (("--mesh", "1" + 23 * "0"), 1, "2 to 65,536 devices, found 100,000,000,000"),
    ],
)
def test_what_cannot_be_searched_is_one_line(lowtide, weights, arguments, status, message):
    assert lowtide("shard", weights, *arguments) == status
    assert lowtide.err.count("\n") == 1
    assert message in lowtide.err


def test_a_search_needs_a_cap_where_the_module_has_shardings(lowtide, module):
    assert lowtide("shard", module, "--link", "1GB/s") == 1
    assert "are for a search: give --memory" in lowtide.err
    assert lowtide("shard", module, "--memory", "1MB") == 0
    assert "step on 4 devices, 1,000.0 KB each" in lowtide.out


def test_explain_and_plan_are_of_one_device(lowtide, module):
    for command in ("explain", "plan"):
        assert lowtide(command, module, "--json") == 0
        assert "one of 4 devices is reported; --whole" in lowtide.err
        assert json.loads(lowtide.out)["argument_bytes"] == (16 * 16 + 4 * 4) * 4
        assert lowtide(command, module, "--json", "--whole") == 0
        assert lowtide.err == ""
        assert json.loads(lowtide.out)["argument_bytes"] == (64 * 16 + 16 * 4) * 4
    module.write_text(MODULE.replace(", num_partitions=4", ""))
    assert lowtide("explain", module, "--devices", "4") == 0
    assert "one of 4 devices" in lowtide.err
    assert lowtide("explain", module, "--devices", "4", "--whole") == 1


def test_devices_of_a_module_without_shardings(lowtide, weights):
    assert lowtide("explain", weights, "--devices", "4") == 1
    assert "two has no shardings: `lowtide shard MODULE --devices 4` searches" in lowtide.err
    assert lowtide("explain", weights, "--devices", "70000") == 1
    assert "at most 65,536" in lowtide.err and "lowtide shard" not in lowtide.err


HUGE = "1" + 23 * "0"


@pytest.mark.parametrize("command", ["partition", "shard", "explain"])
def test_too_many_devices_are_one_line(lowtide, module, command):
    replicated = MODULE.replace("devices=[4,1]<=[4]", "replicated")
    for text in (MODULE, replicated):
        module.write_text(text)
        assert lowtide(command, module, "--devices", HUGE) == 1
        assert lowtide.err.count("\n") == 1
    module.write_text(MODULE.replace("num_partitions=4", f"num_partitions={2**31 - 1}"))
    assert lowtide(command, module) == 1
    assert lowtide.err.count("\n") == 1


COLLECTIVE = """HloModule together, replica_count={}
add {{
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT s = f32[] add(x, y)
}}
ENTRY main {{
  a = f32[8] parameter(0)
  ROOT c = f32[8] all-reduce(a), replica_groups={{}}, to_apply=add
}}
"""


@pytest.mark.parametrize("count", [1 << 16, 2**31 - 1])
def test_programs_of_too_many_devices_are_neither_run_nor_compiled(lowtide, module, count):
    module.write_text(COLLECTIVE.format(count))
    out = module.with_suffix(".lowtide")
    for command in (("run",), ("run", "--reference"), ("compile", "-o", out)):
        assert lowtide(command[0], module, *command[1:]) == 1
        assert f"for {count:,} devices" in lowtide.err
        assert lowtide.err.count("\n") == 1


def test_calls_are_timed_a_billion_times_at_most(lowtide, weights):
    assert lowtide("run", weights, "--repeat", HUGE) == 1
    assert "less than or equal to 1000000000" in lowtide.err
    assert lowtide.err.count("\n") == 1
