"""`lowtide run` of modules for several devices: what goes in, what comes out, what is refused."""

import json

import numpy as np
import pytest

SHARDED = """HloModule m, num_partitions=4

ENTRY e {
  x = f32[8,16]{1,0} parameter(0), sharding={devices=[4,1]<=[4]}
  w = f32[16,12]{1,0} parameter(1), sharding={devices=[2,2]<=[4]}
  d = f32[8,12]{1,0} dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = f32[8,12]{1,0} negate(d), sharding={devices=[2,2]<=[4]}
}
"""
PARTITIONED = """HloModule m, replica_count=2, num_partitions=2

ENTRY e {
  x = f32[3]{0} parameter(0)
  y = s32[] parameter(1)
  g = f32[6]{0} all-gather(x), GROUPS, dimensions={0}
  ROOT t = (f32[6]{0}, s32[]) tuple(g, y)
}
""".replace("GROUPS", "channel_id=1, replica_groups={{1,0},{2,3}}, use_global_device_ids=true")
WHOLE = """HloModule m, num_partitions=2

ENTRY e {
  x = f32[3]{0} parameter(0)
  ROOT n = f32[3]{0} negate(x)
}
"""


@pytest.fixture
def given(tmp_path):
    def write(text):
        path = tmp_path / "module.hlo"
        path.write_text(text)
        return path

    return write


@pytest.mark.parametrize("flags", [[], ["--reference"], ["--sanitize"]])
def test_whole_arrays_go_in_and_come_out(lowtide, given, tmp_path, flags):
    x = np.arange(128, dtype=np.float32).reshape(8, 16) % 7
    w = np.arange(192, dtype=np.float32).reshape(16, 12) % 5
    np.savez(tmp_path / "in.npz", in_0=x, in_1=w)
    out = tmp_path / "out.npz"
    module = given(SHARDED)
    assert lowtide("run", module, "--inputs", tmp_path / "in.npz", "--outputs", out, *flags) == 0
    assert " on 4 devices" in lowtide.out
    assert "f32[8,12]" in lowtide.out
    np.testing.assert_array_equal(np.load(out)["out_0"], -(x @ w))


def test_generated_arguments_are_those_of_the_whole_module(lowtide, given):
    module = given(SHARDED)
    found = []
    for flags in ([], ["--reference"]):
        assert lowtide("run", module, "--json", *flags) == 0
        found.append(json.loads(lowtide.out))
    native, reference = found
    assert (native["engine"], native["devices"]) == ("native", 4)
    assert (reference["engine"], reference["devices"]) == ("reference", 4)
    assert native["outputs"][0]["shape"] == "f32[8,12]"
    assert native["outputs"][0]["mean"] == pytest.approx(reference["outputs"][0]["mean"], rel=1e-5)


@pytest.mark.parametrize("flags", [[], ["--reference"], ["--sanitize"]])
def test_results_of_a_partitioned_module_have_a_row_for_each_device(
    lowtide, given, tmp_path, flags
):
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    np.savez(tmp_path / "in.npz", in_0=x, in_1=np.int32(7))
    out = tmp_path / "out.npz"
    module = given(PARTITIONED)
    assert lowtide("run", module, "--inputs", tmp_path / "in.npz", "--outputs", out, *flags) == 0
    pairs = [[x[1], x[0]]] * 2 + [[x[2], x[3]]] * 2
    found = np.load(out)
    np.testing.assert_array_equal(found["out_0"], [np.concatenate(pair) for pair in pairs])
    np.testing.assert_array_equal(found["out_1"], [7] * 4)


def test_each_device_has_generated_arguments_of_its_own(lowtide, given, tmp_path):
    out = tmp_path / "out.npz"
    assert lowtide("run", given(PARTITIONED), "--outputs", out, "--seed", 3) == 0
    rows = np.load(out)["out_0"]
    assert len({row.tobytes() for row in rows}) == 2


def test_an_executable_of_several_devices_runs(lowtide, given, tmp_path):
    made, out = tmp_path / "m.lowtide", tmp_path / "out.npz"
    assert lowtide("compile", given(PARTITIONED), "-o", made) == 0
    assert lowtide("run", made, "--outputs", out) == 0
    assert " on 4 devices" in lowtide.out
    assert np.load(out)["out_0"].shape == (4, 6)


def test_what_needs_no_other_device_runs_on_one(lowtide, given):
    assert lowtide("run", given(WHOLE)) == 0
    assert "devices" not in lowtide.out


@pytest.mark.parametrize("flags", [["--arena"], ["--profile"], ["--check", "first"]])
def test_options_about_one_device_are_refused(lowtide, given, flags):
    assert lowtide("run", given(PARTITIONED), *flags) == 1
    assert f"runs on several devices; {flags[0]} is about one" in lowtide.err


def test_an_array_that_fits_neither_one_device_nor_all_is_refused(lowtide, given, tmp_path):
    np.savez(tmp_path / "in.npz", in_0=np.zeros((3, 3), np.float32), in_1=np.int32(7))
    assert lowtide("run", given(PARTITIONED), "--inputs", tmp_path / "in.npz") == 1
    assert "parameter 0 (%x)" in lowtide.err
