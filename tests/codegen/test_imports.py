"""What serves any target stands apart from what is for CPUs; nothing is imported late."""

from __future__ import annotations

import ast

from tests.architecture import Source, imported, sources

HERE = [x for x in sources() if x.room == "codegen"]
ALSO_CPU = ("codegen/gpu/units.py", "codegen/gpu/collective.py")
"""What runs the CPU's pieces of work on another target, and what devices do together there."""

CPU = "lowtide.codegen.cpu"
ANY_TARGET = [x for x in HERE if not x.name.startswith("codegen/cpu/") and x.name not in ALSO_CPU]


def test_what_serves_any_target_imports_nothing_of_cpus() -> None:
    found = {x.name: [y for y in imported(x) if y.startswith(CPU)] for x in ANY_TARGET}
    assert {x for x, cpu in found.items() if cpu} == set()


def late_imports(source: Source) -> list[str]:
    """Return the files of this room that are imported within functions."""
    functions = [x for x in ast.walk(source.tree) if isinstance(x, ast.FunctionDef)]
    late = [y for x in functions for y in ast.walk(x) if isinstance(y, ast.ImportFrom)]
    return [x.module for x in late if x.module and "codegen" in x.module]


def test_all_imports_stand_at_the_top() -> None:
    assert {x.name for x in HERE if late_imports(x)} == set()
