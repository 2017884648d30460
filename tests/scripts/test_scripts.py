"""Scripts as users write them: each ends with an empty stderr and prints what it does by JAX.

A script is one file in `programs/`. Numbers in what it prints may differ in their last digits. A
script that needs packages says so in a line "needs:" of its docstring, and is skipped without.
"""

import importlib.util
import json
import os
import re
import select
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.importorskip("jax")

HERE = Path(__file__).parent
SCRIPTS = sorted((HERE / "programs").glob("*.py"))
SECONDS = 120
NUMBER = re.compile(r"-?\d+\.?\d*(?:e[-+]?\d+)?")
APART = {"early_exit", "with_flax", "linear_regression"}
"""Scripts that run in a process of their own from its start, as users start them."""


@dataclass
class End:
    """How a script ended, and what it printed."""

    status: int
    out: str
    err: str


class Zygote:
    """The process that forks for each script."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process = self._started()

    def _started(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, str(HERE / "zygote.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(),
        )

    def run(self, script: Path, through: str) -> End:
        """Return how a script ended."""
        out, err = self._folder / "out", self._folder / "err"
        order = {"script": str(script), "through": through, "out": str(out), "err": str(err)}
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        if not select.select([self._process.stdout], [], [], SECONDS)[0]:
            self._process.kill()
            self._process = self._started()
            raise TimeoutError(f"{script.name} takes more than {SECONDS} seconds")
        status = int(self._process.stdout.readline())
        return End(status, out.read_text(), err.read_text())

    def close(self) -> None:
        """End the process."""
        self._process.communicate(timeout=SECONDS)


def environment() -> dict[str, str]:
    return {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONWARNINGS": "default"}


@pytest.fixture(scope="module")
def zygote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    found = Zygote(tmp_path_factory.mktemp("scripts"))
    yield found
    found.close()


def alone(script: Path) -> End:
    """Return how a script ended that was started by itself."""
    run = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=SECONDS,
        check=False,
    )
    return End(run.returncode, run.stdout, run.stderr)


def missing(script: Path) -> list[str]:
    """Return the packages that a script needs and that are not installed."""
    found = re.search(r"^needs: (.*)$", script.read_text(), re.MULTILINE)
    names = found[1].split() if found else []
    return [name for name in names if importlib.util.find_spec(name) is None]


def numbers(text: str) -> list[float]:
    return [float(x) for x in NUMBER.findall(text)]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda x: x.stem)
def test_it_ends_in_silence_with_the_results_of_jax(script: Path, zygote: Zygote) -> None:
    if absent := missing(script):
        pytest.skip(f"needs {', '.join(absent)}")
    found = alone(script) if script.stem in APART else zygote.run(script, "lowtide")
    assert found.err == ""
    wanted = zygote.run(script, "jax")
    assert found.status == wanted.status
    assert NUMBER.sub("", found.out) == NUMBER.sub("", wanted.out)
    assert numbers(found.out) == pytest.approx(numbers(wanted.out), rel=2e-3, abs=1e-4)
    assert found.out
