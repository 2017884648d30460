"""The memory of a program in calls of Python functions: arrays at addresses, read and written."""

from __future__ import annotations

import ctypes
import secrets
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, Final, TypeAlias, final
from weakref import WeakValueDictionary

import numpy as np

from lowtide.ir.errors import UnsupportedOpError
from lowtide.ir.literal import DTYPES, Array
from lowtide.ir.shape import Shape
from lowtide.ir.thunk import HostCall

MEMORY_TARGET: Final = "lowtide_memory_function"
"""The target of such calls; their configuration is the number of the function."""

MemoryFunction: TypeAlias = Callable[[int], None]
"""Takes the address of the addresses of operands and results."""

_numbers: Final = count(secrets.randbits(42) << 20)
"""Numbers start anywhere, so that a program of another process names no function of this one."""


@final
class MemoryCallee:
    """A function that programs call, as long as somebody holds this object."""

    __slots__ = ("__weakref__", "function", "number")

    def __init__(self, function: MemoryFunction) -> None:
        self.function = function
        self.number = next(_numbers)
        _callees[self.number] = self

    def call(self, operands: Sequence[Shape], results: Sequence[Shape]) -> HostCall:
        """Return a call of the function, with the shapes of what it reads and writes."""
        config = str(self.number)
        shapes = tuple(operands), tuple(results)
        return HostCall(MEMORY_TARGET, "", config, *shapes, is_tuple=True, has_side_effect=True)


_callees: Final[WeakValueDictionary[int, MemoryCallee]] = WeakValueDictionary()


def memory_function(call: HostCall) -> MemoryFunction:
    """Return the function that a call names; raises UnsupportedOpError where nobody holds it."""
    callee = _callees.get(int(call.config)) if call.config.isdecimal() else None
    if callee is None:
        raise UnsupportedOpError("it calls a function that is not in this process, or not any more")
    return callee.function


def array_at(address: int, shape: Shape) -> Array:
    """Return a copy of the array at an address, in row-major order."""
    return np.array(memory_at(address, shape), order="C")


def write_array(address: int, shape: Shape, value: Array) -> None:
    """Write an array of the type and the sizes of a shape to an address."""
    memory_at(address, shape)[...] = value


def memory_at(address: int, shape: Shape) -> Array:
    """Return the memory at an address as an array; a layout has no tiles in native code."""
    dtype = DTYPES[shape.element_type]
    nbytes = shape.element_count * dtype.itemsize
    if not nbytes:
        return np.empty(shape.dimensions, dtype)
    block: Any = (ctypes.c_char * nbytes).from_address(address)
    order = shape.physical_order
    sizes = [shape.dimensions[x] for x in order]
    flat = np.frombuffer(block, np.uint8).view(dtype)
    return flat.reshape(sizes).transpose(np.argsort(order))
