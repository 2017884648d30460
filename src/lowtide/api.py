"""The functions of the public interface that span several parts of lowtide."""

from __future__ import annotations

import os
from typing import Any, overload

from lowtide import compiler
from lowtide.frontend.files import read
from lowtide.ir import Module
from lowtide.options import Options
from lowtide.planning.search import SearchOptions, effort_named
from lowtide.report.autopsy import PlanReport
from lowtide.report.memory import MemoryReport
from lowtide.verifier import verify


@overload
def explain(
    source: Module | str | os.PathLike[str], options: Options | None = None
) -> MemoryReport: ...


@overload
def explain(source: Any, options: Options | None = None, *, lowered: Any = None) -> PlanReport: ...


def explain(
    source: Any, options: Options | None = None, *, lowered: Any = None
) -> MemoryReport | PlanReport:
    """Return the memory report of a module, given itself or as the path of any MODULE file.

    Of a `jax.stages.Compiled` it is the report on what XLA planned, with causes and remedies. These
    are compiled to see what they do: from `lowered`, the `jax.stages.Lowered` that it was made
    from, or else from a program rebuilt from the optimized module. A `Lowered` is compiled first.

    `str` of the report is the screen of `lowtide explain`, `.to_json()` the schema
    "lowtide.memory/1". Raises InputError for a file that cannot be read, InvalidModuleError for a
    module that breaks the rules of HLO, ValueError for an unknown effort, TypeError for what is
    none of these.
    """
    if isinstance(source, Module | str | os.PathLike):
        module = source if isinstance(source, Module) else read(source)
        verify(module)
        chosen = options or Options()
        return compiler.explain(module, chosen.stage, SearchOptions(effort_named(chosen.effort)))
    from lowtide.client import jax_compiled

    if jax_compiled.is_compiled(source):
        return jax_compiled.explain_compiled(source, lowered)
    if jax_compiled.is_lowered(source):
        return jax_compiled.explain_lowered(source)
    raise TypeError(
        "expected a path, a Module, or a compiled or lowered JAX program; found "
        f"{type(source).__name__}"
    )
