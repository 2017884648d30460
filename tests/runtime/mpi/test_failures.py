"""Runs on ranks that come to no end: one error for all of them, and nobody hangs."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.runtime.mpi.launching import Ended, needs_mpi, run_command, run_script

pytestmark = needs_mpi

END_SECONDS = 100.0
"""How long after a failure all ranks have ended: less than any of them would wait."""

ADD = """
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
"""
ALL = "channel_id=1, use_global_device_ids=true, replica_groups={}, to_apply=add"
SUM = f"""HloModule m, num_partitions=2
{ADD}
ENTRY e {{
  x = f32[8] parameter(0)
  ROOT sum.1 = f32[8] all-reduce(x), {ALL}, metadata={{source_file="model.py" source_line=12}}
}}
"""
DIVERGING = f"""HloModule m, num_partitions=2
{ADD}
one {{
  x = f32[8] parameter(0)
  ROOT first.1 = f32[8] all-reduce(x), {ALL}
}}
other {{
  x = f32[8] parameter(0)
  n = f32[8] negate(x)
  ROOT second.1 = f32[8] all-reduce(n), {ALL}
}}
ENTRY e {{
  x = f32[8] parameter(0)
  i = u32[] partition-id()
  z = u32[] constant(0)
  p = pred[] compare(i, z), direction=EQ
  ROOT r = f32[8] conditional(p, x, x), true_computation=one, false_computation=other
}}
"""
COMMAND = """
import os, signal, sys, time
from mpi4py import MPI
from lowtide.cli.main import main
from lowtide.runtime.mpi import collectives
rank = MPI.COMM_WORLD.Get_rank()
PATCH
sys.exit(main(["run", *sys.argv[1:]]))
"""
AT_THE_SUM = """
if rank == 1:
    def combine(*given):
        print(time.time(), file=open("FAILED_AT", "w"))
        ACT
    collectives.combine = combine
"""
LATE = """
from lowtide.runtime.mpi import rendezvous
if rank == 1:
    def begin(*given):
        print(time.time(), file=open("FAILED_AT", "w"))
        time.sleep(200)
    rendezvous.begin = begin
"""
TOGETHER = """
from lowtide.runtime.mpi import rendezvous
usual = rendezvous.begin
def begin(*given):
    MPI.COMM_WORLD.Barrier()
    return usual(*given)
rendezvous.begin = begin
"""
"""Ranks come to their first exchange at one time, however long each of them compiles."""


@pytest.fixture
def module(tmp_path: Path) -> Path:
    path = tmp_path / "m.hlo"
    path.write_text(SUM)
    return path


def patched(folder: Path, patch: str, *arguments: str) -> Ended:
    patch = patch.replace("FAILED_AT", str(folder / "failed_at"))
    return run_script(2, folder, COMMAND.replace("PATCH", patch), arguments)


def seconds_to_end(folder: Path, found: Ended) -> float:
    return found.at - float((folder / "failed_at").read_text())


def test_an_exception_on_one_rank_ends_all(tmp_path: Path, module: Path) -> None:
    found = patched(tmp_path, AT_THE_SUM.replace("ACT", "raise ValueError('no room')"), str(module))
    assert found.errors == ["error: rank 1: model.py:12: all-reduce (%sum.1): ValueError: no room"]
    assert found.status == 1
    assert not found.output
    assert seconds_to_end(tmp_path, found) < END_SECONDS


def test_an_exception_on_all_ranks_is_told_once(tmp_path: Path, module: Path) -> None:
    patch = AT_THE_SUM.replace("rank == 1", "True").replace("ACT", "raise ValueError('no room')")
    found = patched(tmp_path, patch, str(module))
    assert len(found.errors) == 1
    assert "ValueError: no room" in found.errors[0]
    assert found.status == 1


def test_a_killed_rank_ends_all(tmp_path: Path, module: Path) -> None:
    patch = AT_THE_SUM.replace("ACT", "os.kill(os.getpid(), signal.SIGKILL)")
    found = patched(tmp_path, patch, str(module))
    assert found.status != 0
    assert seconds_to_end(tmp_path, found) < END_SECONDS


def test_a_rank_that_does_not_come_ends_all_in_time(tmp_path: Path, module: Path) -> None:
    found = patched(tmp_path, LATE, str(module), "--timeout", "1.5")
    assert found.errors == [
        "error: rank 0 failed: model.py:12: all-reduce (%sum.1): waited 1.5 s for rank 1, which "
        "waits for nobody"
    ]
    assert found.status == 1
    assert seconds_to_end(tmp_path, found) < 1.5 + END_SECONDS


def test_ranks_at_different_exchanges_are_told_of(tmp_path: Path) -> None:
    path = tmp_path / "diverging.hlo"
    path.write_text(DIVERGING)
    found = patched(tmp_path, TOGETHER, str(path), "--timeout", "3")
    assert len(found.errors) == 1
    assert "%first.1" in found.errors[0]
    assert "%second.1" in found.errors[0]
    assert found.status == 1


def test_another_module_on_one_rank_is_one_error(tmp_path: Path, module: Path) -> None:
    (tmp_path / "other.hlo").write_text(SUM.replace("f32[8]", "f32[9]"))
    patch = f"if rank == 1: sys.argv[1] = {str(tmp_path / 'other.hlo')!r}"
    found = patched(tmp_path, patch, str(module))
    assert found.errors == ["error: rank 1 has another module than rank 0"]
    assert found.status == 1


def test_other_options_on_one_rank_are_one_error(tmp_path: Path, module: Path) -> None:
    patch = "if rank == 1: sys.argv += ['--threads', '2']"
    found = patched(tmp_path, patch, str(module))
    assert found.errors == ["error: rank 1 has other options than rank 0"]


def test_a_file_that_one_rank_lacks_is_one_error(tmp_path: Path, module: Path) -> None:
    found = patched(tmp_path, "if rank == 1: sys.argv[1] = 'nowhere.hlo'", str(module))
    assert found.errors == ["error: nowhere.hlo: no such file or directory"]
    assert found.status == 1


@pytest.mark.parametrize(
    ("text", "options", "error"),
    [
        (SUM.replace("=2", "=3"), (), "m runs on 3 devices, and there are 2 ranks"),
        (SUM.replace("=2", "=1"), (), "m is no program of several devices: run it without mpi"),
        (SUM, ("--profile",), "--profile is about one: leave it out"),
        (SUM, ("--nothing",), "No such option: --nothing"),
        ("HloModule", (), "m.hlo"),
    ],
)
def test_what_ranks_cannot_run_is_one_error(
    text: str, options: tuple[str, ...], error: str, module: Path
) -> None:
    module.write_text(text)
    found = run_command(2, module, *options)
    assert len(found.errors) == 1
    assert error in found.errors[0]
    assert found.status == 1
    assert "Traceback" not in found.stderr
