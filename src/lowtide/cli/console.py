"""What the commands write: results to stdout, everything else to stderr, files in one piece."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, TextIO

from lowtide.cli.exit_codes import ClosedPipeError
from lowtide.options import display_for
from lowtide.report.drawing import Paint, to_ascii


def write(text: str) -> None:
    """Write text and a line feed to stdout, in ASCII where the terminal knows nothing else."""
    _print(text, sys.stdout)


def write_json(value: Mapping[str, object]) -> None:
    """Write a JSON document to stdout."""
    write(json_text(value))


def json_text(value: Mapping[str, object]) -> str:
    """Return a JSON document, indented."""
    return json.dumps(value, indent=2, allow_nan=False)


def note(text: str) -> None:
    """Tell the user something besides the result."""
    _print(text, sys.stderr)


def report_error(text: str) -> None:
    """Write an error to stderr, whose first line begins with `error: `."""
    paint = Paint(color=display_for(sys.stderr).color)
    _print(f"{paint('bad', 'error:')} {text}", sys.stderr)


def _print(text: str, stream: TextIO) -> None:
    try:
        print(text, file=stream, flush=True)
    except UnicodeEncodeError:
        print(to_ascii(text), file=stream, flush=True)
    except BrokenPipeError:
        raise ClosedPipeError from None


def write_file(path: Path, write_to: Callable[[IO[bytes]], object]) -> None:
    """Let `write_to` write a file, which appears at `path` complete or not at all."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            write_to(stream)
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def write_text_file(path: Path, text: str) -> None:
    """Write a text file, which appears at `path` complete or not at all."""
    write_file(path, lambda stream: stream.write(f"{text}\n".encode()))


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
