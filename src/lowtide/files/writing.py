"""Writing of files: each appears complete or not at all, and errors name it; who else may write."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

PLAIN_MODE: Final = 0o666
"""Who may do what with a new file, before the user's mask."""

PRIVATE_MODE: Final = 0o600


def write_file(path: Path, write_to: Callable[[IO[bytes]], object], mode: int = PLAIN_MODE) -> None:
    """Let `write_to` write a file, which appears at `path` complete or not at all.

    What is there and no file, a pipe or a device, stays what it is and takes the bytes as they
    come. Behind a symbolic link, the file that it leads to is written. Raises OSError, which names
    `path`.
    """
    with naming(path):
        if is_special(path):
            with path.open("wb") as stream:
                write_to(stream)
            return
        replace_file(os.path.realpath(path), write_to, mode)


def replace_file(path: str, write_to: Callable[[IO[bytes]], object], mode: int) -> None:
    """Have what `write_to` writes appear as the file at `path`, in place of any name there.

    Raises OSError, which may name a file beside it.
    """
    temporary = f"{os.path.dirname(path)}/.new-{os.urandom(8).hex()}"
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with os.fdopen(os.open(temporary, flags, mode), "wb") as stream:
            write_to(stream)
        os.replace(temporary, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def write_bytes(path: Path, data: bytes, mode: int = PLAIN_MODE) -> None:
    """Write bytes as `write_file` does."""
    write_file(path, lambda stream: stream.write(data), mode)


def write_text(path: Path, text: str) -> None:
    """Write text in UTF-8 as `write_file` does."""
    write_bytes(path, text.encode())


@contextmanager
def naming(path: object) -> Iterator[None]:
    """Have errors of the system within name `path`, not a file that the user does not know."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise OSError(errno.EIO, str(error), str(path)) from None
        raise OSError(error.errno, error.strerror, str(path)) from None


def check_outputs(*paths: Path | None) -> None:
    """Raise OSError for a file that cannot be written, before any work is done for it."""
    for path in paths:
        if path is not None and (number := _obstacle(path)):
            raise OSError(number, os.strerror(number), str(path))


def _obstacle(path: Path) -> int:
    """The number of the system's error that writing a file would end with, 0 for none."""
    if path.is_dir():
        return errno.EISDIR
    special, folder = is_special(path), Path(os.path.realpath(path)).parent
    if not special and not folder.is_dir():
        return errno.ENOENT
    return 0 if os.access(path if special else folder, os.W_OK) else errno.EACCES


def is_special(path: Path) -> bool:
    """Whether it is a pipe or a device, which may be one whose real path nothing can open."""
    return path.exists() and not path.is_file()


def write_new(path: Path, data: bytes, mode: int = PLAIN_MODE) -> None:
    """Write a file that is not there yet; one that is stays as it is. Raises OSError."""
    with naming(path):
        temporary = f"{path}-{os.urandom(8).hex()}"
        write_bytes(Path(temporary), data, mode)
        try:
            with suppress(FileExistsError):
                os.link(temporary, path)
        finally:
            os.unlink(temporary)


def stranger(status: os.stat_result) -> str:
    """Return who else may have written a file or to a folder, in words; "" for nobody."""
    if status.st_uid != os.getuid():
        return f"user {status.st_uid} owns it"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "others may write to it: chmod go-w"
    return ""
