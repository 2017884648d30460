"""The memory of a graphics processor: what arrays and programs gave back waits for the next ones.

To ask the driver for memory takes as long as a short program, and to give it back waits for all
work of the device. Streams are shared by all programs, of which one runs at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final, final

from lowtide.runtime.gpu.driver import DeviceMemoryError, Driver
from lowtide.runtime.gpu.execution import STREAMS
from lowtide.runtime.gpu.program import GpuProgram

GRAIN: Final = 512
"""Sizes of memory are rounded up to so many bytes, so that arrays of nearly equal size share it."""


@final
class CardMemory:
    """A device that keeps memory which was given back; all else is the driver's.

    `free` may be called at any time, also by the garbage collector within another call; all other
    functions are called by one thread at a time. `make_room` has something let go of its memory,
    and returns whether there was any.
    """

    def __init__(self, driver: Driver, make_room: Callable[[], bool]) -> None:
        self._driver, self._make_room = driver, make_room
        self._sizes: dict[int, int] = {}
        """By address the bytes of what is in use."""
        self._waiting: dict[int, list[int]] = {}
        """By size the addresses of what waits."""
        self._returned: deque[int] = deque()
        """What was given back since memory was asked for last."""
        self._streams: list[int] = []
        self._next_stream = 0
        self._functions: dict[int, Mapping[str, int]] = {}
        """By id of a program its functions on the device."""
        self._idle = self._used = self._peak = 0
        """Bytes that wait, that are in use, and the most of both at once."""

    def __getattr__(self, name: str) -> Any:
        """Anything else is the driver's own, of which functions are looked up once."""
        found = getattr(self._driver, name)
        if callable(found):
            setattr(self, name, found)
        return found

    def allocate(self, nbytes: int) -> int:
        """Return the address of memory, undefined; raises DeviceMemoryError."""
        size = -(-nbytes // GRAIN) * GRAIN
        self._take_back()
        waiting = self._waiting.get(size)
        if waiting:
            address = waiting.pop()
            self._idle -= size
        else:
            address = self._new(size)
        self._sizes[address] = size
        self._used += size
        self._peak = max(self._peak, self._used + self._idle)
        return address

    def free(self, address: int) -> None:
        """Have memory wait for who asks next; no work uses it any more."""
        self._returned.append(address)

    def stats(self) -> dict[str, int]:
        """Return the memory that was taken of the device, by the names of `memory_stats`."""
        return {"pool_bytes": self._used + self._idle, "peak_pool_bytes": self._peak}

    def _take_back(self) -> None:
        """Count what was given back as memory that waits."""
        while self._returned:
            address = self._returned.popleft()
            size = self._sizes.pop(address)
            self._waiting.setdefault(size, []).append(address)
            self._used -= size
            self._idle += size

    def _new(self, size: int) -> int:
        while True:
            try:
                return self._driver.allocate(size)
            except DeviceMemoryError:
                if not self._let_go() and not self._make_room():
                    raise

    def _let_go(self) -> bool:
        """Give all that waits back to the driver; whether there was any."""
        self._take_back()
        addresses = [x for found in self._waiting.values() for x in found]
        self._waiting.clear()
        self._idle = 0
        for address in addresses:
            self._driver.free(address)
        return bool(addresses)

    def load(self, program: GpuProgram) -> Mapping[str, int]:
        """Return the functions of a program, which are loaded once, until it is forgotten."""
        found = self._functions.get(id(program))
        if found is None:
            found = self._functions[id(program)] = self._driver.load(program)
        return found

    def forget(self, program: int) -> None:
        """Forget the functions of a program that is gone, by its id."""
        self._functions.pop(program, None)

    def stream(self) -> int:
        """Return one of a few streams; so many calls in a row return different ones."""
        if len(self._streams) < STREAMS:
            self._streams.append(self._driver.stream())
        found = self._streams[self._next_stream % STREAMS]
        self._next_stream += 1
        return found
