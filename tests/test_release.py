"""What a release is made of: versions that agree, and packages that work where nothing else is."""

import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

import lowtide
from lowtide.files.source_digest import source_digest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def run(*command: object, folder: Path = ROOT) -> str:
    done = subprocess.run(
        [str(x) for x in command], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def test_versions_agree():
    assert PROJECT["version"] == lowtide.__version__


def test_the_changelog_has_what_is_not_released():
    assert "## Unreleased" in (ROOT / "CHANGELOG.md").read_text()


@pytest.mark.slow
def test_wheel_and_sdist_are_checked_and_run(tmp_path):
    for name in ("build", "twine"):
        if find_spec(name) is None:
            pytest.skip(f"needs {name}: pip install build twine")
    run(sys.executable, "-m", "build", "--outdir", tmp_path, ROOT)
    made = sorted(tmp_path.iterdir())
    assert [x.name for x in made] == [
        f"lowtide-{lowtide.__version__}-py3-none-any.whl",
        f"lowtide-{lowtide.__version__}.tar.gz",
    ]
    run(sys.executable, "-m", "twine", "check", "--strict", *made)
    run(sys.executable, "-m", "venv", tmp_path / "clean")
    python = tmp_path / "clean" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", made[0])
    command = tmp_path / "clean" / "bin" / "lowtide"
    tree = source_digest(ROOT / "src" / "lowtide")
    assert run(command, "--version") == f"lowtide {lowtide.__version__} (sources {tree})\n"
    example = ROOT / "examples" / "mnist_cnn.hlo.xz"
    assert "at the peak" in run(command, "explain", example, folder=tmp_path).lower()
    assert run(command, "run", example, "--sanitize", folder=tmp_path)
