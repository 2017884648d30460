"""Compiled code of this package's modules in a folder of the user's.

It serves where Python may not write compiled files beside the sources.
"""

from __future__ import annotations

import hashlib
import marshal
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from types import CodeType

from lowtide.files.code_together import KEPT_BYTES
from lowtide.files.object_cache import ObjectCache


class KeptCode:
    """Code by the path and the text of its source, and by the version of Python."""

    def __init__(self, folder: Path) -> None:
        self._cache = ObjectCache(folder, KEPT_BYTES)

    def through(self, path: str, compiled: Callable[[], CodeType | None]) -> CodeType | None:
        """Return the code of a source, compiled and kept where there is none."""
        key = _key(path)
        found = None
        with suppress(RuntimeWarning):  # It is raised where warnings are to be errors.
            found = self._cache.get(key)
        if found is not None:
            kept = marshal.loads(found)
            if isinstance(kept, CodeType):
                return kept
        code = compiled()
        if code is not None:
            with suppress(RuntimeWarning):
                self._cache.put(key, marshal.dumps(code))
        return code


def _key(path: str) -> str:
    """What code of a source depends on; its folder is in it, which tracebacks name."""
    with open(path, "rb", buffering=0) as file:
        made_of = path, sys.flags.optimize, MAGIC_NUMBER, file.read()
    return hashlib.blake2b(repr(made_of[:3]).encode() + made_of[3], digest_size=16).hexdigest()
