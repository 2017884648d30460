"""Runs of children under mpiexec, for the tests of programs on several ranks."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support import HANG_SECONDS

ROOT = Path(__file__).parents[3]
MPIEXEC = Path(sys.executable).with_name("mpiexec")

needs_mpi = pytest.mark.skipif(
    importlib.util.find_spec("mpi4py") is None or not MPIEXEC.exists(),
    reason="mpi4py and mpiexec are not in this environment: pip install mpi4py mpich",
)


@dataclass(frozen=True)
class Ended:
    """How a run of mpiexec ended, and when; `errors` are the lines of stderr that are lowtide's."""

    status: int
    output: str
    stderr: str
    at: float

    @property
    def errors(self) -> list[str]:
        return [x for x in self.stderr.splitlines() if x.startswith("error: ")]


def started(ranks: int, *arguments: str) -> Ended:
    """Run Python with arguments on so many ranks."""
    found = subprocess.run(
        [MPIEXEC, "-n", str(ranks), sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
    )
    return Ended(found.returncode, found.stdout, found.stderr, time.time())


def run_command(ranks: int, path: Path, *options: str) -> Ended:
    """Run `lowtide run` on ranks."""
    return started(ranks, "-m", "lowtide", "run", str(path), *options)


def run_script(ranks: int, folder: Path, script: str, arguments: Sequence[str] = ()) -> Ended:
    """Run a script on ranks."""
    path = folder / "script.py"
    path.write_text(script)
    return started(ranks, str(path), *arguments)
