"""Output of the commands: results to stdout, all else to stderr, files in one piece."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import TextIO

from lowtide.cli.exit_codes import ClosedPipeError
from lowtide.files.writing import check_outputs as check_outputs
from lowtide.files.writing import naming
from lowtide.files.writing import write_file as write_file
from lowtide.options import display_for, is_terminal
from lowtide.report.drawing import Paint, to_ascii, visible


def write(text: str) -> None:
    """Write text and a line feed to stdout, in ASCII where the terminal knows nothing else."""
    _print(visible(text), sys.stdout)


def write_exact(text: str) -> None:
    """Write text that programs read and a line feed to stdout; a terminal obeys none of it."""
    _print(visible(text) if is_terminal(sys.stdout) else text, sys.stdout)


def write_json(value: Mapping[str, object]) -> None:
    """Write a JSON document to stdout."""
    _print(json_text(value), sys.stdout)


def json_text(value: Mapping[str, object]) -> str:
    """Return a JSON document, indented."""
    return json.dumps(value, indent=2, allow_nan=False)


def note(text: str) -> None:
    """Tell the user something besides the result."""
    _print(visible(text), sys.stderr)


def report_error(text: str) -> None:
    """Write an error to stderr, whose first line begins with `error: `."""
    paint = Paint(color=display_for(sys.stderr).color)
    _print(f"{paint('bad', 'error:')} {visible(text)}", sys.stderr)


def _print(text: str, stream: TextIO) -> None:
    with naming("standard output" if stream is sys.stdout else "standard error"):
        try:
            print(text, file=stream, flush=True)
        except UnicodeEncodeError:
            print(to_ascii(text), file=stream, flush=True)
        except BrokenPipeError:
            raise ClosedPipeError from None
