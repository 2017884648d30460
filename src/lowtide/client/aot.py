"""Modules compiled ahead of time to folders that C programs are built with."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final

from lowtide.backends.aot.backend import AotBackend, AotProgram
from lowtide.backends.aot.files import aot_files
from lowtide.backends.build import build
from lowtide.compiler import PlanOptions
from lowtide.files.writing import write_file
from lowtide.ir.errors import InputError
from lowtide.ir.garbage_collection import without_collection
from lowtide.ir.module import Module
from lowtide.llvm.named_targets import named_target
from lowtide.options import Options
from lowtide.records import dataclass

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class AotRequest:
    """What an object is to be: its processor, the prefix of its names, where its constants are.

    With `weights_apart` they are in a file of their own. Raises InputError for a name that is no
    identifier of C, and for a processor that is not known.
    """

    target: str = "cpu"
    name: str = "model"
    weights_apart: bool = False

    def __post_init__(self) -> None:
        """Raise InputError for what cannot be."""
        if not _NAME.fullmatch(self.name):
            raise InputError(f"the name {self.name!r} is to be letters, digits and underscores")
        self.backend()

    def backend(self) -> AotBackend:
        """Return the backend that makes the object."""
        try:
            target = named_target(self.target)
        except ValueError as error:
            raise InputError(str(error)) from None
        return AotBackend(target, self.name, weights_apart=self.weights_apart)


@dataclass(frozen=True, slots=True)
class AotResult:
    """A program in an object, and the memory report of its plan."""

    program: AotProgram
    memory: dict[str, Any]


@without_collection()
def compile_aot(module: Module, request: AotRequest, options: Options | None = None) -> AotResult:
    """Return the object of a module, which is not changed.

    Raises UnsupportedOpError for an operation without native code, and for one that needs the
    process that runs it; OverMemoryError where no plan is known to fit `options.memory`; InputError
    for a module of several devices.
    """
    if module.replica_count * module.num_partitions > 1:
        raise InputError(f"{module.name} runs on several devices; an object runs on one")
    options = options or Options()
    found = build(module, request.backend(), PlanOptions.of(options), options.memory)
    return AotResult(found.program, dict(found.plan.report.to_json()))


def write_aot(program: AotProgram, folder: Path) -> list[Path]:
    """Write a program's files into a folder, which is made; return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, content in aot_files(program).items():
        paths.append(folder / name)
        write_file(paths[-1], partial(_write, content))
    return paths


def _write(content: bytes, stream: BinaryIO) -> object:
    return stream.write(content)
