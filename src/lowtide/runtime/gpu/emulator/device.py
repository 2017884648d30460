"""A device that is not there: memory of the host, and streams whose work a seed puts in an order.

Work is done as late and in as strange an order as a device may: whenever something is put into a
stream or waited for, a stream is drawn, fast ones more often, and what is first in it is done if it
waits for nothing. So a wait that was left out is found as a wrong result for some seeds. New memory
is full of bytes that make NaNs; around each allocation lie others, which must stay as they are.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from random import Random
from typing import Final, final

import numpy as np

from lowtide.ir.launch import GridLaunch
from lowtide.records import dataclass
from lowtide.runtime.cpu.program import Bytes
from lowtide.runtime.gpu.driver import DeviceMemoryError, DriverError
from lowtide.runtime.gpu.emulator.blocks import EmulationError
from lowtide.runtime.gpu.emulator.running import HostKernels
from lowtide.runtime.gpu.execution import STREAMS, LoadedGpuProgram
from lowtide.runtime.gpu.program import GpuProgram

ALIGNMENT: Final = 256
"""What addresses of allocations are multiples of, as on a device."""

_ZONE: Final = 512
"""Bytes before and behind an allocation that nothing may write."""

_POISON, _GUARD = 0xFF, 0xC3
"""The bytes of new memory, and of those around it."""


@dataclass(frozen=True, slots=True)
class DeviceFaults:
    """What goes wrong on an emulated device: its memory in bytes, and the launches that fail.

    Launches are counted from 1, in the order in which they are put into streams; 0 is none.
    """

    memory: int = 1 << 40
    failing_launch: int = 0
    losing_launch: int = 0


NO_FAULTS: Final = DeviceFaults()


@dataclass(slots=True, eq=False)
class _Work:
    """What is in a stream, the addresses that it touches, and the work that it comes after."""

    run: Callable[[], None]
    touches: tuple[int, ...] = ()
    after: _Work | None = None
    is_done: bool = False

    @property
    def may_run(self) -> bool:
        """Whether it waits for nothing."""
        return self.after is None or self.after.is_done


@final
class EmulatedDriver:
    """A device emulated on the host; see `driver.Driver`."""

    def __init__(self, seed: int = 0, faults: DeviceFaults = NO_FAULTS) -> None:
        self._random = Random(seed)
        self._faults = faults
        self._numbers = count(1)
        self._functions: dict[int, tuple[HostKernels, str]] = {}
        self._memory: dict[int, tuple[Bytes, int]] = {}
        """By address the bytes of an allocation with what lies around it, and its size."""
        self._bases: list[int] = []
        self._taken = self._launches = 0
        self._streams: dict[int, deque[_Work]] = {}
        self._speeds: dict[int, float] = {}
        """How often work of a stream is done, beside that of others."""
        self._events: dict[int, _Work | None] = {}
        self._error: DriverError | None = None

    @property
    def name(self) -> str:
        """What the device is called."""
        return "an emulated device"

    def use(self) -> None:
        """Do nothing: it is that of all threads."""

    def load(self, program: GpuProgram) -> Mapping[str, int]:
        """Return the functions of a program's kernels, by symbol."""
        if not program.kernels:
            return {}
        kernels = HostKernels(program)
        found = {}
        for function in [x.function for kernel in program.kernels for x in kernel.launches]:
            number = found[function] = next(self._numbers)
            self._functions[number] = kernels, function
        return found

    def room(self) -> tuple[int, int]:
        """Return how many bytes are free, and how many there are."""
        return self._faults.memory - self._taken, self._faults.memory

    # -- memory --------------------------------------------------------------------------------

    def allocate(self, nbytes: int) -> int:
        """Return the address of new memory, full of poison; raises DeviceMemoryError."""
        self._check()
        if nbytes > self.room()[0]:
            raise DeviceMemoryError(f"{nbytes:,} bytes are not free")
        whole = np.full(nbytes + 2 * _ZONE + ALIGNMENT, _GUARD, np.uint8)
        first = -whole.ctypes.data % ALIGNMENT + _ZONE
        whole[first : first + nbytes] = _POISON
        address = whole.ctypes.data + first
        self._memory[address] = whole, nbytes
        self._bases = sorted(self._memory)
        self._taken += nbytes
        return address

    def free(self, address: int) -> None:
        """Give memory back; raises EmulationError where work still uses it, or it is not there."""
        if address not in self._memory:
            raise EmulationError(f"memory at {address:#x} is given back that is not allocated")
        for work in [x for queue in self._streams.values() for x in queue]:
            if any(self._base(x) == address for x in work.touches):
                raise EmulationError("memory is given back that work in a stream still uses")
        self._check_zones(address)
        self._taken -= self._memory.pop(address)[1]
        self._bases = sorted(self._memory)

    def _base(self, address: int) -> int | None:
        """The allocation that an address lies in, None where it lies in none."""
        at = bisect_right(self._bases, address) - 1
        if at < 0:
            return None
        base = self._bases[at]
        return base if address < base + self._memory[base][1] else None

    def _view(self, address: int, nbytes: int) -> Bytes:
        base = self._base(address)
        if base is None or address + nbytes > base + self._memory[base][1]:
            raise EmulationError(f"{nbytes:,} bytes are accessed where not all are allocated")
        whole, _ = self._memory[base]
        start = address - whole.ctypes.data
        return whole[start : start + nbytes]

    def _check_zones(self, address: int) -> None:
        base = self._base(address)
        if base is None:
            return
        whole, nbytes = self._memory[base]
        start = base - whole.ctypes.data
        around = (whole[start - _ZONE : start], whole[start + nbytes : start + nbytes + _ZONE])
        if not all((x == _GUARD).all() for x in around):
            raise EmulationError("bytes before or behind an allocation are written")

    # -- streams -------------------------------------------------------------------------------

    def stream(self) -> int:
        """Return a new stream."""
        number = next(self._numbers)
        self._streams[number] = deque()
        self._speeds[number] = self._random.choice(_SPEEDS)
        return number

    def event(self) -> int:
        """Return a new event."""
        number = next(self._numbers)
        self._events[number] = None
        return number

    def record(self, event: int, stream: int) -> None:
        """Have an event happen once what is in a stream now is done."""
        self._events[event] = self._put(stream, _Work(lambda: None))

    def wait(self, event: int, stream: int) -> None:
        """Have what follows in a stream wait for an event; one never recorded has happened."""
        self._put(stream, _Work(lambda: None, after=self._events[event]))

    def upload(self, address: int, data: Bytes, stream: int) -> None:
        """Copy bytes of the host, read as late as the copy is done, to the device."""

        def run() -> None:
            self._view(address, data.nbytes)[:] = data

        self._put(stream, _Work(run, (address,)))

    def download(self, data: Bytes, address: int, stream: int) -> None:
        """Copy bytes of the device to the host."""

        def run() -> None:
            data[:] = self._view(address, data.nbytes)

        self._put(stream, _Work(run, (address,)))

    def copy(self, target: int, source: int, nbytes: int, stream: int) -> None:
        """Copy bytes within the device."""

        def run() -> None:
            self._view(target, nbytes)[:] = self._view(source, nbytes)

        self._put(stream, _Work(run, (target, source)))

    def launch(
        self, function: int, grid: tuple[int, int], addresses: Sequence[int], stream: int
    ) -> None:
        """Run a function by a number of blocks of a number of threads."""
        kernels, symbol = self._functions[function]
        launch = GridLaunch(symbol, *grid)
        self._launches += 1
        number = self._launches
        places = tuple([x for x in addresses if x])

        def run() -> None:
            if number == self._faults.losing_launch:
                self._error = DriverError(f"{self.name} was lost while it ran {symbol}")
            if number == self._faults.failing_launch:
                self._error = DriverError(f"{symbol} failed on {self.name}: an illegal address")
            self._check()
            if any(self._base(x) is None for x in places):
                raise EmulationError(f"{symbol} is given an address of memory that is not there")
            kernels.launch(launch, addresses)
            for x in places:
                self._check_zones(x)

        self._put(stream, _Work(run, places))

    def synchronize(self, stream: int) -> None:
        """Return once all of a stream is done; raises DriverError for what failed meanwhile."""
        while self._streams[stream]:
            self._advance()
        self._check()

    def close(self) -> None:
        """Forget all memory and work."""
        self._memory, self._bases, self._taken = {}, [], 0
        self._streams, self._events = {}, {}

    def _put(self, stream: int, work: _Work) -> _Work:
        self._check()
        self._streams[stream].append(work)
        while self._random.random() < _EAGERNESS and self._advance():
            pass
        return work

    def _advance(self) -> bool:
        """Do what is first in some stream, if that may run; return whether anything could."""
        ready = [x for x, queue in self._streams.items() if queue and queue[0].may_run]
        if not ready:
            return False
        speeds = [self._speeds[x] for x in ready]
        queue = self._streams[self._random.choices(ready, speeds)[0]]
        work = queue.popleft()
        work.is_done, work.after = True, None
        work.run()
        return True

    def _check(self) -> None:
        if self._error is not None:
            raise self._error


_SPEEDS: Final = (1.0, 0.03, 0.001)
"""Slow streams fall far behind, so that what others should have waited for is not there."""

_EAGERNESS: Final = 0.3
"""How likely it is that work is done when some is put into a stream, and then more of it."""


def on_emulated_device(
    program: GpuProgram, seed: int = 0, streams: int = STREAMS
) -> LoadedGpuProgram:
    """Return a program on a device of its own that is emulated; seeds are orders of work."""
    return LoadedGpuProgram(program, EmulatedDriver(seed), streams)
