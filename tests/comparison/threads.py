"""The programs on the page docs/threads.md and their outputs: run again, and written there.

`python -m tests.comparison.threads` writes the page anew.
"""

import contextlib
import io
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from tests.comparison.guide import ROOT, without_times

PAGE = ROOT / "docs" / "threads.md"
SECTION = re.compile(r"^## (.*)\n((?:(?!## ).*\n)*)", re.MULTILINE)
PROGRAM = re.compile(r"```python\n# (\S+)\n((?:.*\n)*?)```\n\n```text\n((?:.*\n)*?)```")
THREAD = re.compile(r"\[(\w+#\d+)\]\(https:")


@dataclass(frozen=True)
class Thread:
    """A section of the page: the question, and its programs as (file, code, output)."""

    name: str
    title: str
    programs: tuple[tuple[str, str, str], ...]


def threads() -> list[Thread]:
    """Return the sections of the page, in order."""
    found = []
    for title, text in SECTION.findall(PAGE.read_text()):
        name = THREAD.search(text)
        assert name is not None, title
        found.append(Thread(name[1], title, tuple(PROGRAM.findall(text))))
    return found


def outputs(thread: Thread) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what each program of a section prints, without times, and its names.

    The programs of a section share their names. Lines count from 1, the one with the file's name.
    """
    names: dict[str, Any] = {"__name__": "thread"}
    for file, code, _ in thread.programs:
        stream = io.StringIO()
        whole = compile(f"# {file}\n{code}", file, "exec")
        with (
            contextlib.redirect_stdout(stream),
            contextlib.redirect_stderr(io.StringIO()),
            ThreadPoolExecutor(1) as alone,  # The program's own call is then the outermost one.
        ):
            alone.submit(exec, whole, names).result()
        yield without_times(stream.getvalue()), names


def write() -> None:
    """Write the outputs of all programs to the page."""
    text = PAGE.read_text()
    for thread in threads():
        for (file, _, _), (output, _) in zip(thread.programs, outputs(thread), strict=True):
            start = text.index("```text\n", text.index(f"```python\n# {file}\n")) + len("```text\n")
            text = text[:start] + output + text[text.index("```\n", start) :]
    PAGE.write_text(text)


if __name__ == "__main__":
    write()
