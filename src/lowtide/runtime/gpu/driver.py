"""The form of a device for programs: memory, streams, events, copies and launches.

Two things have this form: the CUDA driver (`cuda.py`) and a device emulated on the host (of
`lowtide.emulator`). Addresses, streams and events are numbers that only the driver knows. Work is
put into streams and done later: work of one stream in turn, work of several in any order but for
events.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

from lowtide.ir.errors import LowtideError
from lowtide.runtime.cpu.program import Bytes
from lowtide.runtime.gpu.program import GpuProgram

HOST, CUDA = 1, 2
"""Kinds of devices as DLPack numbers them."""


Body: TypeAlias = "Callable[[int], None]"
"""Puts work into the stream that it is given."""


class DriverError(LowtideError):
    """A device that is not there, or does not do what it is told."""


class DeviceMemoryError(DriverError):
    """A device has less memory than is asked for."""


class Driver(Protocol):
    """A device; all methods raise DriverError for a device that is lost or fails."""

    dlpack_device: tuple[int, int]
    """Its kind as DLPack numbers them, `CUDA` or `HOST`, and its number."""

    decides: bool
    """Whether its graphs may have loops and branches."""

    @property
    def name(self) -> str:
        """What the device is called."""

    def use(self) -> None:
        """Make the device that of this thread, ahead of what it does next."""

    def reach(self, devices: int) -> None:
        """Have kernels read and write the memory of the first so many devices as their own."""

    def room(self) -> tuple[int, int]:
        """Return how many bytes are free, and how many there are; 0 where that is not known."""

    def load(self, program: GpuProgram) -> Mapping[str, int]:
        """Return the functions of a program's kernels, by symbol."""

    def allocate(self, nbytes: int) -> int:
        """Return the address of new memory, undefined; raises DeviceMemoryError."""

    def free(self, address: int) -> None:
        """Give memory back that no work uses any more."""

    def host_memory(self, nbytes: int) -> Bytes:
        """Return memory of the host that is copied to quickly, there until the device closes."""

    def stream(self) -> int:
        """Return a new stream."""

    def event(self) -> int:
        """Return a new event."""

    def record(self, event: int, stream: int) -> None:
        """Have an event happen once what is in a stream now is done."""

    def wait(self, event: int, stream: int) -> None:
        """Have what is put into a stream from now on wait for an event that was recorded."""

    def upload(self, address: int, data: Bytes, stream: int) -> None:
        """Copy bytes of the host, which stay as they are until that is done, to the device."""

    def download(self, data: Bytes, address: int, stream: int) -> None:
        """Copy bytes of the device to the host, where they are once the stream is waited for."""

    def copy(self, target: int, source: int, nbytes: int, stream: int) -> None:
        """Copy bytes within the device; the two places are disjoint."""

    def launch(
        self, function: int, grid: tuple[int, int, int], addresses: Sequence[int], stream: int
    ) -> None:
        """Run a function, which is given addresses; see `GridLaunch.grid`."""

    def begin_capture(self, stream: int) -> None:
        """Do not do what is put into a stream from now on, and into those that wait for it."""

    def capture_loop(self, predicate: int, body: Body, stream: int) -> None:
        """Repeat what a body puts into a stream of its own while the byte of an address is not 0.

        Within a capture only, and where the device `decides`.
        """

    def capture_branches(
        self, selector: int, is_byte: bool, bodies: Sequence[Body], stream: int
    ) -> None:
        """Do what one of the bodies puts into a stream of its own; see `ConditionalThunk`.

        What is at the address of the selector is read before that, and may be written over then.
        """

    def end_capture(self, stream: int) -> int:
        """Return what was put there since as a graph; all of it is waited for in the stream."""

    def launch_graph(self, graph: int, stream: int) -> None:
        """Do all that a graph holds, in any order that its waits allow."""

    def graph_seconds(self, graph: int, stream: int) -> float:
        """Return how long a graph takes on the device; nothing else is in the stream."""

    def wait_for_stream(self, handle: int) -> None:
        """Return once all is done that another library has put into a stream of its own."""

    def synchronize(self, stream: int) -> None:
        """Return once all of a stream is done."""

    def close(self) -> None:
        """Give back all that the device has of this process."""
