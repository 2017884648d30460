"""What serves any target stands apart from what is for CPUs; nothing is imported late."""

from __future__ import annotations

import ast

import pytest
from tests.architecture import Source, imported, sources

HERE = [x for x in sources() if x.room == "codegen"]
ALSO_CPU = ("codegen/gpu/units.py", "codegen/gpu/collective.py")
"""What runs the CPU's pieces of work on another target, and what devices do together there."""

ANY_TARGET = [x for x in HERE if not x.name.startswith("codegen/cpu/") and x.name not in ALSO_CPU]


@pytest.mark.parametrize("source", ANY_TARGET, ids=lambda x: x.name)
def test_what_serves_any_target_imports_nothing_of_cpus(source: Source) -> None:
    assert not [x for x in imported(source) if x.startswith("lowtide.codegen.cpu")]


@pytest.mark.parametrize("source", HERE, ids=lambda x: x.name)
def test_all_imports_stand_at_the_top(source: Source) -> None:
    functions = [x for x in ast.walk(source.tree) if isinstance(x, ast.FunctionDef)]
    late = [y for x in functions for y in ast.walk(x) if isinstance(y, ast.Import | ast.ImportFrom)]
    assert not [x for x in late if isinstance(x, ast.ImportFrom) and "codegen" in (x.module or "")]
