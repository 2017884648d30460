"""The rules of ARCHITECTURE.md that a machine can hold: layers, sizes, imports, documents."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "lowtide"

LAYERS: dict[str, set[str]] = {
    "ir": set(),
    "planning": set(),
    "certificate": {"ir", "analysis", "planning", "scheduling"},
    "options": {"sizes"},
    "sizes": {"ir"},
    "kept_solvers": {"llvm", "options", "planning"},
    "ops": {"ir"},
    "llvm": set(),
    "builder": {"ir", "ops"},
    "verifier": {"ir", "ops"},
    "frontend": {"ir", "ops", "builder", "analysis"},
    "evaluator": {"ir", "ops"},
    "analysis": {"ir", "ops"},
    "checking": {"ir", "ops"},
    "passes": {"ir", "ops", "builder"},
    "transforms": {"ir", "ops", "builder", "evaluator", "analysis", "passes"},
    "fusion": {"ir", "ops", "builder", "analysis", "passes", "transforms"},
    "scheduling": {"ir", "ops", "analysis", "planning"},
    "remat": {"ir", "analysis", "planning"},
    "buffers": {"ir", "ops", "analysis", "planning"},
    "report": {"ir", "analysis"},
    "codegen": {"ir", "ops", "llvm"},
    "runtime": {"ir", "llvm"},
    "tuning": {"ir", "llvm", "codegen", "runtime"},
}
"""What each layer may import besides itself; layers that are not listed may import all."""

ABOVE = {
    "__init__",
    "__main__",
    "api",
    "budgeting",
    "compiler",
    "pipelines",
    "called_ladders",
    "certifying",
    "native",
    "planned_passes",
    "proposals",
    "client",
    "cli",
    "testing",
}
"""What stands above all layers."""

LONGEST_FILE = 500
TABLES = {"attributes.py", "syntax.py"}
"""Files that are one table or one list of records, and may be longer."""


def imported_layers(path: Path) -> set[str]:
    """Return the layers that a file imports, wherever the import statement stands."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return {name.split(".")[1] for name in names if name.startswith("lowtide.")}


def layer_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def sources() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def test_every_folder_is_a_known_layer() -> None:
    assert {layer_of(path) for path in sources()} <= set(LAYERS) | ABOVE


@pytest.mark.parametrize("path", sources(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_layers_import_only_what_stands_below_them(path: Path) -> None:
    layer = layer_of(path)
    if layer in ABOVE:
        return
    known = set(LAYERS) | ABOVE
    wrong = (imported_layers(path) & known) - LAYERS[layer] - {layer}
    assert not wrong, f"{layer} must not import {sorted(wrong)}"


@pytest.mark.parametrize("path", sources(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_files_hold_one_idea(path: Path) -> None:
    lines = len(path.read_text().splitlines())
    assert lines <= LONGEST_FILE or path.name in TABLES, f"{lines} lines: split it by idea"


def test_environment_is_read_in_options_only() -> None:
    readers = [path.name for path in sources() if "os.environ" in path.read_text()]
    assert set(readers) <= {"options.py"}


def test_no_machine_paths_in_tracked_files() -> None:
    suffixes = {".py", ".md", ".toml", ".cfg", ""}
    pattern = re.compile(r"(?<![A-Za-z0-9_.])/(tmp|work|root|home)/")
    for path in [*ROOT.glob("*"), *(ROOT / "docs").rglob("*"), *PACKAGE.rglob("*")]:
        if path.is_file() and path.suffix in suffixes:
            assert not pattern.search(path.read_text(errors="ignore")), path


def test_importing_lowtide_loads_nothing_heavy() -> None:
    heavy = (
        "jax",
        "jaxlib",
        "llvmlite",
        "onnx",
        "ortools",
        "hypothesis",
        "typer",
        "rich",
        "google",
    )
    code = f"import sys, lowtide; print([name for name in {heavy!r} if name in sys.modules])"
    paths = {"PYTHONPATH": str(PACKAGE.parent)}
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=paths
    )
    assert run.stdout.strip() == "[]"


def test_links_in_documents_lead_somewhere() -> None:
    for document in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name} links to {target}"
