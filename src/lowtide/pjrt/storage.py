"""Buffers as Python sees them: addresses of C, with an array that is made when it is asked for."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import c_int64
from functools import cache
from itertools import count
from typing import TYPE_CHECKING, Any, Final
from weakref import finalize

import numpy as np

from lowtide.ir.literal import Array
from lowtide.native import view
from lowtide.pjrt.blocks import HELD_STORAGE, BufferStorage, read_words
from lowtide.pjrt.devices import PluginMemory, card
from lowtide.pjrt.element_types import dtype_of
from lowtide.pjrt.errors import INVALID_ARGUMENT, PluginError, error_at, new_error
from lowtide.pjrt.handles import cell_of, hold, stand_in, value_of
from lowtide.pjrt.layouts import Order, order_behind, sizes_at
from lowtide.pjrt.native_code import immortal, native_code
from lowtide.records import dataclass

if TYPE_CHECKING:
    from lowtide.runtime.gpu.device_array import DeviceArray


class Buffer:
    """An array on a device, by the address of its cell; C++ owns it."""

    __slots__ = ("address",)

    def __init__(self, address: int) -> None:
        self.address = address

    @property
    def _cell(self) -> Any:
        return cell_of(self.address)

    @property
    def number(self) -> int:
        """The element type by PJRT's number."""
        return int(self._cell.number)

    @property
    def nbytes(self) -> int:
        """The bytes of all elements."""
        return int(self._cell.nbytes)

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the dimensions."""
        return tuple(read_words(self._cell.dimensions, self._cell.rank))

    @property
    def order(self) -> Order:
        """The order in which the dimensions lie."""
        return order_behind(self._cell.dimensions)

    @property
    def is_ready(self) -> bool:
        """Whether the array is there, or never will be."""
        return bool(native_code().has_happened(self._cell.event))

    def alive(self) -> Array:
        """Return the array once it is there.

        Raises PluginError where it was deleted, and what the program raised that was to make it.
        """
        code, storage = native_code(), self._borrowed()
        try:
            error = code.wait_for(self._cell.event)
            if error:
                raise error_at(error)
            return array_in(storage, dtype_of(self.number), self.shape)
        finally:
            code.release_block(storage)

    def then(self, function: Callable[[Array], None], event: int) -> None:
        """Have a function do something with the array once it is there, and then an event happen.

        The event fails as the array does, or as the function; a reference to it is taken over.
        Raises PluginError where the array was deleted.
        """
        code, storage = native_code(), self._borrowed()
        dtype, sizes = dtype_of(self.number), self.shape

        def go_on(failure: PluginError | None) -> None:
            error = None
            try:
                if failure is not None:
                    raise failure
                function(array_in(storage, dtype, sizes))
            except BaseException as found:
                error = new_error(found)
            code.release_block(storage)
            code.complete(event, error)
            code.release(event)

        when_ready(self._cell.event, go_on)

    def _borrowed(self) -> int:
        """A new reference to the storage; raises PluginError where there is none any more."""
        storage: int | None = native_code().borrow(self.address)
        if not storage:
            raise PluginError(INVALID_ARGUMENT, "Array has been deleted or donated.")
        return storage


stand_in(Buffer)


class _StorageOwner:
    """A reference to a storage of C's, as NumPy takes memory, until no array has it any more."""

    __slots__ = ("__array_interface__", "__weakref__")

    def __init__(self, storage: int, data: int, nbytes: int) -> None:
        self.__array_interface__ = {
            "shape": (nbytes,),
            "typestr": "|u1",
            "data": (data, False),
            "version": 3,
        }
        code = native_code()
        code.retain(storage)
        finalize(self, code.release_block, storage).atexit = False


def array_in(storage: int, dtype: np.dtype[Any], sizes: tuple[int, ...]) -> Array:
    """Return what a storage has, as an array that keeps the memory; a copy of what a card has."""
    block = view(BufferStorage, storage)
    if block.held == HELD_STORAGE:
        found: Array | DeviceArray = value_of(storage)
        if not isinstance(found, np.ndarray):
            place = card()
            assert place is not None
            return place.fetched(found)
        return found
    owner = _StorageOwner(storage, block.data, block.nbytes)
    return np.asarray(owner).view(dtype).reshape(sizes)


def when_ready(event: int, function: Callable[[PluginError | None], None]) -> None:
    """Call a function once an event has happened, maybe on another thread, with its error."""
    number = next(_numbers)
    _waiting[number] = function
    given = (c_int64 * 5)(40, 0, event, ctypes.cast(_ready, ctypes.c_void_p).value or 0, number)
    native_code().on_ready(ctypes.addressof(given))


def _call_waiting(error: int | None, number: int | None) -> None:
    _waiting.pop(number or 0)(error_at(error) if error else None)


_ready: Final[Any] = immortal(
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(_call_waiting)
)
_numbers: Final = count(1)
_waiting: Final[dict[int, Callable[[PluginError | None], None]]] = immortal({})


def fill(storage: int, array: Array | DeviceArray) -> None:
    """Have an array be what a storage has, where nothing was; with a card, its copy there."""
    code, block = native_code(), view(BufferStorage, storage)
    place = card()
    if place is not None:
        there = place.placed(array)
        block.held = HELD_STORAGE
        hold(storage, there)
        block.data = there.address
        code.account(block.queue, block.nbytes)
        return
    assert isinstance(array, np.ndarray)
    block.is_odd = not array.flags.c_contiguous
    block.held = HELD_STORAGE
    hold(storage, array)
    block.data = array.ctypes.data
    if array.flags.writeable:
        code.account(block.queue, block.nbytes)
        return
    block.parent = _others()
    code.retain(block.parent)


@cache
def _others() -> int:
    """The storage that memory of others counts as a part of, so that no call overwrites it."""
    storage: int = native_code().new_storage(None, None, 0, 0)
    return storage


@dataclass(frozen=True, slots=True)
class BufferType:
    """The type of a buffer: its sizes, the order in which they lie, element type and bytes.

    `number` is that of the element type in PJRT.
    """

    sizes: tuple[int, ...]
    order: Order
    number: int
    nbytes: int


def new_cell(memory: PluginMemory, kind: BufferType, storage: int, event: int) -> int:
    """Return the address of a new buffer; references to storage and event are taken over."""
    words = (c_int64 * 3)(sizes_at(kind.sizes, kind.order), len(kind.sizes), kind.number)
    device, at = memory.device.address, ctypes.addressof(words)
    address: int = native_code().new_cell(device, at, kind.nbytes, storage, event)
    cell_of(address).memory = memory.address
    return address
