"""Tests depend on no clock: none measures time, and none waits for less than hangs take."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support import HANG_SECONDS

TESTS = Path(__file__).parent

CLOCKS = {"monotonic", "perf_counter", "process_time", "thread_time", "time", "time_ns"}
WAITS = {"communicate", "exception", "get", "join", "result", "wait"}
"""Methods whose first argument may be a time."""

MEASURE = {
    "frontend/test_proto_fuzz.py": "how long to hunt; seconds of the processor of what hangs",
    "frontend/test_text_fuzz.py": "how long to hunt",
    "report/test_page_in_browser.py": "slow: a promise about time",
    "runtime/cpu/test_pool.py": "when a worker that never comes counts as hung",
    "runtime/mpi/launching.py": "when all ranks had ended",
    "strangers/hunt.py": "how long to hunt",
    "strangers/test_strangers.py": "to be slow",
    "testing/test_modules.py": "how long to hunt",
}
"""Tests that ask a clock, and what for."""

TOOL = "hunting"
"""The folder of a tool that runs for the time it is given, and tells how long answers took."""


def complaints(tree: ast.AST) -> Iterator[str]:
    """Yield what in a file waits too shortly, and the clocks that it asks."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        name = node.func.id if isinstance(node.func, ast.Name) else name
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        is_clock = owner is None or (isinstance(owner, ast.Name) and owner.id == "time")
        if name in CLOCKS and is_clock:
            yield f"line {node.lineno}: asks a clock"
        times = [x.value for x in node.keywords if x.arg == "timeout"]
        times += node.args[:1] if name in WAITS else []
        for given in times:
            if isinstance(given, ast.Constant) and isinstance(given.value, int | float):
                yield f"line {node.lineno}: waits for {given.value} s, not for HANG_SECONDS"


def test_no_test_depends_on_the_clock() -> None:
    found: list[str] = []
    for path in sorted(TESTS.rglob("*.py")):
        name, said = (
            path.relative_to(TESTS).as_posix(),
            list(complaints(ast.parse(path.read_text()))),
        )
        if path.is_relative_to(TESTS / TOOL):
            continue
        if name in MEASURE:
            assert any("clock" in x for x in said), f"{name} asks no clock"
            said = [x for x in said if "clock" not in x]
        found += [f"{name}: {x}" for x in said]
    assert found == []


@pytest.mark.parametrize(
    "text",
    ["time.monotonic()", "perf_counter()", "run(x, timeout=60)", "p.wait(60)", "thread.join(2.5)"],
)
def test_what_depends_on_the_clock_is_found(text: str) -> None:
    assert list(complaints(ast.parse(text)))
    assert not list(complaints(ast.parse("a.wait(HANG_SECONDS); ','.join(x); f(timeout=T)")))


def test_hangs_are_longer_than_any_slow_machine_takes() -> None:
    assert HANG_SECONDS >= 1800
