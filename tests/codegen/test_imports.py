"""What serves any target stands apart from what is for CPUs; nothing is imported late."""

from __future__ import annotations

import ast

import pytest
from tests.architecture import Source, imported, sources

HERE = [x for x in sources() if x.room == "codegen"]
ALSO_CPU = ("codegen/gpu/units.py", "codegen/gpu/collective.py")
"""What runs the CPU's pieces of work on another target, and what devices do together there."""

FORMS = frozenset(
    f"lowtide.codegen.cpu.{x}"
    for x in (
        "convolution.select_and_scatter",
        "library.fft_form",
        "library.fft_stages",
        "library.field",
        "library.matrices",
        "library.order",
        "library.records",
        "library.scatter",
        "library.scatter_form",
        "library.sort_form",
        "library.topk",
        "library.updates",
        "reduction.scratch",
        "reduction.steps",
        "reduction.totals",
    )
)
"""What kernels of GPUs take of those of CPUs: what an operation is, which no target changes."""

ANY_TARGET = [x for x in HERE if not x.name.startswith("codegen/cpu/") and x.name not in ALSO_CPU]


@pytest.mark.parametrize("source", ANY_TARGET, ids=lambda x: x.name)
def test_what_serves_any_target_imports_nothing_of_cpus(source: Source) -> None:
    taken = {x for x in imported(source) if x.startswith("lowtide.codegen.cpu")}
    allowed = FORMS if source.name.startswith("codegen/gpu/") else frozenset()
    assert not {x for x in taken if x not in allowed and x.rpartition(".")[0] not in allowed}


@pytest.mark.parametrize("source", HERE, ids=lambda x: x.name)
def test_all_imports_stand_at_the_top(source: Source) -> None:
    functions = [x for x in ast.walk(source.tree) if isinstance(x, ast.FunctionDef)]
    late = [y for x in functions for y in ast.walk(x) if isinstance(y, ast.Import | ast.ImportFrom)]
    assert not [x for x in late if isinstance(x, ast.ImportFrom) and "codegen" in (x.module or "")]
