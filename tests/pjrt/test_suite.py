"""A slice of JAX's own tests on the platform "lowtide"; the command that runs them, by itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support import HANG_SECONDS, SHARED, needs_shared

pytest.importorskip("jax")

COMMAND = Path(__file__).parents[2] / "benchmarks" / "jax_suite.py"

TESTS = """
import os, time, unittest
from absl.testing import absltest
import jax
from jax._src import test_util

class SomeTest(absltest.TestCase):
    def test_good(self):
        self.assertEqual(float(jax.jit(lambda x: x + 1)(1.0)), 2)
    def test_here_only(self):
        self.assertNotIn("lowtide", os.environ["JAX_PLATFORMS"])
    def test_nowhere(self):
        self.fail("never")
    def test_that_ends_the_process(self):
        if "lowtide" in os.environ["JAX_PLATFORMS"]:
            os._exit(3)
    def test_when_the_process_has_ended(self):
        self.assertTrue(jax.devices())
    def test_yet_another(self):
        self.skipTest("because")
"""


def suite(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(COMMAND), *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, env=os.environ, timeout=HANG_SECONDS
    )


def test_a_test_that_ends_its_process_is_the_only_one_lost(tmp_path: Path) -> None:
    (tmp_path / "some_test.py").write_text(TESTS)
    kept, page = tmp_path / "kept", tmp_path / "page.md"
    arguments = ("--tests", str(tmp_path), "--every", "1", "--keep", str(kept))
    found = suite(*arguments, "--write", str(page))
    assert found.returncode == 1, found.stderr
    row = next(x for x in page.read_text().splitlines() if x.startswith("| some_test"))
    cells = [x.strip() for x in row.strip("|").split("|")]
    assert cells[1:4] == ["4", "1", "1"] and cells[5:9] == ["2", "2", "1", "1"]
    assert cells[10] == "50.0%"
    misses = [x for x in page.read_text().splitlines() if x.startswith("- ")]
    assert ["here_only" in misses[0], "ends_the_process" in misses[1]] == [True, True]
    lines = kept.read_text()
    again = suite(*arguments)
    assert again.returncode == 1 and kept.read_text() == lines


@pytest.mark.slow
@needs_shared
def test_a_slice_of_the_suite_of_jax_passes(tmp_path: Path) -> None:
    files = "aot,api,array,control_flow,operators,lax_numpy,lax_test,linalg,memories,nn,random"
    found = suite("--tests", str(SHARED / "jax_tests"), "--every", "250", "--files", files)
    assert found.returncode == 0, found.stdout + found.stderr
