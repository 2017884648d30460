"""Compiled code of modules that are loaded together, in one file of the user's.

What a compilation loads, some 300 small modules, is read at once in less time than file by file.
"""

from __future__ import annotations

import hashlib
import marshal
from contextlib import suppress
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from types import CodeType
from typing import Final, final

from lowtide.files.object_cache import ObjectCache

KEPT_BYTES: Final = 64 << 20
"""Room for the code of some seven versions of the package, in the folder that has all of it."""

_MISSED: Final = 8
"""The file is written anew where more than one of so many modules was not in it: what it has grows
with what programs need, and each process reads all of it."""

_Source = tuple[int, ...]
"""What tells a source from others in its place: times of its last changes, place and size."""

_Code = tuple[_Source, CodeType]


@final
class CodeTogether:
    """The code of modules that one process loads, from what an earlier one has kept.

    `of` is what the code depends on besides its sources: their folder and Python's version.
    """

    def __init__(self, folder: Path, of: str) -> None:
        self._cache = ObjectCache(folder, KEPT_BYTES)
        self._key = _key(of)
        self._kept = self._read()
        self._used: dict[str, _Code] = {}
        self._missed: dict[str, _Code] = {}

    def _read(self) -> dict[str, _Code]:
        with suppress(RuntimeWarning):  # It is raised where warnings are to be errors.
            data = self._cache.mapped(self._key)
            if data is not None:
                kept: dict[str, _Code] = marshal.loads(data)
                return kept
        return {}

    def code(self, name: str, source: _Source, path: str) -> CodeType | None:
        """Return the code of a module, None where it is not kept or its source has changed."""
        found = self._kept.pop(name, None)
        if found is None or found[0] != source or found[1].co_filename != path:
            return None
        self._used[name] = found
        return found[1]

    def note(self, name: str, source: _Source, code: CodeType) -> None:
        """Take the code of a module that was not kept."""
        self._missed[name] = source, code

    def keep(self) -> None:
        """Write what was loaded, and what was kept before, where that is worth it."""
        if _MISSED * len(self._missed) <= len(self._used):
            return
        found = {**self._kept, **self._used, **self._missed}
        with suppress(RuntimeWarning):
            self._cache.put(self._key, marshal.dumps(found))


def _key(of: str) -> str:
    made_of = f"together {of} {MAGIC_NUMBER!r}"
    return hashlib.blake2b(made_of.encode(), digest_size=16).hexdigest()
