"""Output of the commands: results to stdout, all else to stderr, files in one piece."""

from __future__ import annotations

import errno
import json
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, TextIO

from lowtide.cli.exit_codes import ClosedPipeError
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
    try:
        print(text, file=stream, flush=True)
    except UnicodeEncodeError:
        print(to_ascii(text), file=stream, flush=True)
    except BrokenPipeError:
        raise ClosedPipeError from None


def check_outputs(*paths: Path | None) -> None:
    """Raise OSError for a file that cannot be written, before any work is done for it."""
    for path in paths:
        if path is not None and (number := _obstacle(path)):
            raise OSError(number, os.strerror(number), str(path))


def _obstacle(path: Path) -> int:
    """The number of the system's error that writing a file would end with, 0 for none."""
    if path.is_dir():
        return errno.EISDIR
    is_special, folder = _is_special(path), Path(os.path.realpath(path)).parent
    if not is_special and not folder.is_dir():
        return errno.ENOENT
    return 0 if os.access(path if is_special else folder, os.W_OK) else errno.EACCES


def _is_special(path: Path) -> bool:
    """Whether it is a pipe or a device, which may be one whose real path nothing can open."""
    return path.exists() and not path.is_file()


def write_file(path: Path, write_to: Callable[[IO[bytes]], object]) -> None:
    """Let `write_to` write a file, which appears at `path` complete or not at all.

    What is there and no file, a pipe or a device, stays what it is and takes the bytes as they
    come. Behind a symbolic link, the file that it leads to is written.
    """
    if _is_special(path):
        with path.open("wb") as stream:
            write_to(stream)
        return
    target = Path(os.path.realpath(path))
    handle, temporary = _temporary(path, target)
    try:
        with os.fdopen(handle, "wb") as stream:
            write_to(stream)
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


def _temporary(path: Path, target: Path) -> tuple[int, str]:
    """Return a new file beside the target; errors name the path that the user knows."""
    try:
        return tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
