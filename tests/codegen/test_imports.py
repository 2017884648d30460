"""Files of code generation import each other in one direction, and all at load."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import lowtide

PACKAGE = "lowtide.codegen"
FOLDER = Path(lowtide.__file__).parent / "codegen"

VECTORS = (
    "element_division",
    "element_streaming",
    "fetching",
    "order",
    "reading",
    "strided",
    "tiles",
)
"""Files about the vectors, caches and memory of processors."""


def module_of(path: Path, folder: Path) -> str:
    parts = path.relative_to(folder).with_suffix("").parts
    return ".".join([PACKAGE, *[x for x in parts if x != "__init__"]])


def graph_of(folder: Path) -> dict[str, set[str]]:
    """For each module what it imports while it is loaded, of the package."""
    files = {module_of(x, folder): x for x in sorted(folder.rglob("*.py"))}
    found: dict[str, set[str]] = {}
    for module, path in files.items():
        body = ast.parse(path.read_text()).body
        nodes = [x for x in body if isinstance(x, ast.ImportFrom) and x.module]
        pairs = [(x.module or "", f"{x.module}.{name.name}") for x in nodes for name in x.names]
        modules = {inner if inner in files else outer for outer, inner in pairs}
        found[module] = modules & set(files) - {PACKAGE}
    return found


def late_imports(path: Path) -> list[int]:
    """The lines of a file where something of the package is imported within a function."""
    tree = ast.parse(path.read_text())
    functions = [x for x in ast.walk(tree) if isinstance(x, ast.FunctionDef)]
    return [
        node.lineno
        for function in functions
        for node in ast.walk(function)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE)
    ]


def reached(graph: dict[str, set[str]], start: str) -> set[str]:
    found, waiting = {start}, [start]
    while waiting:
        new = graph[waiting.pop()] - found
        found |= new
        waiting += new
    return found


def test_no_file_imports_itself_through_others() -> None:
    order = list(TopologicalSorter(graph_of(FOLDER)).static_order())
    assert f"{PACKAGE}.elements" in order
    assert order.index(f"{PACKAGE}.elements") < order.index(f"{PACKAGE}.element_rules")


def test_nothing_of_the_package_is_imported_within_functions() -> None:
    found = {str(x): late_imports(x) for x in FOLDER.rglob("*.py")}
    assert {file: lines for file, lines in found.items() if lines} == {}


def test_elements_one_by_one_need_nothing_that_is_about_vectors_in_memory() -> None:
    needed = reached(graph_of(FOLDER), f"{PACKAGE}.scalar_elements")
    assert not needed & {f"{PACKAGE}.{x}" for x in VECTORS}
    everything = reached(graph_of(FOLDER), f"{PACKAGE}.select")
    assert {f"{PACKAGE}.{x}" for x in VECTORS} <= everything


def test_these_tests_see_circles_and_late_imports(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(f"from {PACKAGE} import b\n")
    (tmp_path / "b.py").write_text(f"def f():\n    from {PACKAGE}.a import x\n")
    assert graph_of(tmp_path) == {f"{PACKAGE}.a": {f"{PACKAGE}.b"}, f"{PACKAGE}.b": set()}
    assert late_imports(tmp_path / "b.py") == [2]
    (tmp_path / "b.py").write_text(f"from {PACKAGE}.a import x\n")
    with pytest.raises(CycleError):
        list(TopologicalSorter(graph_of(tmp_path)).static_order())
