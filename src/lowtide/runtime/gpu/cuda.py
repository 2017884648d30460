"""The CUDA driver, by the package cuda-bindings: no toolkit is needed, only NVIDIA's driver.

Its calls are held against the names of the package by a test, which needs no device.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, final

import numpy as np

from lowtide.runtime.cpu.program import Bytes
from lowtide.runtime.gpu.assembling import AssemblerError, CubinCache, assembler
from lowtide.runtime.gpu.cuda_calls import CudaCalls
from lowtide.runtime.gpu.cuda_choices import OLDEST, PACKAGE, CudaChoices
from lowtide.runtime.gpu.driver import CUDA, Body, DriverError
from lowtide.runtime.gpu.program import GpuProgram
from lowtide.runtime.gpu.stretches import MOST_DEPTH, asks

_OTHER_CODE: Final = ("invalid_image", "no_binary_for_gpu", "invalid_source", "not_supported")
"""What a driver says of machine code that a newer ptxas made than it knows."""


@final
class CudaDriver:
    """A device by its number; see `driver.Driver`.

    Raises DriverError where there is no package, no driver, one that is too old, or no such device.
    """

    def __init__(self, cached: CubinCache, number: int = 0) -> None:
        self.calls = CudaCalls(number)
        self.decides = self.calls.number >= OLDEST and self.calls.cuda.CUDA_VERSION >= PACKAGE
        self.dlpack_device = CUDA, number
        self._cached = cached
        self._numbered: dict[int, Any] = {}
        """Functions, streams and events of the driver, by the number that callers know."""
        self._names: dict[int, str] = {}
        """The symbols of functions, by number."""
        self._kept: dict[int, list[Any]] = {}
        """By stream what its work reads or writes on the host, until it is waited for."""
        self._made = 0
        self._choices: CudaChoices | None = None
        self._inner: list[int] = []
        """Streams of loops and branches within graphs, by depth."""
        self._depth = 0
        self._is_closed = False
        self._closing: list[tuple[str, Any]] = []
        """What has to be given back at the end: the function that does it, and the thing."""

    @property
    def name(self) -> str:
        """What the device is called."""
        return self.calls.name

    @property
    def architecture(self) -> str:
        """The newest architecture that code can be made for and the device runs."""
        return self.calls.architecture

    def use(self) -> None:
        """Make the device that of this thread."""
        self.calls.use()

    def reach(self, devices: int) -> None:
        """Have kernels reach the memory of the first so many devices; raises DriverError."""
        self.calls.reach(devices)

    def load(self, program: GpuProgram) -> Mapping[str, int]:
        """Return the functions of a program's kernels, by symbol.

        Without ptxas, or where the driver is older than the machine code, the driver itself
        assembles the kernels. Raises AssemblerError for a kernel above the limits of a block.
        """
        if not program.texts:
            return {}
        if self.decides and asks(program.thunks):
            self._get_ready()
        module = self._module(program)
        self._closing.append(("cuModuleUnload", module))
        launches = [x for kernel in program.kernels for x in kernel.launches]
        found = {}
        for name, shared_bytes in dict.fromkeys([(x.function, x.shared_bytes) for x in launches]):
            function = self.calls("cuModuleGetFunction", module, name.encode())
            number = found[name] = self._number(function)
            self._names[number] = name
            if shared_bytes:
                most = self.calls.cuda.CUfunction_attribute
                asked = most.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
                self.calls("cuFuncSetAttribute", function, asked, shared_bytes)
        return found

    def _module(self, program: GpuProgram) -> Any:
        try:
            assembler()
        except AssemblerError:
            return self._loaded(program.ptx().encode() + b"\0")
        image = program.assembled(self._cached).image
        try:
            return self._loaded(image)
        except DriverError as error:
            if not any(x in str(error) for x in _OTHER_CODE):
                raise
        return self._loaded(program.ptx().encode() + b"\0")

    def _loaded(self, image: bytes) -> Any:
        held = np.frombuffer(image, np.uint8)
        return self.calls("cuModuleLoadData", held.ctypes.data)

    def _number(self, found: Any) -> int:
        self._made += 1
        self._numbered[self._made] = found
        return self._made

    # -- memory --------------------------------------------------------------------------------

    def allocate(self, nbytes: int) -> int:
        """Return the address of new memory; raises DeviceMemoryError."""
        return int(self.calls("cuMemAlloc", nbytes))

    def room(self) -> tuple[int, int]:
        """Return how many bytes are free, and how many there are."""
        return self.calls.free_bytes()

    def free(self, address: int) -> None:
        """Give memory back, also after the device is."""
        if self._is_closed:
            return
        self.calls.use()
        self.calls("cuMemFree", address)

    def host_memory(self, nbytes: int) -> Bytes:
        """Return page-locked memory of the host, there until the device closes."""
        place = self.calls("cuMemHostAlloc", nbytes, 0)
        self._closing.append(("cuMemFreeHost", place))
        found: Bytes = np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(int(place)))
        return found

    # -- streams -------------------------------------------------------------------------------

    def stream(self) -> int:
        """Return a new stream, which does not wait for the default one."""
        flags = self.calls.cuda.CUstream_flags.CU_STREAM_NON_BLOCKING
        made = self.calls("cuStreamCreate", int(flags))
        self._closing.append(("cuStreamDestroy", made))
        number = self._number(made)
        self._kept[number] = []
        return number

    def event(self) -> int:
        """Return a new event, which keeps no time."""
        flags = self.calls.cuda.CUevent_flags.CU_EVENT_DISABLE_TIMING
        made = self.calls("cuEventCreate", int(flags))
        self._closing.append(("cuEventDestroy", made))
        return self._number(made)

    def record(self, event: int, stream: int) -> None:
        """Have an event happen once what is in a stream now is done."""
        self.calls("cuEventRecord", self._numbered[event], self._numbered[stream])

    def wait(self, event: int, stream: int) -> None:
        """Have what follows in a stream wait for an event."""
        self.calls("cuStreamWaitEvent", self._numbered[stream], self._numbered[event], 0)

    def upload(self, address: int, data: Bytes, stream: int) -> None:
        """Copy bytes of the host to the device."""
        place = self._keep(data, stream)
        self.calls("cuMemcpyHtoDAsync", address, place, data.nbytes, self._numbered[stream])

    def download(self, data: Bytes, address: int, stream: int) -> None:
        """Copy bytes of the device to the host."""
        place = self._keep(data, stream)
        self.calls("cuMemcpyDtoHAsync", place, address, data.nbytes, self._numbered[stream])

    def _keep(self, data: Bytes, stream: int) -> int:
        self._kept[stream].append(data)
        return int(data.ctypes.data)

    def copy(self, target: int, source: int, nbytes: int, stream: int) -> None:
        """Copy bytes within the device."""
        self.calls("cuMemcpyDtoDAsync", target, source, nbytes, self._numbered[stream])

    def launch(
        self, function: int, grid: tuple[int, int, int], addresses: Sequence[int], stream: int
    ) -> None:
        """Run a function, which is given addresses; see `GridLaunch.grid`."""
        self.calls.running = self._names[function]
        self._start(self._numbered[function], grid, addresses, self._numbered[stream])

    def _start(
        self, function: Any, grid: tuple[int, int, int], numbers: Sequence[int], stream: Any
    ) -> None:
        blocks, threads, shared_bytes = grid
        given = (ctypes.c_uint64 * len(numbers))(*numbers)
        start, size = ctypes.addressof(given), ctypes.sizeof(ctypes.c_uint64)
        places = [start + i * size for i in range(len(numbers))]
        pointers = (ctypes.c_void_p * len(places))(*places)
        self.calls(
            "cuLaunchKernel",
            function,
            *(blocks, 1, 1),
            *(threads, 1, 1),
            shared_bytes,
            stream,
            ctypes.addressof(pointers),
            0,
        )

    def begin_capture(self, stream: int) -> None:
        """Capture what is put into a stream from now on."""
        modes = self.calls.cuda.CUstreamCaptureMode
        mode = modes.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        self.calls("cuStreamBeginCapture", self._numbered[stream], mode)

    def capture_loop(self, predicate: int, body: Body, stream: int) -> None:
        """Repeat what a body puts into a stream of its own while a byte is not 0."""
        assert self._choices is not None
        with self._within() as inner:
            own, outer = self._numbered[inner], self._numbered[stream]
            self._choices.loop(outer, own, predicate, lambda: body(inner))

    def capture_branches(
        self, selector: int, is_byte: bool, bodies: Sequence[Body], stream: int
    ) -> None:
        """Do what one of the bodies puts into a stream of its own, as a selector says."""
        assert self._choices is not None
        with self._within() as inner:
            given = [partial(body, inner) for body in bodies]
            own, outer = self._numbered[inner], self._numbered[stream]
            self._choices.branches(outer, own, selector, is_byte, given)

    def _get_ready(self) -> None:
        """Make what loops and branches take, which cannot be made while work is captured."""
        if self._choices is None:
            self._choices = CudaChoices(self.calls, self._start_one)
            self._closing.append(("cuModuleUnload", self._choices.module))
            self._inner = [self.stream() for _ in range(MOST_DEPTH + 1)]

    def _start_one(self, function: Any, numbers: Sequence[int], stream: Any) -> None:
        """Start a function by one thread."""
        self._start(function, (1, 1, 0), numbers, stream)

    @contextmanager
    def _within(self) -> Iterator[int]:
        """A stream for what lies within loops and branches, one for each depth."""
        self._depth += 1
        try:
            yield self._inner[self._depth - 1]
        finally:
            self._depth -= 1

    def end_capture(self, stream: int) -> int:
        """Return what was captured as a graph."""
        captured = self.calls("cuStreamEndCapture", self._numbered[stream])
        made = self.calls("cuGraphInstantiate", captured, 0)
        self.calls("cuGraphDestroy", captured)
        self._closing.append(("cuGraphExecDestroy", made))
        return self._number(made)

    def launch_graph(self, graph: int, stream: int) -> None:
        """Do all that a graph holds."""
        self.calls("cuGraphLaunch", self._numbered[graph], self._numbered[stream])

    def graph_seconds(self, graph: int, stream: int) -> float:
        """Return how long a graph takes on the device; nothing else is in the stream."""
        flags = self.calls.cuda.CUevent_flags.CU_EVENT_DEFAULT
        events = [self.calls("cuEventCreate", int(flags)) for _ in range(2)]
        self.calls("cuEventRecord", events[0], self._numbered[stream])
        self.launch_graph(graph, stream)
        self.calls("cuEventRecord", events[1], self._numbered[stream])
        self.synchronize(stream)
        milliseconds = self.calls("cuEventElapsedTime", *events)
        for event in events:
            self.calls("cuEventDestroy", event)
        return float(milliseconds) / 1e3

    def wait_for_stream(self, handle: int) -> None:
        """Return once all of a stream of another library is done: 1 and 2 are the default ones."""
        self.calls.use()
        self.calls("cuStreamSynchronize", self.calls.cuda.CUstream(handle))

    def synchronize(self, stream: int) -> None:
        """Return once all of a stream is done."""
        self.calls("cuStreamSynchronize", self._numbered[stream])
        self._kept[stream].clear()

    def close(self) -> None:
        """Give back what was made on the device, and this process's hold on it."""
        self.calls.use()
        for function, thing in reversed(self._closing):
            self.calls(function, thing)
        self._closing.clear()
        self._is_closed = True
        self.calls.close()
