"""Names that are loaded, and values that are made, when they are first asked for."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from importlib import import_module
from threading import RLock
from typing import Any, AnyStr, Generic, TypeVar, cast, final

KeyT = TypeVar("KeyT")
MadeT = TypeVar("MadeT")


@final
class Late(Generic[MadeT]):
    """A value that is made once, by the thread that asks first: others wait for it.

    What it is made of is given up then. Where it cannot be made, the next one who asks tries again.
    """

    __slots__ = ("_found", "_lock", "_make")

    def __init__(self, make: Callable[[], MadeT]) -> None:
        self._make: Callable[[], MadeT] | None = make
        self._found: list[MadeT] = []
        self._lock = RLock()

    def get(self) -> MadeT:
        """Return the value."""
        with self._lock:
            if self._make is not None:
                self._found.append(self._make())
                self._make = None
        return self._found[0]


@final
class LateTable(dict[KeyT, MadeT]):
    """Values that are made of their keys, once they are asked for."""

    def __init__(self, make: Callable[[KeyT], MadeT]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, key: KeyT) -> MadeT:
        made = self[key] = self._make(key)
        return made


def late_names(package: str, **files: str) -> Callable[[str], object]:
    """Return the `__getattr__` of a package; `files` has the names that each of its files defines.

    It raises AttributeError for any other name.
    """
    homes = {name: file for file, names in files.items() for name in names.split()}

    def found(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(import_module(f"{package}.{homes[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return found


def late_function(module: str, table: str, key: object) -> Callable[..., Any]:
    """Return the function that a table of a module has under a key.

    The module is loaded when it is first called.
    """

    def function(*given: object) -> Any:
        return getattr(import_module(module), table)[key](*given)

    return function


@final
class _LatePattern:
    """A regular expression whose methods are found when they are first asked for."""

    def __init__(self, text: str | bytes, flags: int) -> None:
        self._compile: Callable[[], re.Pattern[Any]] = lambda: re.compile(text, flags)

    def __getattr__(self, name: str) -> object:
        found = getattr(self._compile(), name)
        setattr(self, name, found)
        return found


def late_pattern(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a regular expression that is compiled when it is first used: most programs need few.

    It is used by its methods; functions of `re` do not take it. They raise re.error for a bad text.
    """
    return cast("re.Pattern[AnyStr]", _LatePattern(text, flags))
