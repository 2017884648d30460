"""`--dump-to DIR`: what becomes of a module, in files that have the names of XLA's dumps."""

from __future__ import annotations

import re
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

from lowtide.cli.console import note, write_file
from lowtide.ir import LowtideError, Module
from lowtide.passes.instrumentation import Dumping, dump_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lowtide.compiler import ModulePlan

_NUMBERS: Final = count(1)
"""The numbers of modules that are dumped: each has its own in a process."""

_ODD: Final = re.compile(r"[^\w.-]", re.ASCII)
_LONGEST_NAME: Final = 80


@final
class Dumps:
    """The files about one module in a directory, which is made if there is none.

    `observer` writes the module before and after passes; `finish` the module that is planned, whose
    file takes the place of that after all passes, and the reports on its memory. Raises PassError
    where `pattern`, for the passes to write the module after, is no regular expression, and OSError
    where there can be no such directory.
    """

    def __init__(self, directory: Path, pattern: str = "") -> None:
        self._number = next(_NUMBERS)
        self.observer = Dumping(self._write, pattern, self._number)
        self._directory = directory
        self._pattern = pattern
        if directory.exists() and not directory.is_dir():
            raise LowtideError(f"--dump-to: {directory} is not a directory")

    def finish(self, module: Module) -> None:
        """Plan a module where that can be done, and write the plan's module and reports.

        Where no pass matched the pattern, say so.
        """
        from lowtide import compiler

        self.note_unmatched()
        try:
            planned = compiler.plan(module, compiler.PlanOptions("input"))
        except LowtideError as error:
            note(f"{module.name} has no plan to be dumped: {error}")
            return
        self.write_plan(planned)

    def note_unmatched(self) -> None:
        """Say so where no pass that ran matched the pattern."""
        if self._pattern and not self.observer.matched:
            note(f"--dump-pass-re {self._pattern!r} matches the name of no pass that ran")

    def write_plan(self, plan: ModulePlan) -> None:
        """Write a plan's module, its buffer assignment and its memory usage report."""
        from lowtide.ir.printer import COMPLETE, to_text
        from lowtide.xla.dumps.buffer_assignment import buffer_assignment_text
        from lowtide.xla.dumps.memory_usage import memory_usage, memory_usage_text

        module, assignment = plan.module, plan.assignment
        texts = {
            "": to_text(module, COMPLETE),
            "-buffer-assignment": buffer_assignment_text(module, assignment),
            "-memory-usage-report": memory_usage_text(memory_usage(assignment)),
        }
        for suffix, text in texts.items():
            self.observer.write(module, f"after_optimizations{suffix}", text)

    def write_kernels(self, module: Module, kernels: Sequence[tuple[str, str]]) -> None:
        """Write a text in LLVM IR for each of the kernels, which are pairs of name and text."""
        for number, (name, text) in enumerate(kernels):
            safe = _ODD.sub("_", name)[:_LONGEST_NAME]
            stage = f"kernel_{number:04}.{safe}"
            self._write(f"{dump_name(self._number, module, stage)}.ll", text)

    def _write(self, name: str, text: str) -> Path:
        self._directory.mkdir(parents=True, exist_ok=True)
        path = self._directory / name
        write_file(path, lambda stream: stream.write(text.encode()))
        return path
