"""Scripts as users write them: each ends with an empty stderr and prints what it does by JAX.

A script is one file in `programs/`. Numbers in what it prints may differ in their last digits. A
script that needs packages says so in a line "needs:" of its docstring, is skipped without, and is
slow. One that ends with another status than 0 has a line "ends with:". How JAX ends does not count.
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
APART = {"early_exit", "linear_regression"}
"""Scripts that run in a process of their own from its start, as users start them."""


@dataclass
class End:
    """How a script ended, and what it printed."""

    status: int
    out: str
    err: str


class Zygote:
    """A process that forks for each script, which `lowtide.jit` or `jax.jit` then compiles."""

    def __init__(self, folder: Path, through: str) -> None:
        self._folder = folder
        self._through = through
        self._process = self._started()

    def _started(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, str(HERE / "zygote.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(),
        )

    def start(self, script: Path) -> None:
        """Start a script."""
        out, err = [str(self._folder / f"{self._through}.{name}") for name in ("out", "err")]
        order = {"script": str(script), "through": self._through, "out": out, "err": err}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()

    def ended(self) -> End:
        """Return how the script that was started ended."""
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], SECONDS)[0]:
            self._process.kill()
            self._process = self._started()
            raise TimeoutError(f"the script takes more than {SECONDS} seconds")
        status = int(self._process.stdout.readline())
        out, err = [(self._folder / f"{self._through}.{x}").read_text() for x in ("out", "err")]
        return End(status, out, err)

    def close(self) -> None:
        """End the process."""
        self._process.communicate(timeout=SECONDS)


def environment() -> dict[str, str]:
    return {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONWARNINGS": "default"}


@pytest.fixture(scope="module")
def zygotes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Zygote, Zygote]]:
    folder = tmp_path_factory.mktemp("scripts")
    found = Zygote(folder, "lowtide"), Zygote(folder, "jax")
    yield found
    for x in found:
        x.close()


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


def told(script: Path, what: str) -> list[str]:
    """Return what a script says of itself."""
    found = re.search(rf"^{what}: (.*)$", script.read_text(), re.MULTILINE)
    return found[1].split() if found else []


def numbers(text: str) -> list[float]:
    return [float(x) for x in NUMBER.findall(text)]


CASES = [
    pytest.param(x, id=x.stem, marks=[pytest.mark.slow] if told(x, "needs") else [])
    for x in SCRIPTS
]


@pytest.mark.parametrize("script", CASES)
def test_it_ends_in_silence_with_the_results_of_jax(
    script: Path, zygotes: tuple[Zygote, Zygote]
) -> None:
    absent = [name for name in told(script, "needs") if importlib.util.find_spec(name) is None]
    if absent:
        pytest.skip(f"needs {', '.join(absent)}")
    ours, theirs = zygotes
    theirs.start(script)
    if script.stem in APART:
        found = alone(script)
    else:
        ours.start(script)
        found = ours.ended()
    wanted = theirs.ended()
    assert found.err == ""
    assert [str(found.status)] == (told(script, "ends with") or ["0"])
    assert NUMBER.sub("", found.out) == NUMBER.sub("", wanted.out)
    assert numbers(found.out) == pytest.approx(numbers(wanted.out), rel=2e-3, abs=1e-4)
    assert found.out
