"""Modules of this package found and read with less work than Python's own finder takes.

That one looks for several kinds of files, and for changes of a folder, each time: a fifth of what
it takes to load the 350 small modules of a first compilation. Compiled files are Python's own, in
its places, and as new as the sources, or else its own loader reads or writes them.
"""

from __future__ import annotations

import marshal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import MAGIC_NUMBER, cache_from_source
from os import W_OK, access, sep, stat, stat_result
from os.path import dirname
from stat import S_ISREG
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Final, final

if TYPE_CHECKING:
    from pathlib import Path

    from lowtide.files.code_together import CodeTogether
    from lowtide.files.kept_code import KeptCode

_HEADER: Final = 16
"""Bytes ahead of the code in a compiled file: a magic number, flags, its source's time and size."""


@final
class QuickLoader(SourceFileLoader):
    """A loader of a module's source whose compiled file is read at once where it is as new."""

    def __init__(
        self, name: str, path: str, compiled: str, status: stat_result, keeper: _Keeper
    ) -> None:
        super().__init__(name, path)
        self._compiled = compiled
        self._header = _header(status)
        self._source = _source(status)
        self._keeper = keeper

    def get_code(self, fullname: str) -> CodeType | None:
        """Return the code of the module: that of a compiled file, if it is for this source."""
        together = self._keeper.together
        if together is None:
            return self._code_apart(fullname)
        found = together.code(fullname, self._source, self.path)
        if found is None:
            found = self._code_apart(fullname)
            if found is not None:
                together.note(fullname, self._source, found)
        return found

    def _code_apart(self, fullname: str) -> CodeType | None:
        """The code of the module from a file of its own."""
        found = self._compiled_beside()
        if found is not None:
            return found
        compiled = partial(super().get_code, fullname)
        kept = self._keeper.instead_of(fullname, self._compiled)
        return compiled() if kept is None else kept.through(self.path, compiled)

    def _compiled_beside(self) -> CodeType | None:
        """The code in Python's own place, None where there is none for this source."""
        try:
            with open(self._compiled, "rb", buffering=0) as file:
                data = file.read()
        except OSError:
            return None
        if data[:_HEADER] != self._header:
            return None
        code = marshal.loads(memoryview(data)[_HEADER:])
        if not isinstance(code, CodeType) or code.co_filename != self.path:
            return None  # It was compiled in another folder.
        return code


_TO_KEEP: Final = frozenset(
    {
        *("lowtide.files.code_together", "lowtide.files.kept_code", "lowtide.options"),
        *("lowtide.files.object_cache", "lowtide.files.writing"),
    }
)
"""The modules that it takes to keep code: they are compiled by each process."""


class _Keeper:
    """What keeps code where Python may not, loaded when a compiled file is first missed."""

    def __init__(self, folder: Callable[[], Path | None]) -> None:
        self._folder = folder
        self._kept: KeptCode | None = None
        self._is_asked = False
        self.together: CodeTogether | None = None
        """Code of several modules, from when it is read until what is loaded is kept."""
        self._were_read: set[str] = set()

    def instead_of(self, name: str, compiled: str) -> KeptCode | None:
        """Return what keeps the code of a module; None where Python writes the compiled file.

        It is None, too, for the modules that it takes to keep code, and where nothing is kept.
        """
        if not sys.dont_write_bytecode and access(dirname(dirname(compiled)), W_OK):
            return None
        if name in _TO_KEEP:
            return None
        if not self._is_asked:
            folder = self._folder()
            if folder is not None:
                self._kept = import_module("lowtide.files.kept_code").KeptCode(folder)
            self._is_asked = True
        return self._kept

    def read_together(self, of: str) -> None:
        """Read what is kept together, by what it depends on; none where nothing is to be kept.

        What was loaded since something else was read is kept first. Each is read once.
        """
        if of in self._were_read:
            return
        self.keep_together()
        self._were_read.add(of)
        folder = self._folder()
        if folder is not None:
            kept = import_module("lowtide.files.code_together")
            self.together = kept.CodeTogether(folder, of)

    def keep_together(self) -> None:
        """Keep what was loaded since then together, where much of it was not."""
        together, self.together = self.together, None
        if together is not None:
            together.keep()


@final
class QuickFinder:
    """A finder of the modules of one package, which lies in one folder, and of its packages."""

    def __init__(self, package: str, ending: str, folder: Callable[[], Path | None]) -> None:
        """Take what says the folder in which code is kept, None where nothing is to be kept."""
        self.package = package
        self.keeper: Final = _Keeper(folder)
        """What keeps code for the user."""
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
        spec = ModuleSpec(name, QuickLoader(name, path, compiled, status, self.keeper), origin=path)
        spec.has_location = True
        spec.cached = compiled
        if file == "__init__":
            spec.submodule_search_locations = [folder]
        return spec


def _header(status: stat_result) -> bytes:
    """What a compiled file of a source begins with."""
    times = (int(status.st_mtime), status.st_size)
    return MAGIC_NUMBER + bytes(4) + b"".join([_four_bytes(x) for x in times])


def _four_bytes(number: int) -> bytes:
    return (number & 0xFFFFFFFF).to_bytes(4, "little")


def _source(status: stat_result) -> tuple[int, ...]:
    """What tells a source from all that were in its place: its last change cannot be set back."""
    return status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_size


def find_quickly(
    package: str, spec: ModuleSpec | None, folders: Sequence[str], kept: Callable[[], Path | None]
) -> None:
    """Find the modules of a package quickly from now on, where it lies as sources in one folder.

    `kept` gives the folder in which code is kept for the user, None where nothing is to be kept.
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
        own = QuickFinder(package, f".{ending}", kept)
        sys.meta_path.insert(sys.meta_path.index(PathFinder), own)


def read_together(package: str, stage: str) -> None:
    """Have modules of a package come from what is kept together for a stage, read at once.

    That is for a process that comes to load most of it. What Python's own finder finds comes as
    ever. Where it was read before nothing changes.
    """
    folder = sys.modules[package].__path__[0]
    for finder in sys.meta_path:
        if isinstance(finder, QuickFinder) and finder.package == package:
            finder.keeper.read_together(f"{stage} {sys.flags.optimize} {folder}")


def keep_together(package: str) -> None:
    """Keep what was loaded since `read_together` for later processes; what is left is given up."""
    for finder in sys.meta_path:
        if isinstance(finder, QuickFinder) and finder.package == package:
            finder.keeper.keep_together()


def _is_of(finder: object, package: str) -> bool:
    """Whether a finder is one of these for a package; its class may have been loaded before."""
    is_one = type(finder).__qualname__ == QuickFinder.__qualname__
    return is_one and getattr(finder, "package", None) == package
