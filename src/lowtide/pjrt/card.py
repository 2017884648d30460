"""A graphics processor that the platform's device is.

Every array of the platform then lies there. It is copied to it when it comes from the host, and
back when its elements are asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any, Protocol, cast, final
from weakref import WeakValueDictionary

import numpy as np

from lowtide.backends.kept import kept
from lowtide.ir.gpu_names import EMULATED, GPU_PREFIX
from lowtide.ir.literal import ELEMENT_TYPES, Array
from lowtide.ir.shape import Layout, array_shape
from lowtide.options import Options
from lowtide.pjrt.card_memory import CardMemory
from lowtide.pjrt.errors import RESOURCE_EXHAUSTED, PluginError
from lowtide.pjrt.layouts import order_of
from lowtide.runtime.gpu.device_array import DeviceArray
from lowtide.runtime.gpu.driver import DeviceMemoryError, Driver


class CardUser(Protocol):
    """A program that has memory on the card, which it can do without between its calls."""

    def unload(self) -> None:
        """Give the memory back."""


@final
class Card:
    """A graphics processor by the name of a target, with what is loaded on it.

    `target` has its architecture. One thread at a time asks something of it, with `lock`. Raises
    DriverError where there is none, ValueError for a name that no target has.
    """

    def __init__(self, target: str) -> None:
        Options(target=target)
        driver = _driver(target)
        self.target = target
        if target == GPU_PREFIX:
            self.target = f"{GPU_PREFIX}:{cast(Any, driver).architecture}"
        self.name = driver.name
        self.memory = CardMemory(driver, self._unload_one)
        self.driver = cast(Driver, self.memory)
        self.lock = RLock()
        self._stream = self.driver.stream()
        self._arrays: WeakValueDictionary[int, DeviceArray] = WeakValueDictionary()
        self._users: WeakValueDictionary[int, CardUser] = WeakValueDictionary()
        """What has memory there, the one that was used last at the end, by its id."""
        self._running: CardUser | None = None

    @property
    def nbytes(self) -> int:
        """How much memory it has."""
        with self.lock:
            self.driver.use()
            return self.driver.room()[1]

    @contextmanager
    def used_by(self, user: CardUser) -> Iterator[None]:
        """Have the card for one user, who alone keeps its memory where others need some."""
        with self.lock:
            self._users.pop(id(user), None)
            self._users[id(user)] = self._running = user
            try:
                yield
            finally:
                self._running = None

    def _unload_one(self) -> bool:
        for user in list(self._users.values()):
            if user is not self._running:
                self._users.pop(id(user))
                user.unload()
                return True
        return False

    def placed(self, array: Array | DeviceArray) -> DeviceArray:
        """Return an array as one of the card, in the order in which it lies.

        Raises PluginError where there is no memory for it, and DriverError.
        """
        if isinstance(array, DeviceArray):
            self._arrays[array.address] = array
            return array
        order = order_of(array)
        shape = array_shape(ELEMENT_TYPES[array.dtype], array.shape, Layout(order))
        if not array.nbytes:
            return DeviceArray(self.driver, 0, shape)
        laid = np.ascontiguousarray(array.transpose(order[::-1])).reshape(-1).view(np.uint8)
        with self.lock:
            self.driver.use()
            found = DeviceArray(self.driver, self._allocated(laid.nbytes), shape)
            self.driver.upload(found.address, laid, self._stream)
            self.driver.synchronize(self._stream)
        self._arrays[found.address] = found
        return found

    def _allocated(self, nbytes: int) -> int:
        try:
            return self.driver.allocate(nbytes)
        except DeviceMemoryError as error:
            found = f"no memory for an array of {nbytes:,} bytes on {self.name}: {error}"
            raise PluginError(RESOURCE_EXHAUSTED, found) from None

    def array_at(self, address: int) -> DeviceArray:
        """Return the array of the platform that begins at an address, which has elements."""
        return self._arrays[address]

    def fetched(self, array: DeviceArray) -> Array:
        """Return a copy of an array on the host, in the order in which it lies."""
        data = np.empty(array.nbytes, np.uint8)
        if data.size:
            with self.lock:
                self.driver.use()
                self.driver.download(data, array.address, self._stream)
                self.driver.synchronize(self._stream)
        return np.ndarray(array.shape, array.dtype, data, strides=array.strides)


def _driver(target: str) -> Driver:
    if target == EMULATED:
        from lowtide.emulator.device import EmulatedDriver

        return EmulatedDriver()
    from lowtide.runtime.gpu.cuda import CudaDriver

    return CudaDriver(kept("cubins", Options()))
