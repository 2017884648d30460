"""The benchmark for a card: on the emulated device, and by CUDA's calls on a played driver."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.runtime.gpu.test_cuda import PlayedDriver, Result
from tests.runtime.gpu.test_cuda import played as played
from tests.support import HANG_SECONDS

from lowtide.frontend.hlo_text import parse_hlo

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture
def ours(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import gpu_ours

    gpu_ours.driver_of.cache_clear()
    gpu_ours.architecture.cache_clear()
    yield gpu_ours
    gpu_ours.driver_of.cache_clear()
    gpu_ours.architecture.cache_clear()


def run(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BENCHMARKS / "gpu.py"), *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, check=False, timeout=HANG_SECONDS
    )


def test_on_the_emulated_device(tmp_path: Path) -> None:
    only = "copy,silu,sum of all,f32 to f32,s8,sort, one,right,programs,kernels: "
    done = run(tmp_path, "--target", "cuda:emulated", "--only", only)
    assert done.returncode == 0, done.stderr
    document = json.loads((tmp_path / "gpu.json").read_text())
    assert document["schema"] == "lowtide.gpu_benchmark/1"
    rows = {f"{x['part']}: {x['name']}": x["ours"] for x in document["rows"]}
    assert len(rows) >= 9
    assert all("error" not in x and "refused" not in x for x in rows.values())
    assert rows["programs: loop"]["memory_bytes"] > 0
    profile = rows["kernels: loop"]
    assert {x["launches"] for x in profile["top"]} == {1, 5}, "the loop runs five times"
    assert profile["launches"] == sum([x["launches"] for x in profile["top"]])
    assert "kernels: loop: 5 steps, " in done.stderr
    assert "no time here means anything" in done.stdout
    written = tmp_path / "page.md"
    again = run(tmp_path, "--from", "gpu.json", "--write", str(written))
    assert again.returncode == 0, again.stderr
    assert again.stdout == done.stdout
    assert "<!-- begin gpu an emulated device -->" in written.read_text()


def test_nothing_is_run_when_the_time_is_over(tmp_path: Path) -> None:
    done = run(tmp_path, "--target", "cuda:emulated", "--minutes", "0")
    assert done.returncode == 0, done.stderr
    document = json.loads((tmp_path / "gpu.json").read_text())
    assert not document["rows"]
    assert "products: bf16 to bf16" in document["not_run"]
    assert "not run, the time was over" in done.stdout


def test_their_earlier_figures(ours: Any, tmp_path: Path) -> None:
    """They are taken of the same card and version of JAX only, and what is missing is measured."""
    import gpu

    file = tmp_path / "earlier.json"
    theirs = {"seconds": 1.0, "compile_seconds": 2.0}
    rows = [{"part": "programs", "name": "a", "theirs": theirs}, {"part": "right", "name": "a"}]
    earlier = {
        "device": {"name": "card"},
        "packages": {"jax": "1"},
        "others": {"jax": "1, card"},
        "rows": rows,
    }
    file.write_text(json.dumps(earlier))
    run = object.__new__(gpu.Run)
    run.given = SimpleNamespace(theirs=file, no_theirs=False)
    run.is_toy = False
    run.document = {"device": {"name": "card"}, "packages": {"jax": "1"}, "rows": []}
    assert run._others() == {"jax": "1, card"}
    assert run.earlier == {("programs", "a"): theirs}
    assert run._short_first(["b", "a"]) == ["a", "b"]
    for part, field in (("device", "name"), ("packages", "jax")):
        run.document[part] = {field: "other"}
        with pytest.raises(SystemExit, match=f"{part}, {field}: .* there, other here"):
            run._others()
        run.document[part] = earlier[part]
    run.given.no_theirs = True
    assert run._others() == {"no_jax": "not asked"}


def test_a_profile_changes_nothing(ours: Any, played: PlayedDriver) -> None:
    """Steps that write over what they read are repeated for a timing: a run goes on as before."""
    module = parse_hlo(ours.SMALL_PROGRAMS["loop"])
    built, program, _ = ours.loaded(module, "cuda")
    (x,) = ours.drawn(module)
    (wanted,) = ours.flat(program(x))
    program.place(x)
    found = ours.profile(built.plan.module, program)
    assert np.array_equal(*ours.flat(program.fetch()), wanted)
    assert found["steps"] == 5


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--programs", "nowhere.py"), "there is no file nowhere.py"),
        (("--target", "cuda:emulatd"), "no target 'cuda:emulatd'; did you mean 'cuda:emulated'?"),
    ],
)
def test_mistakes_are_one_line(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    done = run(tmp_path, *arguments)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert said in line or "this Python lacks cuda-bindings" in line


def test_by_calls_of_cuda(ours: Any, played: PlayedDriver) -> None:
    assert ours.device("cuda")["target"] == "cuda:sm_90a"
    assert ours.device("cuda")["cuda"] == "13.0"
    assert ours.device_copy("cuda", 4096, 0.0)["bytes"] == 8192
    assert not played.memory
    for name in ("bandwidth: silu, bf16", "products: f32 to f32", "orders: running sum"):
        found = ours.case("cuda", True, name, 0.0)
        assert found["apart"] <= found["allowed"]
        assert found["seconds"] > 0
    assert ours.right("cuda", "", "small", "loop")["apart"] < 2e-5
    assert ours.speed("cuda", "", "medium", "perceptron", 0.0)["apart"] < 2e-5
    assert not played.memory


def test_the_kernel_that_is_wrong_is_named(
    ours: Any, played: PlayedDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second function that is launched leaves all memory changed."""
    launch = played.cuLaunchKernel
    names: list[str] = []

    def wrong(function: str, *given: Any) -> Any:
        result = launch(function, *given)
        if function not in names:
            names.append(function)
        if names.index(function) == 1:
            for memory in played.memory.values():
                memory[:] = memory ^ 1
        return result

    monkeypatch.setattr(played, "cuLaunchKernel", wrong)
    found = ours.right("cuda", "", "small", "perceptron")
    assert not found["apart"] <= found["allowed"]
    assert names[1] in found["first"]


def test_a_fault_is_one_row(ours: Any, played: PlayedDriver) -> None:
    requests = [("case", "cuda", (True, "products: f32 to f32", 0.0)), ("device", "cuda", ())]
    answers: list[Any] = []

    class Pipe:
        def recv(self) -> Any:
            if not requests:
                raise EOFError
            return requests.pop(0)

        def send(self, answer: Any) -> None:
            answers.append(answer)

    played.fails_at, played.fails_with = 1, Result.CUDA_ERROR_ILLEGAL_ADDRESS
    ours.serve(Pipe())
    first, second = answers
    assert first["error"].startswith("DriverError: cuLaunchKernel: illegal_address")
    assert second["name"] == "Played"
