"""Arrays in the hands of JAX: NumPy arrays in some memory of a device."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import c_int64, c_size_t, c_void_p
from functools import lru_cache
from typing import Any, Final

import numpy as np

from lowtide.ir.literal import Array
from lowtide.pjrt.devices import PluginDevice, PluginMemory, memory_at
from lowtide.pjrt.errors import INVALID_ARGUMENT, PluginError
from lowtide.pjrt.getters import NUMBER, POINTER, SIZE, reads
from lowtide.pjrt.handles import cell_of, handle, value_of
from lowtide.pjrt.layouts import Order, order_at, order_of, sizes_at
from lowtide.pjrt.native_code import immortal, native_code
from lowtide.pjrt.table import serves


class Buffer:
    """An array in a memory; `array` is None once it was deleted or donated.

    `order` is that in which its dimensions lie, `number` that of its element type.
    """

    __slots__ = ("array", "memory", "nbytes", "number", "order")

    def __init__(self, array: Array, number: int, memory: PluginMemory, order: Order) -> None:
        self.array: Array | None = array
        self.number = number
        self.memory = memory
        self.order = order
        self.nbytes = array.nbytes

    @property
    def device(self) -> PluginDevice:
        """The device that it is on."""
        return self.memory.device

    def alive(self) -> Array:
        """Return the array; raises PluginError where there is none any more."""
        if self.array is None:
            raise PluginError(INVALID_ARGUMENT, "Array has been deleted or donated.")
        return self.array


def new_buffer(
    array: Array,
    number: int,
    place: PluginDevice | PluginMemory,
    event: int,
    order: Order | None = None,
) -> int:
    """Return the handle of a new buffer with an element type by its number.

    It lies in a memory, or in the usual one of a device, in the order of the array if none is
    given. It is ready when an event has happened; a reference to that is taken over.
    """
    memory = place.memory if isinstance(place, PluginDevice) else place
    order = order_of(array) if order is None else order
    cell = memory.cell()
    cell.dimensions = sizes_at(array.shape, order)
    cell.rank = array.ndim
    cell.event = event
    return handle(Buffer(array, number, memory, order), cell)


def happened() -> int:
    """Return a new reference to an event that has happened."""
    code = native_code()
    code.retain(_happened())
    return _happened()


@lru_cache(maxsize=1)
def _happened() -> int:
    code = native_code()
    event: int = code.new_event()
    code.complete(event, None)
    return event


def delete(address: int) -> None:
    """Let go of the array of a buffer, which stays as a name for nothing."""
    value_of(address).array = None
    cell_of(address).is_deleted = 1


def numbers(address: int | None, count: int) -> list[int]:
    """Return a list of 64-bit numbers at an address, which may be null for none."""
    return list((c_int64 * count).from_address(address)) if address and count else []


def dense_copy(array: Array, order: Order) -> Array:
    """Return a copy in an order, at a multiple of a cache line, as JAX asks to share it."""
    copy = aligned_empty([array.shape[x] for x in reversed(order)], array.dtype)
    turned = copy.transpose([len(order) - 1 - order.index(x) for x in range(len(order))])
    turned[...] = array
    return turned


def aligned_empty(sizes: Sequence[int], dtype: np.dtype[Any]) -> Array:
    """Return an array, not filled, at a multiple of a cache line."""
    nbytes = int(np.prod(sizes, dtype=np.int64)) * dtype.itemsize
    block = np.empty(nbytes + LINE, np.uint8)
    start = -block.ctypes.data % LINE
    return block[start : start + nbytes].view(dtype).reshape(sizes)


LINE: Final = 64
"""Bytes of a cache line."""


@serves(
    "Buffer_ToHostBuffer",
    buffer=c_void_p,
    host_layout=c_void_p,
    dst=c_void_p,
    dst_size=c_size_t,
    event=c_void_p,
)
def _to_host(arguments: Any) -> None:
    array = value_of(arguments.buffer).alive()
    if not arguments.dst:
        arguments.dst_size = array.nbytes
        return
    array = array.transpose(order_at(arguments.host_layout, array.ndim)[::-1])
    if arguments.dst_size < array.nbytes:
        found = f"{arguments.dst_size} bytes for an array of {array.nbytes}"
        raise PluginError(INVALID_ARGUMENT, f"too little room on the host: {found}")
    dense = np.ascontiguousarray(array)
    ctypes.memmove(arguments.dst, dense.ctypes.data, dense.nbytes)
    arguments.event = happened()


reads("Buffer_ElementType", NUMBER, lambda x: (x.number,))
reads("Buffer_OnDeviceSizeInBytes", SIZE, lambda x: (x.nbytes,))
reads(
    "Buffer_UnsafePointer Buffer_OpaqueDeviceMemoryDataPointer",
    POINTER,
    lambda x: (x.alive().ctypes.data,),
)


@serves("Buffer_Delete", buffer=c_void_p)
def _delete(arguments: Any) -> None:
    delete(arguments.buffer)


_shared: Final[dict[int, list[Array]]] = immortal({})
"""By address of a buffer its array, once for each reference that others hold to its memory."""


@serves("Buffer_IncreaseExternalReferenceCount", buffer=c_void_p)
def _share(arguments: Any) -> None:
    array = value_of(arguments.buffer).alive()
    _shared.setdefault(arguments.buffer, []).append(array)


@serves("Buffer_DecreaseExternalReferenceCount", buffer=c_void_p)
def _give_back(arguments: Any) -> None:
    held = _shared[arguments.buffer]
    held.pop()
    if not held:
        del _shared[arguments.buffer]


@serves(
    "Buffer_CopyToDevice", "Buffer_CopyToMemory", buffer=c_void_p, place=c_void_p, copy=c_void_p
)
def _copy(arguments: Any) -> None:
    buffer = value_of(arguments.buffer)
    copy = dense_copy(buffer.alive(), buffer.order)
    place = memory_at(arguments.place)
    arguments.copy = new_buffer(copy, buffer.number, place, happened(), buffer.order)
