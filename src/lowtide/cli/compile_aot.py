"""`lowtide compile --aot`: a module to an object and what a C program needs to use it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lowtide.client.ahead import AheadRequest, AheadResult
    from lowtide.ir import Module
    from lowtide.options import Options


def compile_to_folder(
    module: Module, folder: Path, request: AheadRequest, options: Options, *, json: bool
) -> None:
    """Write the files of a program, and say what it came to.

    Raises UnsupportedOpError, InputError and OverMemoryError.
    """
    from lowtide.cli import console
    from lowtide.cli.programs import while_compiling
    from lowtide.client.ahead import compile_ahead, write_ahead

    made = while_compiling(module, lambda told: compile_ahead(module, request, options))
    paths = write_ahead(made.program, folder)
    if json:
        console.write_json(_document(made, paths))
        return
    console.write("\n".join(_lines(made, paths)))


def _document(made: AheadResult, paths: list[Path]) -> dict[str, Any]:
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


def _lines(made: AheadResult, paths: list[Path]) -> list[str]:
    program = made.program
    interface = program.interface
    return [
        f"{program.module}   {program.name}_run in {', '.join([x.name for x in paths])}",
        f"  object   {len(program.object):,} bytes for {program.target.triple}, "
        f"{program.target.cpu}; needs {', '.join(program.needs) or 'nothing else'}",
        f"  memory   arena {program.arena_bytes:,} bytes, constants {program.constant_bytes:,}",
        f"  calls    {len(interface.arguments):,} arguments, {len(interface.results):,} results",
    ]
