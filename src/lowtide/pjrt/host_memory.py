"""Arrays of the host that become arrays of a device: shared where that is allowed, else copied."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from ctypes import c_int, c_size_t, c_void_p
from functools import cache
from math import prod
from typing import Any

import numpy as np

from lowtide.ir.literal import Array
from lowtide.native import make
from lowtide.pjrt.buffers import LINE, dense_copy, happened, new_buffer, numbers
from lowtide.pjrt.devices import PluginMemory, card, memory_at
from lowtide.pjrt.element_types import dtype_of
from lowtide.pjrt.layouts import Order, order_at, row_major, sizes_at
from lowtide.pjrt.native_code import immortal, native_code
from lowtide.pjrt.native_hosts import SMALL, ZERO_COPY, HostForm
from lowtide.pjrt.queues import queue_of
from lowtide.pjrt.table import serves


class HostMemory:
    """Memory of others, which NumPy reads; `free` is called when no array of it is left."""

    def __init__(self, address: int, nbytes: int, free: Callable[[], None]) -> None:
        self.__array_interface__ = {
            "version": 3,
            "data": (address, True),
            "shape": (nbytes,),
            "typestr": "|u1",
        }
        self._free = free

    def __del__(self) -> None:
        self._free()


def _nothing() -> None:
    pass


def _viewed(
    memory: tuple[int, Callable[[], None]],
    dtype: np.dtype[Any],
    sizes: Sequence[int],
    strides: Sequence[int],
) -> Array:
    """A read-only array over memory of others, with strides in bytes, which may be below 0.

    The memory is an address and what is called when the array is gone.
    """
    address, free = memory
    if 0 in sizes:
        free()
        return np.empty(sizes, dtype)
    ends = [(size - 1) * stride for size, stride in zip(sizes, strides, strict=True)]
    low = sum([x for x in ends if x < 0])
    nbytes = sum([x for x in ends if x > 0]) - low + dtype.itemsize
    block: Any = np.asarray(HostMemory(address + low, nbytes, free))
    return np.ndarray(tuple(sizes), dtype, block, -low, tuple(strides))


def _dense(sizes: Sequence[int], itemsize: int, order: Order) -> list[int]:
    """The strides of an array in an order, in bytes."""
    strides, step = [0] * len(sizes), itemsize
    for dimension in order:
        strides[dimension] = step
        step *= sizes[dimension]
    return strides


def _is_dense(sizes: Sequence[int], strides: Sequence[int], dense: Sequence[int]) -> bool:
    """Whether strides are those of a dense array; those of single elements mean nothing."""
    return all(x == y or size == 1 for size, x, y in zip(sizes, strides, dense, strict=True))


def _form(arguments: Any) -> tuple[list[int], np.dtype[Any], Order, PluginMemory]:
    """The sizes, element type and order that an array is to have, and where it is to lie."""
    sizes = numbers(arguments.dims, arguments.num_dims)
    order = order_at(arguments.layout, len(sizes))
    place = memory_at(arguments.memory or arguments.device)
    return sizes, dtype_of(arguments.type), order, place


@serves(
    "Client_BufferFromHostBuffer",
    client=c_void_p,
    data=c_void_p,
    type=c_int,
    dims=c_void_p,
    num_dims=c_size_t,
    byte_strides=c_void_p,
    num_byte_strides=c_size_t,
    semantics=c_int,
    device=c_void_p,
    memory=c_void_p,
    layout=c_void_p,
    done_with_host_buffer=c_void_p,
    buffer=c_void_p,
)
def _from_host(arguments: Any) -> None:
    sizes, dtype, order, place = _form(arguments)
    usual = _dense(sizes, dtype.itemsize, order_at(None, len(sizes)))
    strides = numbers(arguments.byte_strides, arguments.num_byte_strides) or usual
    dense = _is_dense(sizes, strides, _dense(sizes, dtype.itemsize, order))
    if arguments.semantics == ZERO_COPY and dense and arguments.data % LINE == 0 and all(sizes):
        code = native_code()
        event = code.new_event()
        code.retain(event)

        def done() -> None:
            code.complete(event, None)
            code.release(event)

        array = _viewed((arguments.data, done), dtype, sizes, strides)
        arguments.done_with_host_buffer = event
    else:
        array = dense_copy(_viewed((arguments.data, _nothing), dtype, sizes, strides), order)
        arguments.done_with_host_buffer = happened()
    arguments.buffer = new_buffer(array, arguments.type, place, happened(), order)
    if 0 < array.nbytes <= SMALL and order == row_major(len(sizes)) and card() is None:
        at = arguments.memory or arguments.device
        native_code().note_form(_form_at(at, arguments.type, tuple(sizes), array.nbytes))


@cache
def _form_at(place: int, number: int, sizes: tuple[int, ...], nbytes: int) -> int:
    """Return the address of a form, by which machine code sees to the next arrays of its kind."""
    memory = memory_at(place)
    form = make(
        HostForm,
        place=place,
        dimensions=sizes_at(sizes, row_major(len(sizes))),
        rank=len(sizes),
        number=number,
        nbytes=nbytes,
        itemsize=nbytes // prod(sizes),
        device=memory.device.address,
        memory=memory.address,
        queue=queue_of(memory.device).address,
        event=happened(),
    )
    return ctypes.addressof(immortal(form))


@serves(
    "Client_CreateViewOfDeviceBuffer",
    client=c_void_p,
    data=c_void_p,
    dims=c_void_p,
    num_dims=c_size_t,
    type=c_int,
    layout=c_void_p,
    device=c_void_p,
    on_delete=c_void_p,
    on_delete_argument=c_void_p,
    stream=c_void_p,
    buffer=c_void_p,
    memory=c_void_p,
)
def _view(arguments: Any) -> None:
    sizes, dtype, order, place = _form(arguments)
    data, given = arguments.data, arguments.on_delete_argument
    free = _nothing
    if arguments.on_delete:
        delete: Any = ctypes.CFUNCTYPE(None, c_void_p, c_void_p)(arguments.on_delete)

        def free() -> None:
            delete(data, given)

    strides = _dense(sizes, dtype.itemsize, order)
    array = _viewed((data, free), dtype, sizes, strides)
    arguments.buffer = new_buffer(array, arguments.type, place, happened(), order)
