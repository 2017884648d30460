"""`lowtide compile --aot`: a module to an object and what a C program needs to use it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lowtide.client.aot import AotRequest, AotResult
    from lowtide.ir import Module
    from lowtide.options import Options


def compile_to_folder(
    module: Module, folder: Path, request: AotRequest, options: Options, *, json: bool
) -> None:
    """Write the files of a program, and say what it came to.

    Raises UnsupportedOpError, InputError and OverMemoryError.
    """
    from lowtide.cli import console
    from lowtide.cli.programs import while_compiling
    from lowtide.client.aot import compile_aot, write_aot

    made = while_compiling(module, lambda told: compile_aot(module, request, options))
    paths = write_aot(made.program, folder)
    if json:
        console.write_json(_document(made, paths))
        return
    console.write("\n".join(_lines(made, paths)))


def _document(made: AotResult, paths: list[Path]) -> dict[str, Any]:
    program = made.program
    return {
        "schema": "lowtide.aot/1",
        "module": program.module,
        "target": {"triple": program.target.triple, "cpu": program.target.cpu},
        "files": [x.name for x in paths],
        "object_bytes": len(program.object),
        "arena_bytes": program.arena_bytes,
        "constant_bytes": program.constant_bytes,
        "needs": list(program.needs),
        "memory": made.memory,
    }


def _lines(made: AotResult, paths: list[Path]) -> list[str]:
    program = made.program
    interface = program.interface
    return [
        f"{program.module}   {program.name}_run in {', '.join([x.name for x in paths])}",
        f"  object   {len(program.object):,} bytes for {program.target.triple}, "
        f"{program.target.cpu}; needs {', '.join(program.needs) or 'nothing else'}",
        f"  memory   arena {program.arena_bytes:,} bytes, constants {program.constant_bytes:,}",
        f"  calls    {len(interface.arguments):,} arguments, {len(interface.results):,} results",
    ]
