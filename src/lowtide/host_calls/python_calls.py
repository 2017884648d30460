"""Calls of Python functions: arrays in, checked results out, and tracebacks without our frames."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from lowtide.host_calls.functions import HostFunction, function_named
from lowtide.host_calls.memory_calls import array_at, write_array
from lowtide.ir.errors import LowtideError
from lowtide.ir.literal import DTYPES, Array
from lowtide.ir.shape import Shape
from lowtide.ir.thunk import HostCall


class PythonCall:
    """A call of a Python function; it keeps the function.

    `run` is given the address of the addresses of operands and results. What the function raises
    is passed on as it is.
    """

    def __init__(self, call: HostCall) -> None:
        self.function: HostFunction = function_named(call.config)
        self._count = len(call.operands) + len(call.results)
        self._operands = _arrays(call.operands, 0)
        self._results = _arrays(call.results, len(call.operands))

    def run(self, place: int) -> None:
        """Call the function once."""
        addresses = (ctypes.c_size_t * self._count).from_address(place)
        arrays = [array_at(addresses[i], shape) for i, shape in self._operands]
        found = self.function.function(*arrays)
        values = _checked(found, [shape for _, shape in self._results], self.function.name)
        for (i, shape), value in zip(self._results, values, strict=True):
            write_array(addresses[i], shape, value)


_RUN: Final = PythonCall.run.__code__


def raised_in(error: BaseException) -> tuple[str, str]:
    """Return the name of the called function that raised an error, and the traceback from there on.

    Both are "" for an error of another origin.
    """
    found = error.__traceback__
    while found is not None and found.tb_frame.f_code is not _RUN:
        found = found.tb_next
    if found is None:
        return "", ""
    call: PythonCall = found.tb_frame.f_locals["self"]
    import traceback  # It is slow to load.

    lines = traceback.format_exception(type(error), error, found.tb_next)
    return call.function.name, "".join(lines)


def _arrays(shapes: Sequence[Shape], start: int) -> list[tuple[int, Shape]]:
    """The arrays among shapes, with their positions, the first of which is `start`."""
    return [(i, x) for i, x in enumerate(shapes, start) if x.is_array]


def _checked(found: Sequence[Any], shapes: Sequence[Shape], name: str) -> list[Array]:
    """Return results as arrays; raises LowtideError where they are not of the types and sizes."""
    if len(found) != len(shapes):
        raise LowtideError(
            f"Mismatched number of outputs from {name}: expected {len(shapes)}, found {len(found)}"
        )
    values = [np.asarray(x) for x in found]
    for number, (value, shape) in enumerate(zip(values, shapes, strict=True)):
        dtype = DTYPES[shape.element_type]
        for what, wanted, got in (
            ("shape", shape.dimensions, value.shape),
            ("dtype", dtype, value.dtype),
        ):
            if wanted != got:
                raise LowtideError(
                    f"Incorrect output {what} for return value #{number} of {name}: "
                    f"expected {wanted}, found {got}"
                )
    return values
