"""What benchmarks import of the package is there: most of them run only now and then."""

import ast
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


def imported(path: Path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "lowtide":
            yield from [(node.module, alias.name) for alias in node.names]


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda x: x.stem)
def test_what_is_imported_is_there(path: Path) -> None:
    for module, name in imported(path):
        found = import_module(module)
        assert hasattr(found, name) or find_spec(f"{module}.{name}"), f"{module} has no {name}"
