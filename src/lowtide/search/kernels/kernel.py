"""Functions that run as native code, and as Python where one wants to look inside.

The subset: parameters and results annotated `int` (64 bits, wraps around), `float`, `Array`,
`FloatArray` or with a record (`records.py`), whose fields are read; assignment, `while`, `for` over
`range`, `if`, `break`, `continue`, `return`; arithmetic with Python's meaning, comparisons, `and`,
`or`, `not`, `min`, `max`, `abs`, `int`, `float`; subscripts from 0; a name for an array or a record
within a record, given once; integer constants of the module, and calls of other kernels.
"""

from __future__ import annotations

import ast
import ctypes
import inspect
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from typing import Any, Final, Generic, ParamSpec, TypeVar

from lowtide.records import dataclass
from lowtide.search.kernels.records import (
    ARRAYS,
    SCALARS,
    KernelError,
    Kind,
    address_of,
    checked,
    kind_of,
)

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

_IN_PYTHON: Final = ContextVar("_IN_PYTHON", default=False)


@contextmanager
def in_python() -> Iterator[None]:
    """Run kernels as Python within: for tiny inputs, where compiling them takes longer."""
    token = _IN_PYTHON.set(True)
    try:
        yield
    finally:
        _IN_PYTHON.reset(token)


@dataclass(frozen=True, slots=True)
class Signature:
    """The types of parameters and result."""

    parameters: tuple[tuple[str, Kind], ...]
    result: str


def kernel(function: Callable[Parameters, Result]) -> Kernel[Parameters, Result]:
    """Return the function as a kernel, which is compiled when it is called first."""
    return Kernel(function)


class Kernel(Generic[Parameters, Result]):
    """A function that runs as native code; `python` is the same function in Python.

    Native code checks no index: one outside of an array is read or written all the same. Calls
    from several threads run side by side.
    """

    def __init__(self, python: Callable[Parameters, Result]) -> None:
        self.python = python
        self.__doc__ = python.__doc__

    @property
    def name(self) -> str:
        """Name of the function."""
        return self.python.__name__

    @cached_property
    def tree(self) -> ast.FunctionDef:
        """The syntax of the function, with the lines that it has in its file."""
        lines, start = inspect.getsourcelines(self.python)
        tree = ast.parse(textwrap.dedent("".join(lines)))
        ast.increment_lineno(tree, start - 1)
        found = tree.body[0]
        if not isinstance(found, ast.FunctionDef):
            raise KernelError(f"{self.name} is no function")
        return found

    @cached_property
    def signature(self) -> Signature:
        """Types of parameters and result; raises KernelError for one that kernels do not have."""
        code = self.python.__code__
        parameters = [(x, self._kind(x)) for x in code.co_varnames[: code.co_argcount]]
        result = self._annotated("return")
        if isinstance(result, str) and result in SCALARS:
            return Signature(tuple(parameters), result)
        place = self.tree.returns or self.tree
        raise self.error(place, f"expected one of {', '.join(SCALARS)} as annotation")

    def _annotated(self, name: str) -> Kind | None:
        return kind_of(self.python.__annotations__.get(name), self.python.__globals__)

    def _kind(self, name: str) -> Kind:
        found = self._annotated(name)
        if found is not None:
            return found
        known = ", ".join([*SCALARS, *ARRAYS])
        place = next(x for x in self.tree.args.args if x.arg == name)
        raise self.error(place, f"expected a record or one of {known} as annotation")

    def error(self, node: ast.AST, problem: str) -> KernelError:
        """Return the error for a problem at a place in the source."""
        code = self.python.__code__
        line = getattr(node, "lineno", code.co_firstlineno)
        return KernelError(f"{code.co_filename}:{line}: in kernel {self.name}: {problem}")

    @cached_property
    def _native(self) -> Callable[..., Any]:
        from lowtide.search.kernels.machine import compiled

        signature = self.signature
        types = [_native_type(kind) for _, kind in signature.parameters]
        address = compiled(self)
        return ctypes.CFUNCTYPE(SCALARS[signature.result], *types)(address)

    def __call__(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        """Run native code.

        Raises KernelError for an array or a record of another type, and for an array that is not
        contiguous, aligned and writable.
        """
        if _IN_PYTHON.get():
            return self.python(*args, **kwargs)
        if kwargs:
            raise KernelError(f"{self.name}: kernels take no keyword arguments")
        expected = self._expected
        if len(args) != len(expected):
            raise KernelError(f"{self.name}: {len(args)} arguments, expected {len(expected)}")
        values = [_argument(x, *kind) for x, kind in zip(args, expected, strict=True)]
        result: Result = self._native(*values)
        return result

    @cached_property
    def _expected(self) -> tuple[tuple[Kind, str], ...]:
        """The types of parameters, and what errors call them."""
        return tuple((kind, f"{self.name}: {name}") for name, kind in self.signature.parameters)


def _native_type(kind: Kind) -> Any:
    return SCALARS.get(kind, ctypes.c_void_p) if isinstance(kind, str) else ctypes.c_char_p


def _argument(value: Any, kind: Kind, name: str) -> Any:
    if not isinstance(kind, str):
        return checked(value, kind, name).table
    return value if kind in SCALARS else address_of(value, kind, name)
