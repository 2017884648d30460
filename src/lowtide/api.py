"""The functions of the public interface that span several parts of lowtide."""

from __future__ import annotations

import os

from lowtide import compiler
from lowtide.frontend.files import read
from lowtide.ir import Module
from lowtide.options import Options
from lowtide.report.memory import MemoryReport
from lowtide.verifier import verify


def explain(
    source: Module | str | os.PathLike[str], options: Options | None = None
) -> MemoryReport:
    """Return the memory report of a module, given itself or as the path of any MODULE file.

    `str` of the report is the screen of `lowtide explain`, `.to_json()` the schema
    "lowtide.memory/1". Raises InputError for a file that cannot be read, InvalidModuleError for a
    module that breaks the rules of HLO.
    """
    module = source if isinstance(source, Module) else read(source)
    verify(module)
    return compiler.explain(module, (options or Options()).stage)
