"""A device that is not there: memory of the host, and streams whose work a seed puts in an order.

Work is done as late and in as strange an order as a device may (`queues.py`), so that a wait that
was left out is found as a wrong result for some seeds; and each access is held against earlier ones
(`shadow.py`), so that it is found as a race as well. New memory is full of bytes that make NaNs;
around each allocation lie others, which must stay as they are.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from time import perf_counter
from typing import Final, final

import numpy as np

from lowtide.emulator.queues import Queues
from lowtide.emulator.running import HostKernels
from lowtide.emulator.shadow import EmulationError, WatchedMoment
from lowtide.ir.thunk import GridLaunch
from lowtide.records import dataclass
from lowtide.runtime.cpu.program import Bytes
from lowtide.runtime.gpu.driver import HOST, Body, DeviceMemoryError, DriverError
from lowtide.runtime.gpu.execution import STREAMS, LoadedGpuProgram
from lowtide.runtime.gpu.program import GpuProgram

ALIGNMENT: Final = 256
"""What addresses of allocations are multiples of, as on a device."""

MOST_BLOCKS, MOST_THREADS = 1 << 31, 1 << 10
"""Blocks of a launch, and threads of a block, at most."""

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


@final
class EmulatedDriver:
    """A device emulated on the host; see `driver.Driver`."""

    def __init__(self, seed: int = 0, faults: DeviceFaults = NO_FAULTS) -> None:
        self.dlpack_device = HOST, 0
        self.decides = True
        self._is_closed = False
        self._faults = faults
        self._queues = Queues(seed)
        self._numbers = count(1)
        self._functions: dict[int, tuple[HostKernels, str]] = {}
        self._memory: dict[int, tuple[Bytes, int]] = {}
        """By address the bytes of an allocation with what lies around it, and its size."""
        self._bases: list[int] = []
        self._taken = self._launches = 0
        self._error: DriverError | None = None
        self._others: tuple[EmulatedDriver, ...] = ()
        """Devices whose memory kernels reach."""
        self._borrowed: dict[int, EmulatedDriver] = {}
        """By address the allocations of others that kernels were given."""

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

    def reach(self, devices: int) -> None:
        """Do nothing: the memory of those that it was made with is reached."""

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
        self._queues.shadow.add(address, nbytes)
        self._taken += nbytes
        return address

    def free(self, address: int) -> None:
        """Give memory back; raises EmulationError where work still uses it, or it is not there."""
        if self._is_closed:
            return
        if address not in self._memory:
            raise EmulationError(f"memory at {address:#x} is given back that is not allocated")
        for touched in self._queues.pending():
            if any(self._base(x) == address for x in touched):
                raise EmulationError("memory is given back that work in a stream still uses")
        self._check_zones(address)
        for other in self._others:
            other._give_back(address)
        self._queues.shadow.remove(address)
        self._taken -= self._memory.pop(address)[1]
        self._bases = sorted(self._memory)

    def host_memory(self, nbytes: int) -> Bytes:
        """Return memory of the host."""
        return np.full(nbytes, _POISON, np.uint8)

    def _give_back(self, address: int) -> None:
        """Forget an allocation of another device."""
        if self._borrowed.pop(address, None) is not None:
            self._queues.shadow.remove(address)

    def _reached(self, address: int) -> int:
        """The allocation that an address lies in, on this device or another; raises."""
        own = self._base(address)
        if own is not None:
            return own
        for other in self._others:
            base = other._base(address)
            if base is not None:
                if base not in self._borrowed:
                    self._borrowed[base] = other
                    self._queues.shadow.add(base, other._memory[base][1])
                return base
        raise EmulationError("an address of memory that is not there")

    def _base(self, address: int) -> int | None:
        """The own allocation that an address lies in, None where it lies in none."""
        at = bisect_right(self._bases, address) - 1
        if at < 0:
            return None
        base = self._bases[at]
        return base if address < base + self._memory[base][1] else None

    def _view(self, address: int, nbytes: int, moment: WatchedMoment, *, writes: bool) -> Bytes:
        """The bytes that a copy accesses; raises EmulationError where they are not all there."""
        base = self._base(address)
        if base is None or address + nbytes > base + self._memory[base][1]:
            raise EmulationError(f"{nbytes:,} bytes are accessed where not all are allocated")
        self._queues.shadow.access(base, address - base, nbytes, moment, writes)
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
        return self._queues.stream()

    def event(self) -> int:
        """Return a new event."""
        return self._queues.event()

    def record(self, event: int, stream: int) -> None:
        """Have an event happen once what is in a stream now is done."""
        self._check()
        self._queues.record(event, stream)

    def wait(self, event: int, stream: int) -> None:
        """Have what follows in a stream wait for an event; one never recorded has happened."""
        self._check()
        self._queues.wait(event, stream)

    def upload(self, address: int, data: Bytes, stream: int) -> None:
        """Copy bytes of the host, read as late as the copy is done, to the device."""
        self._check()

        def run(moment: WatchedMoment) -> None:
            self._view(address, data.nbytes, moment, writes=True)[:] = data

        self._queues.put(stream, run, (address,), f"an upload of {data.nbytes} bytes")

    def download(self, data: Bytes, address: int, stream: int) -> None:
        """Copy bytes of the device to the host."""
        self._check()

        def run(moment: WatchedMoment) -> None:
            data[:] = self._view(address, data.nbytes, moment, writes=False)

        self._queues.put(stream, run, (address,), f"a download of {data.nbytes} bytes")

    def copy(self, target: int, source: int, nbytes: int, stream: int) -> None:
        """Copy bytes within the device."""
        self._check()

        def run(moment: WatchedMoment) -> None:
            data = self._view(source, nbytes, moment, writes=False)
            self._view(target, nbytes, moment, writes=True)[:] = data

        self._queues.put(stream, run, (target, source), f"a copy of {nbytes} bytes")

    def launch(
        self, function: int, grid: tuple[int, int, int], addresses: Sequence[int], stream: int
    ) -> None:
        """Run a function, which is given addresses; see `GridLaunch.grid`."""
        self._check()
        kernels, symbol = self._functions[function]
        launch = GridLaunch(symbol, *grid)
        if not (1 <= grid[0] < MOST_BLOCKS and 1 <= grid[1] <= MOST_THREADS):
            raise EmulationError(f"{symbol} is launched by {grid[0]:,} blocks of {grid[1]:,}")
        self._launches += 1
        number = self._launches
        places = tuple([x for x in addresses if x])

        def run(moment: WatchedMoment) -> None:
            if number == self._faults.losing_launch:
                self._error = DriverError(f"{self.name} was lost while it ran {symbol}")
            if number == self._faults.failing_launch:
                self._error = DriverError(f"{symbol} failed on {self.name}: an illegal address")
            self._check()
            try:
                bases = list(dict.fromkeys([self._reached(x) for x in places]))
            except EmulationError as error:
                raise EmulationError(f"{symbol} is given {error}") from None
            kernels.launch_watched(launch, addresses, self._queues.shadow, bases, moment)
            for x in bases:
                self._borrowed.get(x, self)._check_zones(x)

        self._queues.put(stream, run, places, symbol)

    def synchronize(self, stream: int) -> None:
        """Return once all of a stream is done; raises DriverError for what failed meanwhile."""
        self._queues.synchronize(stream)
        self._check()

    def begin_capture(self, stream: int) -> None:
        """Capture what is put into a stream from now on."""
        self._queues.begin_capture(stream)

    def capture_loop(self, predicate: int, body: Body, stream: int) -> None:
        """Repeat what a body puts into a stream of its own while a byte is not 0."""

        def trips(moment: WatchedMoment) -> Iterator[int]:
            while self._view(predicate, 1, moment, writes=False)[0]:
                yield 0

        self._queues.capture_steps(stream, [body], trips, "a loop")

    def capture_branches(
        self, selector: int, is_byte: bool, bodies: Sequence[Body], stream: int
    ) -> None:
        """Do what one of the bodies puts into a stream of its own, as a selector says."""

        def chosen(moment: WatchedMoment) -> Iterator[int]:
            data = self._view(selector, 1 if is_byte else 4, moment, writes=False)
            number = int(data.view(np.bool_ if is_byte else np.int32)[0])
            last = len(bodies) - 1
            yield 1 - number if is_byte else number if 0 <= number <= last else last

        self._queues.capture_steps(stream, bodies, chosen, "a branch")

    def end_capture(self, stream: int) -> int:
        """Return what was captured as a graph."""
        return self._queues.end_capture(stream)

    def launch_graph(self, graph: int, stream: int) -> None:
        """Put all work of a graph into a stream."""
        self._check()
        self._queues.launch(graph, stream)

    def graph_seconds(self, graph: int, stream: int) -> float:
        """Return how long this host takes for a graph."""
        start = perf_counter()
        self.launch_graph(graph, stream)
        self.synchronize(stream)
        return perf_counter() - start

    def wait_for_stream(self, handle: int) -> None:
        """Do nothing: no other library has streams here."""

    def close(self) -> None:
        """Forget all memory and work."""
        self._memory, self._bases, self._taken = {}, [], 0
        self._queues.close()
        self._is_closed = True

    def _check(self) -> None:
        if self._error is not None:
            raise self._error


def emulated_devices(count: int, seed: int = 0) -> list[EmulatedDriver]:
    """Return devices whose kernels reach the memory of one another."""
    found = [EmulatedDriver(seed + i) for i in range(count)]
    for one in found:
        one._others = tuple([x for x in found if x is not one])
    return found


def on_emulated_device(
    program: GpuProgram, seed: int = 0, streams: int = STREAMS
) -> LoadedGpuProgram:
    """Return a program on a device of its own that is emulated; seeds are orders of work."""
    return LoadedGpuProgram(program, EmulatedDriver(seed), streams)
