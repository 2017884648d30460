"""Arrays in the hands of JAX: in some memory of a device, in some order, maybe still to come."""

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
from lowtide.pjrt.handles import sweep, value_of
from lowtide.pjrt.layouts import Order, order_at, order_of
from lowtide.pjrt.native_code import native_code
from lowtide.pjrt.queues import queue_of
from lowtide.pjrt.storage import Buffer, BufferType, fill, new_cell
from lowtide.pjrt.table import serves


def new_buffer(
    array: Array, number: int, memory: PluginMemory, event: int, order: Order | None = None
) -> int:
    """Return the handle of a new buffer with an element type by its number.

    It lies in the order of the array if none is given. It is ready when an event has happened; a
    reference to that is taken over.
    """
    sweep()
    storage = new_storage(memory.device, array.nbytes)
    fill(storage, array)
    kind = BufferType(
        array.shape, order_of(array) if order is None else order, number, array.nbytes
    )
    return new_cell(memory, kind, storage, event)


def new_storage(device: PluginDevice, nbytes: int) -> int:
    """Return a new storage on a device, with nothing in it and one reference."""
    storage: int = native_code().new_storage(queue_of(device).address, None, nbytes, 0)
    return storage


def pending() -> int:
    """Return a new event that has not happened, with a reference for C++ and one for its maker."""
    code = native_code()
    event: int = code.new_event()
    code.retain(event)
    return event


def happened() -> int:
    """Return a new reference to an event that has happened."""
    # Threads that ask at once may each make one: the reference is to the one that is returned.
    event = _happened()
    native_code().retain(event)
    return event


@lru_cache(maxsize=1)
def _happened() -> int:
    code = native_code()
    event: int = code.new_event()
    code.complete(event, None)
    return event


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
    buffer: Buffer = value_of(arguments.buffer)
    if not arguments.dst:
        arguments.dst_size = buffer.nbytes
        return
    order = order_at(arguments.host_layout, len(buffer.shape))[::-1]
    if arguments.dst_size < buffer.nbytes:
        found = f"{arguments.dst_size} bytes for an array of {buffer.nbytes}"
        raise PluginError(INVALID_ARGUMENT, f"too little room on the host: {found}")
    target = arguments.dst

    def copy(array: Array) -> None:
        dense = np.ascontiguousarray(array.transpose(order))
        ctypes.memmove(target, dense.ctypes.data, dense.nbytes)

    arguments.event = event = pending()
    buffer.then(copy, event)


@serves(
    "Buffer_CopyToDevice", "Buffer_CopyToMemory", buffer=c_void_p, place=c_void_p, copy=c_void_p
)
def _copy(arguments: Any) -> None:
    buffer: Buffer = value_of(arguments.buffer)
    memory = memory_at(arguments.place)
    order, event = buffer.order, pending()
    storage = new_storage(memory.device, buffer.nbytes)

    def copy(array: Array) -> None:
        fill(storage, dense_copy(array, order))
        native_code().release_block(storage)

    code = native_code()
    code.retain(storage)
    code.retain(event)
    kind = BufferType(buffer.shape, order, buffer.number, buffer.nbytes)
    arguments.copy = new_cell(memory, kind, storage, event)
    buffer.then(copy, event)
