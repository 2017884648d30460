"""Random programs with random shardings on several devices compute what one device of XLA's does.

`python -m tests.pjrt.sharded.programs FIRST COUNT` runs some by itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support import HANG_SECONDS

pytest.importorskip("jax")

ROOT = Path(__file__).parents[2]


def run_programs(first: int, count: int) -> None:
    settings = {"LOWTIDE_DEVICES": "8", "JAX_PLATFORMS": "lowtide,cpu"}
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    found = subprocess.run(
        [sys.executable, "-m", "tests.pjrt.sharded.programs", str(first), str(count)],
        capture_output=True,
        text=True,
        env={**os.environ, **settings, "PYTHONPATH": path},
        cwd=ROOT,
        timeout=HANG_SECONDS,
    )
    assert found.stdout == f"{count} programs, 0 wrong\n", found.stdout + found.stderr


def test_some_programs_give_what_one_device_gives_and_are_told_as_they_lie() -> None:
    run_programs(0, 6)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 2000, 100))
def test_many_programs_give_what_one_device_gives(first: int) -> None:
    run_programs(first, 100)
