"""The Python blocks in the documents run as they stand, and the files that they name are there."""

import linecache
import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
NAMED = re.compile(r"`(?:([\w./-]+\.py|[\w.][\w./-]*/))(?:[ :][^`]*)?`")
"""A file of Python or a folder in backticks, perhaps with options or a line number."""

DOCUMENTS = ("ARCHITECTURE.md", "CONTRIBUTING.md", "README.md")
PLACES = (ROOT, ROOT / "src" / "lowtide")
"""Where paths in documents begin."""


def blocks() -> list[tuple[str, str]]:
    found = []
    for name in ("README.md", "CONTRIBUTING.md", "docs/explain.md", "docs/planners.md"):
        codes = BLOCK.findall((ROOT / name).read_text())
        found += [(f"{name}:{i}", code) for i, code in enumerate(codes, 1)]
    return found


def documents() -> list[Path]:
    return [*[ROOT / name for name in DOCUMENTS], *sorted((ROOT / "docs").glob("*.md"))]


def is_there(path: str) -> bool:
    """Whether a path leads somewhere; a bare name may be that of any file of package or tests."""
    if any((place / path).exists() for place in PLACES):
        return True
    return "/" not in path and any(any((ROOT / x).rglob(path)) for x in ("src", "tests"))


SERIES = ("docs/jax.md",)
"""Documents whose blocks are one program, each after the ones above it."""


@pytest.mark.parametrize("document", documents(), ids=lambda x: x.name)
def test_named_files_are_there(document: Path) -> None:
    text = document.read_text()
    lost = [path for path in NAMED.findall(text) if not is_there(path)]
    assert not lost, f"{document.name} names files that are not there: {lost}"


def test_what_is_a_named_file() -> None:
    text = "`ir/module.py`, `ops/`, `a.py --results`, `x_test.cc/4.hlo`, `1/2`, `report.py:7`"
    assert NAMED.findall(text) == ["ir/module.py", "ops/", "a.py", "report.py"]
    assert is_there("ir/module.py") and is_there("ops/") and is_there("hlo_alias.py")
    assert not is_there("ir/no_module.py") and not is_there("no_module.py")


@pytest.mark.parametrize(("name", "code"), blocks(), ids=[name for name, _ in blocks()])
def test_block_runs(name: str, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    # Kernels read their own source.
    monkeypatch.setitem(linecache.cache, name, (len(code), None, code.splitlines(True), name))
    exec(compile(code, name, "exec"), {"__name__": "document"})
    assert Path(os.getcwd()) == ROOT


@pytest.mark.parametrize("name", SERIES)
def test_blocks_run_in_turn(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("jax")
    monkeypatch.chdir(ROOT)
    names = {"__name__": "document"}
    codes = BLOCK.findall((ROOT / name).read_text())
    assert codes
    for i, code in enumerate(codes, 1):
        exec(compile(code, f"{name}:{i}", "exec"), names)
