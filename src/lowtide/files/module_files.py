"""Modules of this package found and read with less work than Python's own finder takes.

That one looks for several kinds of files, and for changes of a folder, each time: a fifth of what
it takes to load the 350 small modules of a first compilation. Compiled files are Python's own, in
its places, and as new as the sources, or else its own loader reads or writes them.
"""

from __future__ import annotations

import marshal
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import MAGIC_NUMBER, cache_from_source
from os import sep, stat
from stat import S_ISREG
from types import CodeType, ModuleType
from typing import Final, final

_HEADER: Final = 16
"""Bytes ahead of the code in a compiled file: a magic number, flags, its source's time and size."""


@final
class QuickLoader(SourceFileLoader):
    """A loader of a module's source whose compiled file is read at once where it is as new."""

    def __init__(self, name: str, path: str, compiled: str, header: bytes) -> None:
        super().__init__(name, path)
        self._compiled = compiled
        self._header = header

    def get_code(self, fullname: str) -> CodeType | None:
        """Return the code of the module: that of its compiled file, if it is for this source."""
        try:
            with open(self._compiled, "rb", buffering=0) as file:
                data = file.read()
        except OSError:
            data = b""
        if data[:_HEADER] != self._header:
            return super().get_code(fullname)
        code = marshal.loads(memoryview(data)[_HEADER:])
        if not isinstance(code, CodeType) or code.co_filename != self.path:
            return super().get_code(fullname)  # It was compiled in another folder.
        return code


@final
class QuickFinder:
    """A finder of the modules of one package, which lies in one folder, and of its packages."""

    def __init__(self, package: str, ending: str) -> None:
        self.package = package
        self._prefix = f"{package}."
        self._ending = ending
        """How the names of compiled files end, with the dot ahead of it."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return where a module is; None where it is not this package's, or not one source file."""
        if not name.startswith(self._prefix) or path is None or len(path) != 1:
            return None
        folder, last = path[0], name.rpartition(".")[2]
        if not last.isidentifier():
            return None
        return self._found(name, f"{folder}{sep}{last}", "__init__") or self._found(
            name, folder, last
        )

    def _found(self, name: str, folder: str, file: str) -> ModuleSpec | None:
        path = f"{folder}{sep}{file}.py"
        try:
            status = stat(path)
        except (OSError, ValueError):  # A name may be none that a file can have.
            return None
        if not S_ISREG(status.st_mode):
            return None
        compiled = f"{folder}{sep}__pycache__{sep}{file}{self._ending}"
        times = (int(status.st_mtime), status.st_size)
        header = MAGIC_NUMBER + bytes(4) + b"".join([_four_bytes(x) for x in times])
        spec = ModuleSpec(name, QuickLoader(name, path, compiled, header), origin=path)
        spec.has_location = True
        spec.cached = compiled
        if file == "__init__":
            spec.submodule_search_locations = [folder]
        return spec


def _four_bytes(number: int) -> bytes:
    return (number & 0xFFFFFFFF).to_bytes(4, "little")


def find_quickly(package: str, spec: ModuleSpec | None, folders: Sequence[str]) -> None:
    """Find the modules of a package quickly from now on, where it lies as sources in one folder.

    Where compiled files are kept elsewhere, or not at all, Python finds and loads them as ever.
    Finders that somebody put ahead of Python's own for files are asked first; one of a package that
    was loaded before goes.
    """
    if spec is None or type(spec.loader) is not SourceFileLoader or len(folders) != 1:
        return
    if sys.pycache_prefix is not None or sys.implementation.cache_tag is None:
        return
    ending = cache_from_source("x.py").rpartition("x.")[2]
    sys.meta_path[:] = [x for x in sys.meta_path if not _is_of(x, package)]
    if PathFinder in sys.meta_path:
        own = QuickFinder(package, f".{ending}")
        sys.meta_path.insert(sys.meta_path.index(PathFinder), own)


def _is_of(finder: object, package: str) -> bool:
    """Whether a finder is one of these for a package; its class may have been loaded before."""
    is_one = type(finder).__qualname__ == QuickFinder.__qualname__
    return is_one and getattr(finder, "package", None) == package
