"""`lowtide compile --target cuda:...`: a module to machine code of graphics processors."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from lowtide.client.gpu import GpuExecutable
    from lowtide.ir import Module
    from lowtide.options import Options

_ROWS: Final = 40


def compile_gpu(
    module: Module, target: str, options: Options, output: Path | None, *, json: bool
) -> None:
    """Compile a module, write it where that is asked for, and say what it came to."""
    from lowtide.cli import console
    from lowtide.cli.progress import progress
    from lowtide.client.gpu import compile_for_gpu

    with progress(f"compiling {module.name} for {target}") as line:
        executable = compile_for_gpu(module, target, options, line.show_part)
    if output is not None:
        content = executable.serialize()
        console.write_file(output, lambda stream: stream.write(content))
    if json:
        console.write_json(_document(executable, target))
        return
    console.write("\n".join(_lines(executable, target)))


def _lines(executable: GpuExecutable, target: str) -> list[str]:
    rows = list(executable.table())
    ladder = executable.report["ladder"]
    lines = [
        f"{executable.program.name}   compiled for {target}; it has not run on a device",
        f"  kernels  {len(rows):,} in {len(executable.cubin.image):,} bytes of machine code",
        f"  memory   bound {ladder['bound_bytes']:,}  <=  live {ladder['live_bytes']:,}  <=  "
        f"arena {ladder['arena_bytes']:,} bytes beyond the arguments",
        "",
        f"  {'template':10} {'runs':>5} {'registers':>9} {'shared':>8} {'stack':>7} {'spills':>7}",
    ]
    shown = Counter([(template, runs, found) for template, runs, _, found in rows])
    for (template, runs, found), count in list(shown.items())[:_ROWS]:
        alike = f"   {count} alike" if count > 1 else ""
        lines.append(
            f"  {template:10} {runs:5,} {found.registers:9,} {found.shared:8,} {found.stack:7,} "
            f"{found.spilled:7,}{alike}"
        )
    if len(shown) > _ROWS:
        lines.append(f"  and {len(shown) - _ROWS:,} more; --json has all")
    return lines


def _document(executable: GpuExecutable, target: str) -> dict[str, Any]:
    """Return the JSON document."""
    return {
        "schema": "lowtide.compile_gpu/1",
        "module": executable.program.name,
        "target": target,
        "kernels": [
            {
                "template": template,
                "runs": runs,
                "function": function,
                "registers": found.registers,
                "shared_bytes": found.shared,
                "stack_bytes": found.stack,
                "spill_bytes": found.spilled,
            }
            for template, runs, function, found in executable.table()
        ],
        "code_bytes": len(executable.cubin.image),
        "memory": executable.report,
    }
