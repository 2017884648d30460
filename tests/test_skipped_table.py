"""The table of skipped tests that ends `.ci/run`, of a run of pytest in a folder of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / ".ci" / "skipped.py"

TESTS = """
import pytest
@pytest.mark.skipif(True, reason="no mpiexec")
@pytest.mark.parametrize("number", range(3))
def test_marked(number):
    pass
def test_within():
    pytest.skip("no case of that name")
@pytest.mark.xfail
def test_known():
    raise AssertionError
def test_that_runs():
    pass
"""


def test_the_table_counts_by_folder_and_reason(tmp_path: Path) -> None:
    folder = tmp_path / "tests" / "runtime" / "mpi"
    folder.mkdir(parents=True)
    (folder / "test_ranks.py").write_text(TESTS)
    whole = "import pytest\nabsent = pytest.importorskip('no_such_package', reason='not here')\n"
    (tmp_path / "tests" / "test_whole.py").write_text(whole)
    results = tmp_path / "results.xml"
    pytest = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        f"--junitxml={results}",
    ]
    ran = subprocess.run([*pytest, "tests"], cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout
    found = subprocess.run(
        [sys.executable, str(SCRIPT), str(results)], capture_output=True, text=True, check=True
    )
    assert [x.split() for x in found.stdout.splitlines()] == [
        ["5", "skipped"],
        ["3", "tests/runtime/mpi", "no", "mpiexec"],
        ["1", "tests", "not", "here"],
        ["1", "tests/runtime/mpi", "no", "case", "of", "that", "name"],
    ]
