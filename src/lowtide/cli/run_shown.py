"""Results as `lowtide run` shows them: a table, or a document."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from lowtide.cli.outputs import Output
    from lowtide.cli.runs import Runs
    from lowtide.ir import Module

_ROWS: Final = 40


def show_runs(
    module: Module,
    origin: str,
    runs: Runs,
    results: list[Output],
    outputs: Path | None,
    *,
    json: bool,
) -> None:
    """Print what runs made and how long they took; write all results to `outputs`, if given."""
    from lowtide.cli import console
    from lowtide.cli.outputs import output_table, save_npz
    from lowtide.cli.runs import time_text

    if outputs is not None:
        save_npz(outputs, results)
    if json:
        console.write_json(_document(module, origin, results, runs))
        return
    count = f"{len(results)} output{'' if len(results) == 1 else 's'}"
    time = time_text(runs.seconds, runs.first_seconds)
    console.write(f"{module.name}   {count} in {time}   {runs.how}, arguments: {origin}")
    for remark in runs.remarks:
        console.write(remark)
    lines = output_table(results[:_ROWS])
    if len(results) > _ROWS:
        lines.append(f"and {len(results) - _ROWS:,} more; --json or --outputs has all")
    if results:
        console.write("\n" + "\n".join(lines))
    if runs.tables:
        console.write("\n" + "\n".join(runs.tables))


def _document(module: Module, origin: str, results: list[Output], runs: Runs) -> dict[str, object]:
    apart = {} if runs.first_seconds is None else {"first_seconds": runs.first_seconds}
    return {
        "schema": "lowtide.run/1",
        "module": module.name,
        "engine": runs.engine,
        "arguments": origin,
        "outputs": [output.to_json() for output in results],
        **runs.document,
        **apart,
        "seconds": list(runs.seconds),
    }
