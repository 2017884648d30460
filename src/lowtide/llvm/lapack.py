"""LAPACK's routines and BLAS' in this process: those that SciPy offers to C, found by name.

Code declares a routine as `symbol(name)`; `imports` finds the addresses for the linker.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, TypeAlias

Value: TypeAlias = "str | int | None"
"""What a routine is given: a character, a number of 32 bits, or an array (None)."""

_PREFIX: Final = "lowtide_lapack_"
_USED: Final = re.compile(rb"\0lowtide_lapack_([a-z0-9]+)(?=\0)")
_DECLARED: Final = re.compile(r"^declare void @lowtide_lapack_([a-z0-9]+)\(", re.MULTILINE)
_LIBRARIES: Final = ("blas", "lapack")
_ROOM: Final = 256
"""Bytes of an array of which a routine writes the first element at most."""


class MissingRoutineError(Exception):
    """A routine that there is not in this process; the text says what to do."""


@cache
def is_installed() -> bool:
    """Whether there is SciPy, which has the routines; to know that loads nothing."""
    return find_spec("scipy") is not None


def symbol(routine: str) -> str:
    """Return the name by which code calls a routine, such as "dgeev"."""
    return _PREFIX + routine


def routines_called(text: str) -> list[str]:
    """Return the distinct routines that a module in LLVM's IR calls, in order."""
    return list(dict.fromkeys(_DECLARED.findall(text)))


def imports(objects: Iterable[bytes]) -> dict[str, int]:
    """Return the addresses of the routines that object files call, by symbol.

    Their names stand in the tables of the files. Raises MissingRoutineError.
    """
    names = {name.decode(): None for code in objects for name in _USED.findall(code)}
    return {symbol(name): address(name) for name in names}


def address(routine: str) -> int:
    """Return the address of a routine, whose arguments are all pointers.

    Raises MissingRoutineError.
    """
    capsule = _routines().get(routine)
    if capsule is None:
        raise MissingRoutineError(f"SciPy has no routine {routine} of LAPACK for 32-bit sizes")
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype = ctypes.c_char_p
    api.PyCapsule_GetName.argtypes = [ctypes.py_object]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    found = api.PyCapsule_GetPointer(capsule, api.PyCapsule_GetName(capsule))
    return int(found)


@cache
def _routines() -> dict[str, Any]:
    try:
        libraries = [import_module(f"scipy.linalg.cython_{x}") for x in _LIBRARIES]
    except ImportError:
        raise MissingRoutineError(
            "LAPACK's routines are those of SciPy, which is not installed (pip install scipy)"
        ) from None
    return {name: found for x in libraries for name, found in x.__pyx_capi__.items()}


def asked(routine: str, values: Sequence[Value]) -> list[bytes]:
    """Return the first bytes of each array after a call, zeros where none were written.

    That is how a routine tells the lengths of its workspaces, where it is given -1 as such.
    """
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(values))(address(routine))
    rooms = []
    for value in values:
        room = ctypes.create_string_buffer(_ROOM)
        if isinstance(value, str):
            room.raw = value.encode()
        elif value is not None:
            ctypes.c_int32.from_buffer(room).value = value
        rooms.append(room)
    function(*[ctypes.addressof(room) for room in rooms])
    return [room.raw for room, value in zip(rooms, values, strict=True) if value is None]
