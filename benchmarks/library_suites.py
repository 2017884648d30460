"""Tests that JAX's libraries ship, on the platform `lowtide`; what fails there, on XLA:CPU, too.

    python benchmarks/library_suites.py --suite NAME --tests FOLDER --keep FILE

FOLDER has the tests of the library NAME, which must be importable: those of its wheel or of its
source archive. `--at-once` files run in one child process, pytest with this file as a plugin, until
`--seconds` of the processor's time are used: first one test of each function, then the second of
each, and so on. What came of a test is appended to FILE as a line of JSON, and files that
are there already do not run again. A test that fails, crashes, or ends late is run on XLA:CPU; if
it passes there, or its turn does not come, it is run again by itself on both. It is a find where
both say the same again. A file that does not load is a find where it loads on XLA:CPU.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from jax_suite_children import waited

OURS: Final = "lowtide"
THEIRS: Final = "cpu"
SILENT_SECONDS: Final = 300
BROKEN: Final = "broken"
BAD: Final = ("failed", "crashed", "late")
NAMES: Final = ("test_*.py", "*_test.py", "*_tests.py")

Outcomes = dict[str, tuple[str, str]]


# -- in the child ----------------------------------------------------------------------------------


class Late(BaseException):
    """A test used too much of the processor's time."""


def _end(*_: Any) -> None:
    raise Late


class Child:
    """The plugin of pytest: chooses tests, notes what comes of each."""

    def __init__(self, setting: Mapping[str, Any]) -> None:
        self._events = Path(setting["events"])
        self._seconds, self._limit = setting["seconds"], setting["limit"]
        self._only, self._known = setting["only"], frozenset(setting["known"])
        self._collected = False
        self._begun = time.process_time()
        self._found: tuple[str, str] = ("passed", "")

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Leave what is to run: the first case of each function before the second of any."""
        self._collected = True
        count: Counter[str] = Counter()
        turns: list[tuple[int, int, int, Any]] = []
        for at, item in enumerate(items):
            name = getattr(item, "originalname", None) or item.name
            function = item.nodeid.partition("[")[0].rstrip("0123456789") + name.partition("[")[0]
            count[function] += 1
            turns.append((count[function], zlib.crc32(item.nodeid.encode()), at, item))
        chosen = [x for *_, x in sorted(turns, key=lambda x: x[:3])]
        if self._only:
            chosen = [x for x in chosen if x.nodeid in self._only]
        items[:] = [x for x in chosen if x.nodeid not in self._known]

    def _write(self, *line: str) -> None:
        with self._events.open("a") as file:
            file.write(json.dumps(line) + "\n")

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Note that a test begins."""
        self._found = ("passed", "")
        self._write("begin", nodeid)

    def pytest_runtest_setup(self) -> None:
        """Begin to count the time of a test."""
        signal.signal(signal.SIGPROF, _end)
        signal.setitimer(signal.ITIMER_PROF, self._limit)

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Take what came of a part of a test."""
        if report.when == "teardown":
            signal.setitimer(signal.ITIMER_PROF, 0)
        text = str(report.longrepr or "")
        if report.failed:
            late = "library_suites.Late" in text or text.rstrip().endswith("Late")
            self._found = ("late" if late else "failed", text[-3000:])
        elif report.skipped:
            self._found = ("skipped", text[-200:])

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Note what came of a test."""
        self._write(self._found[0], nodeid, self._found[1])

    def pytest_collectreport(self, report: Any) -> None:
        """Note a file that does not load."""
        if report.failed:
            self._write(BROKEN, report.nodeid, str(report.longrepr)[-1000:])

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Note that tests were found and nothing ended the child."""
        if self._collected or exitstatus == 5:
            self._write("end")

    def pytest_runtest_protocol(self, item: Any) -> None:
        """End the session where the time is used."""
        if time.process_time() - self._begun > self._seconds:
            item.session.shouldstop = "the time is used"


def pytest_configure(config: Any) -> None:
    """Register the plugin in a child."""
    config.pluginmanager.register(Child(json.loads(os.environ["LIBRARY_SUITES"])))


# -- in the parent ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Files:
    """Files of tests, and the folder in which they lie."""

    root: Path
    names: tuple[str, ...]


@dataclass(frozen=True)
class Limits:
    """Seconds of the processor for a child and for a test."""

    child: float
    test: float


def child(
    files: Files, platform: str, limits: Limits, only: Sequence[str], known: Sequence[str]
) -> tuple[list[list[str]], str]:
    """Return the events of one child, and the end of what it wrote if it ended early."""
    with tempfile.TemporaryDirectory() as folder:
        events = Path(folder) / "events"
        setting = {
            "events": str(events),
            "seconds": limits.child,
            "limit": limits.test,
            "only": list(only),
            "known": list(known),
        }
        environment = {**os.environ, "JAX_PLATFORMS": platform}
        environment["LIBRARY_SUITES"] = json.dumps(setting)
        here = str(Path(__file__).parent)
        environment["PYTHONPATH"] = os.pathsep.join([here, os.environ.get("PYTHONPATH", "")])
        options = ["-p", "library_suites", "-p", "no:cacheprovider", "-p", "no:xdist", "-q"]
        options += ["--tb=short", "-o", "addopts=", "--import-mode=importlib"]
        options += ["--rootdir", str(files.root), "--continue-on-collection-errors"]
        log = Path(folder) / "log"
        with log.open("wb") as written:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "pytest", *options, *files.names],
                env=environment,
                stdout=written,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=files.root,
            )
            late = waited(process, events, SILENT_SECONDS)
        lines = events.read_text().splitlines() if events.exists() else []
        text = log.read_text(errors="replace")[-3000:]
        found = [json.loads(x) for x in lines]
        whole = ["end"] in found
        return [x for x in found if len(x) > 1], "" if whole else ("no answer" if late else text)


def outcomes(
    files: Files, platform: str, limits: Limits, only: Sequence[str] = (), known: Sequence[str] = ()
) -> Outcomes:
    """Return what came of the tests of a file; after one that ends its child, the others go on."""
    found: Outcomes = {}
    for _ in range(6):
        events, died = child(files, platform, limits, only, [*known, *found])
        begun = [x[1] for x in events if x[0] == "begin"]
        found.update({x[1]: (x[0], x[2]) for x in events if x[0] != "begin"})
        if not died:
            break
        if not begun or begun[-1] in found:
            found[not_begun(files)] = (BROKEN, died)
            break
        found[begun[-1]] = ("crashed", died)
    return found


def not_begun(files: Files) -> str:
    """Return the name of what came of a child that ended before its first test."""
    return f"{files.names[0]}::"


class Kept:
    """What came of tests, in a file of lines of JSON."""

    def __init__(self, path: Path, suite: str) -> None:
        self._path, self._suite = path, suite
        self.found: dict[tuple[str, str], tuple[str, str]] = {}
        lines = path.read_text().splitlines() if path.exists() else []
        for name, test, platform, verdict, text in map(json.loads, lines):
            if name == suite:
                self.found[test, platform] = (verdict, text)

    def add(self, platform: str, found: Outcomes) -> None:
        """Append what came of tests."""
        with self._path.open("a") as kept:
            for test, (verdict, text) in found.items():
                self.found[test, platform] = (verdict, text)
                kept.write(json.dumps([self._suite, test, platform, verdict, text]) + "\n")


def measure(files: Files, kept: Kept, limits: Limits) -> Outcomes:
    """Run tests here, what fails on XLA:CPU, and what passes there by itself on both."""
    ours = outcomes(files, OURS, limits)
    if set(ours) == {not_begun(files)}:
        check_pytest(ours[not_begun(files)][1])
        if len(files.names) > 1:  # One file ended the child of all.
            alone = [measure(Files(files.root, (x,)), kept, limits) for x in files.names]
            return {test: came for found in alone for test, came in found.items()}
    kept.add(OURS, ours)
    note_unloaded(files, kept, limits, [x for x, (verdict, _) in ours.items() if verdict == BROKEN])
    kept.add("file", dict.fromkeys(files.names, ("ran", "")))
    bad = [x for x, (verdict, _) in ours.items() if verdict in BAD]
    if not bad:
        return ours
    theirs = outcomes(_files(files, bad), THEIRS, limits, only=bad)
    kept.add(THEIRS, theirs)
    for test in [x for x in bad if theirs.get(x, ("passed", ""))[0] == "passed"]:
        one = _files(files, [test])
        again = {x: outcomes(one, x, limits, only=[test]).get(test) for x in (OURS, THEIRS)}
        found = again[OURS]
        kept.add("again", {test: found or ("nothing", "")})
        if found and found[0] in BAD and again[THEIRS] == ("passed", ""):
            kept.add("find", {test: found})
            print(f"FIND {test}: {found[0]}\n{found[1][-1500:]}", flush=True)
    return ours


def check_pytest(text: str) -> None:
    """End the run where pytest itself does not start; `text` is what a child wrote."""
    command = [sys.executable, "-P", "-m", "pytest", "--version"]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        raise SystemExit(f"pytest does not start: {text}")


def note_unloaded(files: Files, kept: Kept, limits: Limits, broken: Sequence[str]) -> None:
    """Note as finds the files that do not load here, and do on XLA:CPU."""
    if not broken:
        return
    theirs = outcomes(_files(files, broken), THEIRS, limits, only=["no test"])
    kept.add(THEIRS, theirs)
    unloaded = {x.partition("::")[0] for x, (verdict, _) in theirs.items() if verdict == BROKEN}
    for name in broken:
        if name.partition("::")[0] not in unloaded:
            kept.add("find", {name: (BROKEN, "it loads on XLA:CPU")})
            print(f"FIND {name}: it loads on XLA:CPU only", flush=True)


def _files(files: Files, tests: Sequence[str]) -> Files:
    """Return those of some files in which tests lie."""
    wanted = {x.partition("::")[0] for x in tests}
    return Files(files.root, tuple(x for x in files.names if x in wanted))


def main() -> None:
    """Run the tests of a suite and print how many there were."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--suite", required=True)
    parser.add_argument("--tests", type=Path, required=True)
    parser.add_argument("--keep", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--test-seconds", type=float, default=10)
    parser.add_argument("--files", default="")
    parser.add_argument("--at-once", type=int, default=8)
    arguments = parser.parse_args()
    kept = Kept(arguments.keep, arguments.suite)
    limits = Limits(arguments.seconds, arguments.test_seconds)
    root = arguments.tests.resolve()
    paths = {str(x.relative_to(root)) for pattern in NAMES for x in root.rglob(pattern)}
    words = arguments.files.split(",")
    names = [x for x in sorted(paths) if any(y in x for y in words)]
    names = [x for x in names if (x, "file") not in kept.found]
    for at in range(0, len(names), arguments.at_once):
        files = Files(root, tuple(names[at : at + arguments.at_once]))
        count = Counter(verdict for verdict, _ in measure(files, kept, limits).values())
        print(", ".join(files.names), dict(sorted(count.items())), flush=True)
    for platform in (OURS, THEIRS, "find"):
        count = Counter(v for (_, p), (v, _) in kept.found.items() if p == platform)
        print(arguments.suite, platform, dict(sorted(count.items())))


if __name__ == "__main__":
    main()
