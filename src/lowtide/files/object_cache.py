"""Objects by what they are made of: in memory, and in a folder that processes share.

A file is written under another name and renamed, so that readers see all of it or nothing. It ends
with a checksum of the rest. A file that does not fit its checksum counts as none, and is written
again. The files that were used least recently go when the folder gets too large.
"""

from __future__ import annotations

import hashlib
import os
import stat
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import IO, Any, Final

from lowtide.files.writing import PRIVATE_MODE, replace_file, stranger

CHECKSUM_BYTES: Final = 16

FORM: Final = 2
"""The number of the form that files have."""

ALIGNMENT: Final = 64
"""The bytes of a key begin at a multiple of it, within its file."""

_DIGITS: Final = 1
"""Digits of a key that name its folder. With two there are more folders to make: the first files
of a cache take a fifth longer."""

_TO_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
"""How files are opened: what is a pipe ends at once, and is refused then."""

SWEEP_EVERY: Final = 64
"""After so many new files the size of the folder is looked at."""


class ObjectCache:
    """Bytes by key, in a folder or, where that is None, nowhere.

    `most_bytes` is how large the folder gets, about. Nothing raises where the folder cannot be read
    or written: it is a cache. A RuntimeWarning says once that another user may write to it.
    """

    def __init__(self, folder: Path | None, most_bytes: int = 1 << 30) -> None:
        self.folder = folder
        self.most_bytes = most_bytes
        self._root = "" if folder is None else str(folder)  # Paths cost more than the system does.
        self._written = count(1)
        self._has_warned = False

    def get(self, key: str) -> bytes | None:
        """Return the bytes of a key, None where there are none or they are damaged."""
        found = self._body(key, lambda file: file.read())
        return None if found is None else bytes(found)

    def mapped(self, key: str) -> memoryview | None:
        """Return the bytes of a key as `get` does, mapped: they stay in the file."""
        return self._body(key, lambda file: mmap(file.fileno(), 0, access=ACCESS_READ))

    def _body(self, key: str, read: Callable[[IO[bytes]], Any]) -> memoryview | None:
        if self.folder is None:
            return None
        try:
            data = self._read(self._place(key), key, read)
        except (OSError, ValueError):  # The latter where an empty file is mapped.
            return None
        if data is None:
            return None
        view, head = memoryview(data), _head(key)
        checksum, view = view[-CHECKSUM_BYTES:], view[:-CHECKSUM_BYTES]
        if _checksum(view) != checksum or view[: len(head)] != head:
            return None
        return view[len(head) :]

    def _read(self, place: str, key: str, read: Callable[[IO[bytes]], Any]) -> Any:
        """What `read` makes of a file, None where another user may have written it."""
        if not self._is_ours(place):
            return None
        path = _file_in(place, key)
        with os.fdopen(os.open(path, _TO_READ), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or not self._is_private(path, status):
                return None
            os.utime(file.fileno())
            return read(file)

    def put(self, key: str, body: bytes) -> None:
        """Keep bytes under a key, which stands for the same bytes or for some as good."""
        if self.folder is None:
            return
        place = self._place(key)
        try:
            if not self._is_home(place):
                return
            data = _head(key) + body
            data += _checksum(data)
            replace_file(_file_in(place, key), lambda stream: stream.write(data), PRIVATE_MODE)
        except OSError:
            return
        if next(self._written) % SWEEP_EVERY == 1:
            self.sweep()

    def _is_home(self, place: str) -> bool:
        """Whether a folder of the cache, which is made where there is none, is only ours."""
        try:
            return self._is_ours(place)
        except FileNotFoundError:
            for x in (self._root, place):
                Path(x).mkdir(0o700, parents=True, exist_ok=True)
            return self._is_ours(place)

    def _is_ours(self, place: str) -> bool:
        """Whether only the user of this process writes to the cache, and to a folder of it."""
        return all(self._is_private(x, os.stat(x)) for x in (self._root, place))

    def _is_private(self, path: str, status: os.stat_result) -> bool:
        why = stranger(status)
        if why and not self._has_warned:
            self._has_warned = True
            warnings.warn(f"{path} is not used as a cache, {why}", RuntimeWarning, stacklevel=2)
        return not why

    def sweep(self) -> None:
        """Remove the files used least recently until the rest is small enough."""
        if self.folder is None:
            return
        found = sorted(_files_below(self._root))
        left = sum([size for _, size, _ in found])
        for _, size, path in found:
            if left <= self.most_bytes:
                return
            with suppress(FileNotFoundError):
                os.unlink(path)
            left -= size

    def _place(self, key: str) -> str:
        """The folder of a key."""
        return f"{self._root}/{key[:_DIGITS]}"

    def through(self, key: str, make: Callable[[], bytes]) -> bytes:
        """Return the bytes of a key, made and kept where there are none."""
        found = self.get(key)
        if found is None:
            found = make()
            self.put(key, found)
        return found


def _file_in(place: str, key: str) -> str:
    return f"{place}/{key[_DIGITS:]}"


def _files_below(root: str) -> Iterator[tuple[int, int, str]]:
    """Yield when each file in the folders of a cache was used, in ns, its bytes, and its path.

    What goes meanwhile is left out.
    """
    with suppress(OSError), os.scandir(root) as places:
        for place in places:
            with suppress(OSError), os.scandir(place) as files:
                for x in files:
                    with suppress(OSError):
                        status = x.stat()
                        yield status.st_mtime_ns, status.st_size, x.path


def _head(key: str) -> bytes:
    """What a file begins with: of such a length that what follows is aligned as the file is.

    Files begin with the number of this form, so that other versions of lowtide take them for theirs
    no more than this one takes those of other forms.
    """
    head = f"{FORM} {key}\n".encode()
    return head + b"\n" * (-len(head) % ALIGNMENT)


def _checksum(body: bytes | memoryview) -> bytes:
    return hashlib.blake2b(body, digest_size=CHECKSUM_BYTES).digest()
