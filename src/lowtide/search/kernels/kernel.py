"""Native functions that Python calls: as machine code, or as Python where one looks inside.

A kernel takes numbers (`int`, `float`), arrays (`Array`, `FloatArray`) and frozen records of them
(`native/frozen.py`), and returns a number. What its body may have is what `lowtide.native` has.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from typing import Any, Final, ParamSpec, TypeVar

from lowtide.native.frozen import Record, address_of_items, checked
from lowtide.native.functions import NativeFunction
from lowtide.native.kinds import (
    FLOAT,
    FROZEN_FIELDS,
    INT,
    ItemsKind,
    Kind,
    Reference,
    fields_of,
    is_frozen_field,
)
from lowtide.native.records import NativeError
from lowtide.native.scope import FunctionSource, NativeSignature

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

_IN_PYTHON: Final = ContextVar("_IN_PYTHON", default=False)

_NUMBERS: Final[dict[Kind, Any]] = {INT: ctypes.c_int64, FLOAT: ctypes.c_double}


@contextmanager
def in_python() -> Iterator[None]:
    """Run kernels as Python within: for tiny inputs, where compiling them takes longer."""
    token = _IN_PYTHON.set(True)
    try:
        yield
    finally:
        _IN_PYTHON.reset(token)


def kernel(function: Callable[Parameters, Result]) -> Kernel[Parameters, Result]:
    """Return the function as a kernel, which is compiled when it is called first."""
    return Kernel(function, function.__name__)


class Kernel(NativeFunction[Parameters, Result]):
    """A function that runs as native code; `python` is the same function in Python.

    Native code checks no index: one outside of an array is read or written all the same. Calls
    from several threads run side by side.
    """

    @cached_property
    def signature(self) -> NativeSignature:
        """Kinds of parameters and result; raises NativeError for one that kernels do not have."""
        source = FunctionSource(self)
        found = source.signature
        for (_, kind), argument in zip(found.parameters, source.tree.args.args, strict=True):
            if not _is_taken(kind):
                raise source.error(argument, f"expected {FROZEN_FIELDS} as annotation")
        if found.result not in _NUMBERS:
            raise source.error(source.tree, "expected one of int, float as annotation")
        return found

    @cached_property
    def _native(self) -> Callable[..., Any]:
        from lowtide.search.kernels.machine import compiled

        kinds = [kind for _, kind in self.signature.parameters]
        types = [_native_type(kind) for kind in kinds]
        return ctypes.CFUNCTYPE(_NUMBERS[self.signature.result], *types)(compiled(self))

    def __call__(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        """Run native code.

        Raises NativeError for an array or a record of another type, and for an array that is not
        contiguous, aligned and writable.
        """
        if _IN_PYTHON.get():
            return self.python(*args, **kwargs)
        if kwargs:
            raise NativeError(f"{self.name}: kernels take no keyword arguments")
        expected = self._expected
        if len(args) != len(expected):
            raise NativeError(f"{self.name}: {len(args)} arguments, expected {len(expected)}")
        values = [_argument(x, *kind) for x, kind in zip(args, expected, strict=True)]
        result: Result = self._native(*values)
        return result

    @cached_property
    def _expected(self) -> tuple[tuple[Kind, str], ...]:
        """The kinds of parameters, and what errors call them."""
        return tuple((kind, f"{self.name}: {name}") for name, kind in self.signature.parameters)


def _is_taken(kind: Kind) -> bool:
    """Whether Python can hand over what is of a kind; raises NativeError for a wrong record."""
    if not isinstance(kind, Reference):
        return is_frozen_field(kind)
    return issubclass(kind.record, Record) and bool(fields_of(kind.record))


def _native_type(kind: Kind) -> Any:
    if isinstance(kind, Reference):
        return ctypes.c_char_p
    return _NUMBERS.get(kind, ctypes.c_void_p)


def _argument(value: Any, kind: Kind, name: str) -> Any:
    if isinstance(kind, Reference):
        return checked(value, kind.record, name).table
    return address_of_items(value, kind, name) if isinstance(kind, ItemsKind) else value
