"""Child processes that run JAX's test files: a crash or a hang loses one test only."""

from __future__ import annotations

import json
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

CHILD: Final = Path(__file__).parent / "jax_suite_child.py"

AT_ONCE: Final = 40
"""Tests of one child."""

SILENT_SECONDS: Final = 240
"""How long a child may write nothing; a test of its own accord ends before."""

DEVICES: Final = re.compile(r"request_cpu_devices\((\d+)\)")

Event = dict[str, Any]


@dataclass(frozen=True)
class Setting:
    """How tests run: the file, 64 bits or not, cases of a generated test, `jit`, platforms."""

    file: Path
    x64: bool
    cases: int
    through: str
    platforms: str

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a child."""
        wanted = DEVICES.search(self.file.read_text())
        return {
            **os.environ,
            "JAX_ENABLE_X64": str(int(self.x64)),
            "JAX_NUM_GENERATED_CASES": str(self.cases),
            "JAX_PLATFORMS": self.platforms,
            "JAX_SUITE_THROUGH": self.through,
            "LOWTIDE_DEVICES": wanted[1] if wanted else "1",
        }


def run_child(setting: Setting, names: Sequence[str]) -> list[Event]:
    """Return the events of one child; without names, that which lists the tests.

    A child that ends early has a last event "died", with the end of what it wrote to stderr.
    """
    with tempfile.TemporaryDirectory() as folder:
        results, errors = Path(folder) / "events", Path(folder) / "errors"
        command = [sys.executable, str(CHILD), str(setting.file), str(results), *names]
        with errors.open("wb") as written:
            child = subprocess.Popen(
                command,
                env=setting.environment,
                stdout=subprocess.DEVNULL,
                stderr=written,
                start_new_session=True,
            )
            late = waited(child, results)
        text = results.read_text() if results.exists() else ""
        events = [json.loads(line) for line in text.splitlines() if line.endswith("}")]
        if not events or events[-1]["event"] not in ("end", "tests"):
            last = errors.read_text(errors="replace").strip()[-1000:]
            events.append({"event": "died", "what": "no answer" if late else last})
    return events


def waited(child: subprocess.Popen[bytes], results: Path, silent: float = SILENT_SECONDS) -> bool:
    """Wait for a child; return whether it was ended since it wrote nothing for `silent` seconds."""
    begun = time.time()
    while True:
        try:
            child.wait(1)
        except subprocess.TimeoutExpired:
            last = results.stat().st_mtime if results.exists() else begun
            if time.time() - last > silent:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
                return True
        else:
            return False


def run_tests(
    setting: Setting, names: Sequence[str], keep: Callable[[list[Event]], None] | None = None
) -> list[Event]:
    """Return the events of tests; after one in which its child ended, the others go on.

    `keep` takes the events of each child as soon as that has ended.
    """
    events: list[Event] = []
    left = list(names)
    while left:
        found = run_child(setting, left[:AT_ONCE])
        begun = [x["test"] for x in found if x["event"] == "begin"]
        if found[-1]["event"] == "end":
            left = left[AT_ONCE:]
        else:
            last = begun[-1] if begun else left[0]
            found[-1] = {"event": "crashed", "test": last, "what": found[-1]["what"]}
            left = left[left.index(last) + 1 :]
        events += found
        if keep:
            keep(found)
    return events


def listed(setting: Setting) -> list[str]:
    """Return the names of the tests of a file."""
    found = [x["names"] for x in run_child(setting, []) if x["event"] == "tests"]
    return list(found[0]) if found else []


def test_files(folder: Path, files: str) -> list[Path]:
    """Return the test files of a folder, in order, whose names have one of some words, by comma."""
    words = files.split(",")
    return [x for x in sorted(folder.glob("*_test.py")) if any(y in x.stem for y in words)]


def processor() -> str:
    """Return the name of the processor."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.machine()
    found = re.search(r"model name\s*: (.*)", text)
    return found[1] if found else platform.machine()
