"""Commands with the target of a GPU, on machines that have none."""

import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from tests.cli.conftest import Lowtide
from tests.runtime.gpu.test_assembling import needs_assembler


@needs_assembler
def test_a_program_is_compiled_and_written(lowtide: Lowtide, small: Path, tmp_path: Path) -> None:
    file = tmp_path / "small.gpu"
    assert lowtide("compile", small, "--target", "cuda:sm_90", "-o", file) == 0
    assert "compiled for cuda:sm_90; it has not run on a device" in lowtide.out
    assert "points" in lowtide.out
    first = file.read_bytes()
    archive = zipfile.ZipFile(io.BytesIO(first))
    document = json.loads(archive.read("program.json"))
    assert document["schema"] == "lowtide.gpu_program/1"
    assert document["target"] == "sm_90"
    assert len(document["kernels"]) == sum(x["kind"] == "kernel" for x in document["thunks"])
    assert archive.read("kernels.cubin").startswith(b"\x7fELF")
    assert ".target sm_90" in archive.read("kernels.ptx").decode()
    assert lowtide("compile", small, "--target", "cuda:sm_90", "-o", file) == 0
    assert file.read_bytes() == first


@needs_assembler
def test_the_account_as_json(lowtide: Lowtide, small: Path) -> None:
    assert lowtide("compile", small, "--target", "cuda:sm_80", "--json") == 0
    document = json.loads(lowtide.out)
    assert document["schema"] == "lowtide.compile_gpu/1"
    assert document["target"] == "cuda:sm_80"
    assert all(x["registers"] > 0 and x["spill_bytes"] == 0 for x in document["kernels"])
    assert document["memory"]["schema"] == "lowtide.memory/1"


@pytest.mark.parametrize("target", [("cuda:sm_90", "--emulate"), ("cuda:emulated",)])
def test_emulated_runs_equal_the_evaluator(
    lowtide: Lowtide, small: Path, tmp_path: Path, target: tuple[str, ...]
) -> None:
    ours, theirs = tmp_path / "ours.npz", tmp_path / "theirs.npz"
    assert lowtide("run", small, "--seed", 3, "--outputs", ours, "--target", *target) == 0
    assert f"emulated for {target[0]}, not on a device" in lowtide.out
    assert lowtide("run", small, "--seed", 3, "--outputs", theirs, "--reference") == 0
    with np.load(ours) as a, np.load(theirs) as b:
        assert a.files == b.files
        assert all(np.array_equal(a[x], b[x]) for x in a.files)


SHARDED = """HloModule sharded, num_partitions=4

ENTRY e {
  x = f32[8,16] parameter(0), sharding={devices=[1,4]<=[4]}
  y = f32[16,8] parameter(1), sharding={devices=[4,1]<=[4]}
  d = f32[8,8] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT c = f32[8,8] copy(d), sharding={devices=[4,1]<=[4]}
}
"""


def test_a_module_with_shardings_runs_on_several_emulated_devices(
    lowtide: Lowtide, tmp_path: Path
) -> None:
    module, ours, theirs = (tmp_path / x for x in ("m.hlo", "ours.npz", "theirs.npz"))
    module.write_text(SHARDED)
    assert lowtide("run", module, "--outputs", ours, "--target", "cuda:sm_90", "--emulate") == 0
    assert "emulated for cuda:sm_90, not on 4 devices" in lowtide.out
    assert lowtide("run", module, "--outputs", theirs, "--reference") == 0
    with np.load(ours) as a, np.load(theirs) as b:
        assert all(np.allclose(a[x], b[x], rtol=1e-5, atol=1e-5) for x in b.files)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("run", "--target", "cuda:sm_90"), "cuda:emulated runs the same kernels on this host"),
        (("run", "--emulate"), "--emulate needs the --target of a GPU"),
        (
            ("run", "--target", "cuda", "--emulate", "--profile"),
            "--profile is not for runs on a GPU",
        ),
        (("run", "--target", "cuda", "--emulate", "--reference"), "is not for runs on a GPU"),
        (
            ("compile", "--target", "cuda:sm_91"),
            "no target 'cuda:sm_91'; there are: cuda, cuda:emulated, cuda:sm_80",
        ),
        (("compile", "--target", "natve"), "did you mean 'native'?"),
        (("compile", "--target", "cuda", "--threads", "2"), "are about processors"),
        (("explain", "--target", "cuda:sm_1"), "no target 'cuda:sm_1'"),
        (("explain", "--target", "cud"), "there are: cpu, cpu:avx2, cuda"),
    ],
)
def test_wrong_targets_are_refused(
    lowtide: Lowtide, small: Path, command: tuple[str, ...], said: str
) -> None:
    name, *options = command
    assert lowtide(name, small, *options) == 1
    assert said in lowtide.err


def test_explain_plans_for_a_device_that_is_not_there(lowtide: Lowtide, small: Path) -> None:
    assert lowtide("explain", small, "--target", "cuda:sm_90") == 0
    assert "NVIDIA H100" in lowtide.err
    assert "nothing was measured" in lowtide.err
    assert "At the peak" in lowtide.out
    assert lowtide("explain", small) == 0
    assert "H100" not in lowtide.err


def test_bench_says_that_emulated_times_are_none(lowtide: Lowtide, small: Path) -> None:
    assert lowtide("bench", small, "--target", "cuda:emulated", "--seconds", 0) == 0
    assert "small   an emulated device" in lowtide.out
    assert "times of an emulated device say nothing of a real one" in lowtide.out
    assert lowtide("bench", small, "--target", "cuda:emulated", "--seconds", 0, "--json") == 0
    document = json.loads(lowtide.out)
    assert document["device"] == "an emulated device"
    assert document["xla_cpu"] is None
