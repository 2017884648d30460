"""`lowtide compile` and `lowtide bench`."""

import json
import sys

import numpy as np
import pytest


def test_the_account(lowtide, small):
    assert lowtide("compile", small, "--threads", 2) == 0
    first = lowtide.out.splitlines()[0]
    assert first.startswith("small   ")
    assert lowtide("compile", small, "--threads", 2, "--json") == 0
    document = json.loads(lowtide.out)
    assert document["schema"] == "lowtide.compile/1"
    assert document["was_cached"] is True
    assert document["kernel_runs"] >= document["kernels"] >= document["distinct_kernels"] > 0
    assert document["code_bytes"] > 0
    assert document["memory"]["schema"] == "lowtide.memory/1"
    assert set(document["seconds"]) == {"cache", "linking"}


def test_an_executable_in_a_file_runs_as_the_module_does(lowtide, small, tmp_path):
    file = tmp_path / "small.exe"
    assert lowtide("compile", small, "-o", file) == 0
    for options in ((), ("--reference",), ("--sanitize",), ("--profile",)):
        assert lowtide("run", file, "--seed", 3, "--json", *options) == 0
        ours = json.loads(lowtide.out)
        assert lowtide("run", small, "--seed", 3, "--json", *options) == 0
        theirs = json.loads(lowtide.out)
        assert (ours["engine"], ours["outputs"]) == (theirs["engine"], theirs["outputs"])
    assert lowtide("run", file, "--memory", 1) == 2
    assert lowtide("run", file, "--threads", 61) == 1
    assert "the executable was compiled for --threads " in lowtide.err
    for command in (("compile",), ("bench",), ("explain",), ("opt",)):
        assert lowtide(*command, file) == 1
        assert "is an executable, which only `run` takes" in lowtide.err


def test_large_constants_are_in_the_code_of_an_executable(lowtide, tmp_path):
    numbers = "{" + ",".join([str(x % 97) for x in range(300_000)]) + "}"
    path, file = tmp_path / "table.hlo", tmp_path / "table.exe"
    path.write_text(
        "HloModule table\nENTRY e { k = f32[300000] constant(" + numbers + ")\n"
        "i = s32[] parameter(0)\n"
        "ROOT s = f32[1] dynamic-slice(k, i), dynamic_slice_sizes={1} }"
    )
    assert lowtide("compile", path, "-o", file) == 0
    np.savez(tmp_path / "in.npz", in_0=np.int32(200_000))
    given = ("--inputs", tmp_path / "in.npz")
    assert lowtide("run", file, *given, "--json") == 0
    assert json.loads(lowtide.out)["outputs"][0]["first"] == [200_000 % 97]
    assert lowtide.err == ""
    for engine in ("--reference", "--sanitize"):
        assert lowtide("run", file, *given, engine) == 1
        assert "has no values of its large constants" in lowtide.err


def test_damaged_executables_are_no_modules(lowtide, small, tmp_path):
    file = tmp_path / "small.exe"
    assert lowtide("compile", small, "-o", file) == 0
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    assert lowtide("run", file) == 1
    assert str(file) in lowtide.err
    assert "damaged" in lowtide.err
    file.write_bytes(data[:40])
    assert lowtide("run", file) == 1
    assert f"error: {file}: is a damaged executable" in lowtide.err


def test_over_memory_nothing_is_written(lowtide, small, tmp_path):
    file = tmp_path / "small.exe"
    assert lowtide("compile", small, "-o", file, "--memory", 1) == 2
    assert not file.exists()
    assert lowtide("compile", small, "--dump-to", tmp_path / "d", "--memory", 1) == 2


def test_dumps_have_the_passes_the_plan_and_the_kernels(lowtide, small, tmp_path):
    folder = tmp_path / "dumps"
    assert lowtide("compile", small, "--dump-to", folder, "--dump-pass-re", ".*", "--json") == 0
    document = json.loads(lowtide.out)
    assert document["was_cached"] is False
    names = sorted([x.name.partition(".")[2] for x in folder.iterdir()])
    assert "small.before_optimizations.txt" in names
    assert "small.after_optimizations-buffer-assignment.txt" in names
    assert any(".after_" in x and "optimizations" not in x for x in names)
    kernels = sorted(folder.glob("*.ll"))
    assert len(kernels) == document["distinct_kernels"]
    for x in kernels:
        assert "define " in x.read_text()
    assert lowtide("compile", small, "--dump-pass-re", "x") == 1
    assert "--dump-pass-re needs --dump-to" in lowtide.err


def test_bench_without_jaxlib_has_our_figures(lowtide, small, monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)
    assert lowtide("bench", small, "--seconds", 0, "--threads", 1) == 0
    assert "nothing to compare with: jaxlib is not installed" in lowtide.out
    assert lowtide("bench", small, "--seconds", 0, "--threads", 1, "--json") == 0
    document = json.loads(lowtide.out)
    assert (document["xla_cpu"], document["speedup"]) == (None, None)
    assert document["lowtide"]["least_seconds"] <= document["lowtide"]["median_seconds"]


def test_bench_beside_xla(lowtide, small, monkeypatch):
    pytest.importorskip("jaxlib")
    assert lowtide("bench", small, "--seconds", 0, "--json") == 0
    document = json.loads(lowtide.out)
    assert document["missing"] is None
    assert document["wrong"] is None
    assert document["largest_difference"] == 0
    assert document["speedup"] > 0
    monkeypatch.setattr(
        "lowtide.inspection.xla_program.XlaProgram.results", lambda self: [x + 1 for x in self()]
    )
    assert lowtide("bench", small, "--seconds", 0) == 4
    assert "results differ: result 0, f32[2,3]: 6 elements differ" in lowtide.err
