"""Objects by what they are made of: in memory, and in a folder that processes share.

A file is written under another name and renamed, so that readers see all of it or nothing. It ends
with a checksum of the rest. A file that does not fit its checksum counts as none, and is written
again. The files that were used least recently go when the folder gets too large.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Final

CHECKSUM_BYTES: Final = 16

SWEEP_EVERY: Final = 64
"""After so many new files the size of the folder is looked at."""


class ObjectCache:
    """Bytes by key, in a folder or, where that is None, nowhere.

    `most_bytes` is how large the folder gets, about. Nothing raises where the folder cannot be read
    or written: it is a cache.
    """

    def __init__(self, folder: Path | None, most_bytes: int = 1 << 30) -> None:
        self.folder = folder
        self.most_bytes = most_bytes
        self._lock = Lock()
        self._written = 0

    def get(self, key: str) -> bytes | None:
        """Return the bytes of a key, None where there are none or they are damaged."""
        if self.folder is None:
            return None
        path = self._path(key)
        try:
            data = path.read_bytes()
            os.utime(path)
        except OSError:
            return None
        body, checksum = data[:-CHECKSUM_BYTES], data[-CHECKSUM_BYTES:]
        return body if _checksum(body) == checksum else None

    def put(self, key: str, body: bytes) -> None:
        """Keep bytes under a key, which always stands for the same bytes."""
        if self.folder is None:
            return
        path = self._path(key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._write(path, body)
        except OSError:
            return
        with self._lock:
            self._written += 1
            is_due = self._written % SWEEP_EVERY == 1
        if is_due:
            self.sweep()

    def _write(self, path: Path, body: bytes) -> None:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(body + _checksum(body))
            Path(name).replace(path)
        except OSError:
            Path(name).unlink(missing_ok=True)
            raise

    def sweep(self) -> None:
        """Remove the files used least recently until the rest is small enough."""
        if self.folder is None:
            return
        found = []
        for path in self.folder.glob("*/*"):
            try:
                status = path.stat()
            except OSError:
                continue
            found.append((status.st_mtime_ns, status.st_size, path))
        left = sum([size for _, size, _ in found])
        for _, size, path in sorted(found):
            if left <= self.most_bytes:
                return
            path.unlink(missing_ok=True)
            left -= size

    def _path(self, key: str) -> Path:
        assert self.folder is not None
        return self.folder / key[:2] / key[2:]

    def through(self, key: str, make: Callable[[], bytes]) -> bytes:
        """Return the bytes of a key, made and kept where there are none."""
        found = self.get(key)
        if found is None:
            found = make()
            self.put(key, found)
        return found


def _checksum(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=CHECKSUM_BYTES).digest()
