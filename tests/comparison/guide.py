"""The commands on the page docs/explain.md and their outputs: run again, and written there.

`python -m tests.comparison.guide` writes the page anew.
"""

import contextlib
import io
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from lowtide.cli.main import main

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "explain.md"
CONSOLE = re.compile(r"```console\n\$ lowtide (.*)\n((?:.*\n)*?)```")
GATE = re.compile(r"```toml\n((?:.*\n)*?)```")
_TIMES = re.compile(r" ?Took \S+ s.*")
_MASKED = re.compile(r"[<+-]?\d[\d,.]*|[▏▎▍▌▋▊▉█]+|\s+")


@contextlib.contextmanager
def workplace() -> Iterator[None]:
    """Be in a folder of its own that has what the commands name: the examples, and the gate."""
    gate = GATE.search(GUIDE.read_text())
    assert gate is not None
    home = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "examples").symlink_to(ROOT / "examples")
        (Path(folder) / "peaks.toml").write_text(gate[1])
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(home)


def output_of(command: str) -> str:
    """Return what a command writes to standard output, without times."""
    stream = io.StringIO()
    with contextlib.redirect_stdout(stream), contextlib.redirect_stderr(io.StringIO()):
        status = main(command.split())
    assert status == 0, f"lowtide {command} ended with {status}"
    return without_times(stream.getvalue())


def without_times(output: str) -> str:
    """Return an output without the times that it took to make it."""
    lines = [_TIMES.sub("", line).rstrip() for line in output.rstrip().split("\n")]
    return "\n".join(lines).rstrip() + "\n"


def masked(output: str) -> list[str]:
    """Return the lines of an output without figures, which may differ a little between versions."""
    return [_MASKED.sub(" ", line).strip() for line in output.strip().split("\n")]


def write() -> None:
    """Write the outputs of all commands to the page."""
    with workplace():
        text = CONSOLE.sub(
            lambda found: f"```console\n$ lowtide {found[1]}\n{output_of(found[1])}```",
            GUIDE.read_text(),
        )
    GUIDE.write_text(text)


if __name__ == "__main__":
    write()
