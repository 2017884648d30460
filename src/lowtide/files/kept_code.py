"""Compiled code of this package's modules in a folder of the user's.

It serves where Python may not write compiled files beside the sources.
"""

from __future__ import annotations

import hashlib
import marshal
import os
import sys
from collections.abc import Callable
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from types import CodeType
from typing import Final

from lowtide.files.object_cache import ObjectCache

_MOST_BYTES: Final = 64 << 20
"""Room for the code of some seven versions of the package."""


class KeptCode:
    """Code by the path, the time and the size of its source, and by the version of Python."""

    def __init__(self, folder: Path) -> None:
        self._cache = ObjectCache(folder, _MOST_BYTES)

    def through(self, path: str, compiled: Callable[[], CodeType | None]) -> CodeType | None:
        """Return the code of a source, compiled and kept where there is none."""
        key = _key(path)  # Of what is read next: who edits it meanwhile gives it a later time.
        body = self._cache.get(key)
        if body is not None:
            kept = marshal.loads(body)
            if isinstance(kept, CodeType):
                return kept
        code = compiled()
        if code is not None:
            self._cache.put(key, marshal.dumps(code))
        return code


def _key(path: str) -> str:
    """What code of a source depends on; its folder is in it, which tracebacks name."""
    status = os.stat(path)
    made_of = path, status.st_mtime_ns, status.st_size, sys.flags.optimize, MAGIC_NUMBER
    return hashlib.blake2b(repr(made_of).encode(), digest_size=16).hexdigest()
