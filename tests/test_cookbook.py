"""The stories of docs/cookbook.md, each run as the script that stands there."""

import ast
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "cookbook.md").read_text()
STORY = re.compile(r"^## (\d+)\. (.*?)\n.*?^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
STORIES = STORY.findall(PAGE)
OWN = frozenset({*sys.stdlib_module_names, "lowtide", "numpy"})


def packages(script: str) -> list[str]:
    """The packages that a script imports beside those that lowtide has anyway."""
    names = []
    for x in ast.walk(ast.parse(script)):
        if isinstance(x, ast.Import):
            names += [alias.name for alias in x.names]
        elif isinstance(x, ast.ImportFrom):
            names.append(x.module or "")
    return sorted({name.split(".")[0] for name in names} - OWN)


def test_the_stories_are_numbered_and_most_need_jax_only():
    assert [int(number) for number, _, _ in STORIES] == list(range(1, 14))
    assert PAGE.count("\n## ") == PAGE.count("```python\n") == 13
    assert sum([packages(script) == ["jax"] for _, _, script in STORIES]) >= 6


@pytest.mark.parametrize("number, title, script", STORIES, ids=[x[0] for x in STORIES])
def test_a_story_runs(number, title, script, tmp_path):
    missing = [name for name in packages(script) if find_spec(name) is None]
    if missing:
        pytest.skip(f"story {number} ({title}) needs {', '.join(missing)}")
    (tmp_path / "story.py").write_text(script)
    paths = [str(ROOT / "src"), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    given = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "JAX_PLATFORMS": "cpu"}
    given.pop("XLA_FLAGS", None)
    done = subprocess.run(
        [sys.executable, "story.py"],
        cwd=tmp_path,
        env=given,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
