"""The counter from which a program draws random numbers: each draw moves it on."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Final, final

from lowtide.ir.thunk import HostCall

COUNTER: Final = "lowtide_random_counter"
"""The target of calls that move the counter on; their configuration has by how much."""

_MASK_64: Final = 2**64 - 1


@final
class RandomCounter:
    """A counter of 128 bits, which begins at 0 and goes on from run to run of a program.

    Each device has one of its own, so that what it draws does not depend on who comes first;
    `device` is asked which one the calling thread is.
    """

    def __init__(self, device: Callable[[], int] = lambda: 0) -> None:
        self._device = device
        self._values: dict[int, int] = {}
        self._turn = threading.Lock()

    def advanced(self, delta: int) -> int:
        """Return the counter, and add `delta` to it."""
        device = self._device()
        with self._turn:
            value = self._values.get(device, 0)
            self._values[device] = (value + delta) % 2**128
        return value


class CounterCall:
    """A call that writes the counter, as u64[2] with the low half first, and moves it on."""

    def __init__(self, call: HostCall, counter: RandomCounter) -> None:
        self._delta = int(call.config)
        self._counter = counter

    def run(self, place: int) -> None:
        """Draw once, given the address of the address of the result."""
        address = ctypes.c_size_t.from_address(place).value
        halves = (ctypes.c_uint64 * 2).from_address(address)
        value = self._counter.advanced(self._delta)
        halves[0], halves[1] = value & _MASK_64, value >> 64
