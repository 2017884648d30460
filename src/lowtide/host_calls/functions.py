"""Python functions that programs call, each by a number that only this process gives it."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, Final, TypeAlias, final
from weakref import WeakValueDictionary

from lowtide.ir.errors import UnsupportedOpError
from lowtide.records.late import late_pattern

TARGET: Final = "lowtide_python_function"
"""The target of custom calls of Python functions; their configuration has the number."""

NUMBER: Final = "number"
"""The attribute in the configuration."""

Function: TypeAlias = Callable[..., Sequence[Any]]
"""Takes arrays, which become its own, to a sequence of what can be made arrays."""

_numbers: Final = count(secrets.randbits(42) << 20)
"""Numbers start anywhere, so that a module of another process names no function of this one."""


@final
class HostFunction:
    """A function that programs call, as long as somebody holds this object.

    `check` is given the results of a call and returns them as arrays of the right types and sizes;
    it raises where they are not.
    """

    __slots__ = ("__weakref__", "function", "name", "number")

    def __init__(self, function: Function, name: str = "") -> None:
        self.function = function
        self.name = name or getattr(function, "__name__", "a function")
        self.number = next(_numbers)
        _functions[self.number] = self


_functions: Final[WeakValueDictionary[int, HostFunction]] = WeakValueDictionary()

_CONFIG: Final = late_pattern(rf"\{{\s*{NUMBER} = (\d+)(?: : \w+)?\s*\}}")


def function_named(config: str) -> HostFunction:
    """Return the function that a configuration names.

    Raises UnsupportedOpError for one of another process, or that nobody holds any more.
    """
    found = _CONFIG.fullmatch(config)
    function = _functions.get(int(found[1])) if found else None
    if function is None:
        raise UnsupportedOpError(
            "it calls a Python function that is not in this process, or not any more: compile the "
            "module again where the function is"
        )
    return function
