"""LLVM's functions in the library that comes with llvmlite, called without llvmlite's own modules.

Those, and what of Python's library they load, take as long as a small program needs to compile.
Where the library lies elsewhere, or is of a release whose functions are not known here, llvmlite
finds it and says what its functions take. What LLVM makes is passed as addresses.
"""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Callable
from ctypes import c_char_p, c_int, c_size_t, c_uint, c_void_p
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, final

_KNOWN: Final = ("0.50.",)
"""Releases of llvmlite whose functions take what is said below."""

_OUT: Final = ctypes.POINTER(c_char_p)

_SIGNATURES: Final[dict[str, tuple[Any, tuple[Any, ...]]]] = {
    "GetVersionInfo": (c_uint, ()),
    "GetProcessTriple": (None, (_OUT,)),
    "GetHostCPUName": (None, (_OUT,)),
    "GetHostCPUFeatures": (c_int, (_OUT,)),
    "DisposeString": (None, (c_char_p,)),
    "GetTargetFromTriple": (c_void_p, (c_char_p, _OUT)),
    "CreateTargetMachine": (
        c_void_p,
        (c_void_p, *[c_char_p] * 3, c_int, *[c_char_p] * 2, c_int, c_int, c_char_p),
    ),
    "DisposeTargetMachine": (None, (c_void_p,)),
    "CreateTargetMachineData": (c_void_p, (c_void_p,)),
    "CopyStringRepOfTargetData": (None, (c_void_p, _OUT)),
    "DisposeTargetData": (None, (c_void_p,)),
    "CreatePipelineTuningOptions": (c_void_p, ()),
    "DisposePipelineTuningOptions": (None, (c_void_p,)),
    "CreatePassBuilder": (c_void_p, (c_void_p, c_void_p)),
    "DisposePassBuilder": (None, (c_void_p,)),
    "CreateNewModulePassManager": (c_void_p, ()),
    "DisposeNewModulePassManger": (None, (c_void_p,)),
    "buildPerModuleDefaultPipeline": (c_void_p, (c_void_p, c_int)),
    "buildFunctionSimplificationPipeline": (c_void_p, (c_void_p, c_int)),
    "DisposeNewFunctionPassManger": (None, (c_void_p,)),
    "RunNewModulePassManager": (None, (c_void_p, c_void_p, c_void_p)),
    "RunNewFunctionPassManager": (None, (c_void_p, c_void_p, c_void_p)),
    "ContextCreate": (c_void_p, ()),
    "ContextDispose": (None, (c_void_p,)),
    "ParseAssembly": (c_void_p, (c_void_p, c_char_p, _OUT)),
    "DisposeModule": (None, (c_void_p,)),
    "ModuleFunctionsIter": (c_void_p, (c_void_p,)),
    "FunctionsIterNext": (c_void_p, (c_void_p,)),
    "DisposeFunctionsIter": (None, (c_void_p,)),
    "IsDeclaration": (c_int, (c_void_p,)),
    "TargetMachineEmitToMemory": (c_void_p, (c_void_p, c_void_p, c_int, _OUT)),
    "GetBufferStart": (c_void_p, (c_void_p,)),
    "GetBufferSize": (c_size_t, (c_void_p,)),
    "DisposeMemoryBuffer": (None, (c_void_p,)),
}
"""What functions give and take, by their names behind `LLVMPY_`."""

_ADDS: Final = "module_Add"
"""How the names begin of functions that add a pass to a pipeline, which they take."""

_LOADED: Final[list[Any]] = []


@final
class LlvmThing:
    """A thing that LLVM made, by its address; it goes when this does."""

    __slots__ = ("_dispose", "_needs", "_ptr")

    def __init__(self, address: Any, dispose: Callable[[Any], object], *needs: object) -> None:
        self._ptr = address
        self._dispose = dispose
        self._needs = needs
        """What it refers to, which has to live as long."""

    @property
    def address(self) -> Any:
        """The address, as LLVM's functions take it."""
        return self._ptr

    def __del__(self, is_ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if self._ptr and not is_ending():
            self._dispose(self._ptr)


def is_loaded() -> bool:
    """Whether this process has LLVM's library, by these functions or by llvmlite's."""
    return bool(_LOADED) or "llvmlite.binding.ffi" in sys.modules


@cache
def entry_points() -> Any:
    """Return LLVM's functions as attributes, with their names in the library."""
    path = _known_library()
    found = _of_llvmlite() if path is None else _declared(path)
    _LOADED.append(found)
    return found


@cache
def llvmlite_version() -> str:
    """Return the release of llvmlite, as it names it."""
    for folder in _folders():
        try:
            text = (folder / "_version.py").read_text()
        except OSError:
            continue
        if found := re.search(r"^version_version = '([\w.+-]+)'$", text, re.MULTILINE):
            return found[1]
    import llvmlite

    version: str = llvmlite.__version__
    return version


def llvm_version() -> tuple[int, ...]:
    """Return the version of LLVM, its major number first."""
    number, parts = entry_points().LLVMPY_GetVersionInfo(), []
    while number:
        parts.append(number & 0xFF)
        number >>= 8
    return tuple(reversed(parts))


def told(function: Callable[..., object], *given: object) -> str:
    """Return the text that a function of LLVM gives by its last argument, "" if it gives none."""
    text = c_char_p()
    function(*given, ctypes.byref(text))
    if not text:
        return ""
    try:
        return (text.value or b"").decode()
    finally:
        entry_points().LLVMPY_DisposeString(text)


def adder(name: str) -> Callable[[Any], object]:
    """Return the function that adds a pass to a pipeline for modules, by the pass's name."""
    function = getattr(entry_points(), f"LLVMPY_{_ADDS}{name}")
    if not function.argtypes:
        function.restype, function.argtypes = None, (c_void_p,)
    adding: Callable[[Any], object] = function
    return adding


def _folders() -> list[Path]:
    """Where llvmlite lies; nothing of it is loaded for that."""
    spec = find_spec("llvmlite")
    return [Path(x) for x in (spec and spec.submodule_search_locations) or ()]


def _known_library() -> Path | None:
    """The library of a release that is known, where it lies as that has it on Linux."""
    if sys.platform != "linux" or not llvmlite_version().startswith(_KNOWN):
        return None
    paths = [x / "binding" / "libllvmlite.so" for x in _folders()]
    return next((x for x in paths if x.is_file()), None)


def _declared(path: Path) -> Any:
    library = ctypes.CDLL(str(path))
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(library, f"LLVMPY_{name}")
        function.restype, function.argtypes = result, arguments
    return library


def _of_llvmlite() -> Any:
    """The same functions as llvmlite declares them, without its lock around them."""
    import llvmlite.binding as llvm

    return llvm.ffi.lib._lib
