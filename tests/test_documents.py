"""The Python blocks in the documents run as they stand."""

import linecache
import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def blocks() -> list[tuple[str, str]]:
    found = []
    for name in ("README.md", "CONTRIBUTING.md", "docs/planners.md"):
        codes = BLOCK.findall((ROOT / name).read_text())
        found += [(f"{name}:{i}", code) for i, code in enumerate(codes, 1)]
    return found


@pytest.mark.parametrize(("name", "code"), blocks(), ids=[name for name, _ in blocks()])
def test_block_runs(name: str, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    # Kernels read their own source.
    monkeypatch.setitem(linecache.cache, name, (len(code), None, code.splitlines(True), name))
    exec(compile(code, name, "exec"), {"__name__": "document"})
    assert Path(os.getcwd()) == ROOT
