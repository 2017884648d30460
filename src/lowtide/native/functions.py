"""Native functions: Python as it is read, machine code where it counts.

A native function is written in a subset of Python, checked by mypy, and compiled with the others of
its unit (`unit.py`). Called from Python it runs as Python.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Generic, ParamSpec, TypeVar

from lowtide.native.records import Address, Atomic, NativeItems, NativeRecord

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
R = TypeVar("R", bound=NativeRecord)


def source_of(module: str, path: str = "") -> bytes:
    """Return a module that is loaded as it is written, or another file of its package.

    Raises OSError where there is no such file.
    """
    loaded = sys.modules[module]
    given = loaded.__file__ or ""
    path = os.path.join(os.path.dirname(given), path) if path else given
    loader: Any = loaded.__spec__.loader if loaded.__spec__ else None
    if hasattr(loader, "get_data"):
        data: bytes = loader.get_data(path)
        return data
    return Path(path).read_bytes()


class NativeFunction(Generic[Parameters, Result]):
    """A native function; `constants` are parameters that have a value for good."""

    def __init__(
        self, python: Callable[..., Result], name: str, constants: dict[str, int] | None = None
    ) -> None:
        self.python = python
        self.name = name
        self.constants = constants or {}
        self.__doc__ = python.__doc__
        self.__module__ = python.__module__

    def __call__(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        """Run the function as Python."""
        return self.python(*args, **kwargs, **self.constants)

    def bound(self, name: str, **constants: int) -> NativeFunction[..., Result]:
        """Return the function by another name, with values for some parameters."""
        return NativeFunction(self.python, name, constants)


def native(function: Callable[Parameters, Result]) -> NativeFunction[Parameters, Result]:
    """Return the function as a native one."""
    return NativeFunction(function, function.__name__)


class External(Generic[Parameters, Result]):
    """A function of the process, by its name in C; calls from Python need a `python` of a test's.

    Arguments behind the first `fixed` ones are variadic.
    """

    def __init__(self, declared: Callable[Parameters, Result], fixed: int | None) -> None:
        self.python = declared
        self.name = declared.__name__
        self.constants: dict[str, int] = {}
        self.fixed = fixed
        self.__module__ = declared.__module__

    def __call__(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        """Raise NotImplementedError: machine code only calls it."""
        raise NotImplementedError(f"{self.name} is called by machine code only")


def external(function: Callable[Parameters, Result]) -> External[Parameters, Result]:
    """Declare a function of the process; its body never runs, and a result of None is ignored."""
    return External(function, None)


def variadic(fixed: int) -> Callable[[Callable[Parameters, Result]], External[Parameters, Result]]:
    """Declare one of which only the first parameters are fixed."""
    return lambda function: External(function, fixed)


class SharedRecord(Generic[R]):
    """A record of which there is one in each unit, as its functions find it by `the`."""

    def __init__(self, record: type[R], values: dict[str, Any]) -> None:
        self.record = record
        self.values = values
        self.__module__ = record.__module__


def shared(record: type[R], **values: Any) -> SharedRecord[R]:
    """Return a record of a unit: zeros at first, but for fields with numbers or functions."""
    return SharedRecord(record, values)


# -- what only native code has -------------------------------------------------------------------


class PrimitiveError(Exception):
    """A primitive of native code runs in Python, where there is nothing that it could mean."""


def the(one: SharedRecord[R]) -> R:
    """Return the record of the unit."""
    raise PrimitiveError("the")


def new(record: type[R], more: int = 0) -> R:
    """Return memory for a record, and for so many bytes behind it, with nothing set."""
    raise PrimitiveError("new")


def free(block: NativeRecord | Address | None) -> None:
    """Give back memory that `new` or malloc made, if any."""
    raise PrimitiveError("free")


def on_stack(record: type[R]) -> R:
    """Return a record that lives until the function returns, with nothing set."""
    raise PrimitiveError("on_stack")


def at(record: type[R], place: NativeRecord | Address) -> R:
    """Return the record at an address, or another record's memory as one of this class."""
    raise PrimitiveError("at")


def allocate(nbytes: int) -> Address:
    """Return memory of so many bytes, 0 where there is none."""
    raise PrimitiveError("allocate")


def array_at(element: type[Any], place: Address) -> NativeItems[Any]:
    """Return the elements from an address on."""
    raise PrimitiveError("array_at")


def behind(record: NativeRecord) -> Address:
    """Return the address of the first byte behind a record."""
    raise PrimitiveError("behind")


def address_of(thing: object) -> Address:
    """Return where a record, an atomic, an array, a text of bytes or a native function lies."""
    raise PrimitiveError("address_of")


def size_of(record: type[NativeRecord]) -> int:
    """Return the bytes of a record."""
    raise PrimitiveError("size_of")


def copy_bytes(target: Address, source: Address, count: int) -> None:
    """Copy bytes that do not meet."""
    raise PrimitiveError("copy_bytes")


def futex_wait(word: Atomic[int], value: int, time: Address = 0) -> None:
    """Sleep while the low 32 bits of a word are those of a value; may return early.

    `time` is the address of the most seconds and nanoseconds, if there is an end.
    """
    raise PrimitiveError("futex_wait")


def futex_wake(word: Atomic[int], count: int) -> None:
    """Wake up to so many of the threads that sleep at a word."""
    raise PrimitiveError("futex_wake")


def relax() -> None:
    """Let some tens of cycles go by."""
    raise PrimitiveError("relax")


def round_to_nearest(without_denormals: int) -> int:
    """Have the thread round to nearest, without traps; return how it computed floating point.

    Denormals are kept, or 0 where `without_denormals` is other than 0: as operands and as results.
    """
    raise PrimitiveError("round_to_nearest")


def round_as_before(before: int) -> None:
    """Have the thread compute floating point as it did before `round_to_nearest`."""
    raise PrimitiveError("round_as_before")


def trailing_zeros(number: int) -> int:
    """Return how many of 64 bits are 0 below the lowest that is 1; 64 for 0."""
    raise PrimitiveError("trailing_zeros")


def leading_zeros(number: int) -> int:
    """Return how many of 64 bits are 0 above the highest that is 1; 64 for 0."""
    raise PrimitiveError("leading_zeros")


PRIMITIVES: Final = (
    *(the, new, allocate, free, on_stack, at, array_at, behind, address_of, size_of, copy_bytes),
    *(
        futex_wait,
        futex_wake,
        relax,
        round_to_nearest,
        round_as_before,
        trailing_zeros,
        leading_zeros,
    ),
)
"""All of them."""
