"""Foreign functions that are registered as targets of custom calls, by name."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Final, TypeAlias

from lowtide.records import dataclass

EXECUTE: Final = "execute"
"""The stage of a function that computes; others come before it."""


@dataclass(frozen=True, slots=True)
class ForeignTarget:
    """A registered function: the addresses of its stages, and what keeps its code in memory.

    A `typed` one takes a call frame; another one takes pointers to results and operands.
    """

    stages: Mapping[str, int]
    typed: bool
    kept: Any = field(default=None, compare=False)


Find: TypeAlias = "Callable[[str], ForeignTarget | None]"
"""Looks for a function in another register."""

_targets: Final[dict[str, ForeignTarget]] = {}
_others: Final[list[Find]] = []


def register_target(name: str, target: ForeignTarget) -> None:
    """Have custom calls of a name call a function, also where another one had the name."""
    _targets[name] = target


def look_also(find: Find) -> None:
    """Have names that are not registered here looked up elsewhere, too."""
    _others.append(find)


def target_named(name: str) -> ForeignTarget | None:
    """Return the function of a name, or None."""
    found = _targets.get(name)
    if found is not None:
        return found
    return next((x for x in [find(name) for find in _others] if x is not None), None)


def target_of(function: Any, *, typed: bool) -> ForeignTarget:
    """Return what a capsule of an address stands for, or a dictionary of capsules by stage.

    Raises TypeError for anything else.
    """
    stages = function if isinstance(function, dict) else {EXECUTE: function}
    return ForeignTarget({x: _address(y) for x, y in stages.items()}, typed, function)


def _address(capsule: Any) -> int:
    if type(capsule).__name__ != "PyCapsule":
        raise TypeError(
            f"a foreign function is a capsule of its address (jax.ffi.pycapsule), not {capsule!r}"
        )
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype = ctypes.c_char_p
    api.PyCapsule_GetName.argtypes = [ctypes.py_object]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    return int(api.PyCapsule_GetPointer(capsule, api.PyCapsule_GetName(capsule)))
