"""Functions that run as native code, and as Python where one wants to look inside.

The subset: parameters and results annotated `int` (64 bits, wraps around), `float`, `Array` or
`FloatArray`; assignment, `while`, `for` over `range`, `if`, `break`, `continue`, `return`;
arithmetic with Python's meaning, comparisons, `and`, `or`, `not`, `min`, `max`, `abs`, `int`,
`float`; subscripts from 0; integer constants of the module, and calls of other kernels.
"""

from __future__ import annotations

import ast
import ctypes
import inspect
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Generic, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.int64]
"""A contiguous array of 64-bit integers that a kernel reads and writes."""

FloatArray = npt.NDArray[np.float64]
"""A contiguous array of 64-bit floats that a kernel reads and writes."""

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

SCALARS: Final[dict[str, Any]] = {"int": ctypes.c_int64, "float": ctypes.c_double}
ARRAYS: Final[dict[str, type]] = {"Array": np.int64, "FloatArray": np.float64}


_IN_PYTHON: Final = ContextVar("_IN_PYTHON", default=False)


@contextmanager
def in_python() -> Iterator[None]:
    """Run kernels as Python within: for tiny inputs, where compiling them takes longer."""
    token = _IN_PYTHON.set(True)
    try:
        yield
    finally:
        _IN_PYTHON.reset(token)


class KernelError(Exception):
    """A kernel has something that the subset lacks, or is called with wrong arguments."""


@dataclass(frozen=True, slots=True)
class Signature:
    """The types of parameters and result, by the names of their annotations."""

    parameters: tuple[tuple[str, str], ...]
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
        tree = self.tree
        known = {**SCALARS, **ARRAYS}
        parameters = [(x.arg, self._annotation(x.annotation, known)) for x in tree.args.args]
        return Signature(tuple(parameters), self._annotation(tree.returns, SCALARS))

    def _annotation(self, node: ast.expr | None, known: dict[str, Any]) -> str:
        if isinstance(node, ast.Name) and node.id in known:
            return node.id
        raise self.error(node or self.tree, f"expected one of {', '.join(known)} as annotation")

    def error(self, node: ast.AST, problem: str) -> KernelError:
        """Return the error for a problem at a place in the source."""
        code = self.python.__code__
        line = getattr(node, "lineno", code.co_firstlineno)
        return KernelError(f"{code.co_filename}:{line}: in kernel {self.name}: {problem}")

    @cached_property
    def _native(self) -> Callable[..., Any]:
        from lowtide.search.kernels.machine import compiled

        signature = self.signature
        types = [SCALARS.get(kind, ctypes.c_void_p) for _, kind in signature.parameters]
        address = compiled(self)
        return ctypes.CFUNCTYPE(SCALARS[signature.result], *types)(address)

    def __call__(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        """Run native code; raises KernelError for an array of another type, or not contiguous."""
        if _IN_PYTHON.get():
            return self.python(*args, **kwargs)
        if kwargs:
            raise KernelError(f"{self.name}: kernels take no keyword arguments")
        kinds = self.signature.parameters
        if len(args) != len(kinds):
            raise KernelError(f"{self.name}: {len(args)} arguments, expected {len(kinds)}")
        values = [self._argument(x, *kind) for x, kind in zip(args, kinds, strict=True)]
        result: Result = self._native(*values)
        return result

    def _argument(self, value: Any, name: str, kind: str) -> Any:
        if kind in SCALARS:
            return value
        if not isinstance(value, np.ndarray) or value.dtype != ARRAYS[kind]:
            raise KernelError(f"{self.name}: {name} is no {kind} but {type(value).__name__}")
        if not (value.flags.c_contiguous and value.flags.writeable and value.flags.aligned):
            raise KernelError(f"{self.name}: {name} is not contiguous, aligned and writable")
        return value.ctypes.data
