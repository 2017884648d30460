"""Programs of graphics processors on a device: memory once, then copies and launches in streams.

What the host has to decide, the trips of a loop and the branch that is taken, stands between
sequences: the streams join before it, and go on after it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, Final, NamedTuple, TypeAlias, final

import numpy as np

from lowtide.ir.buffer import AllocationKind, BufferSlice
from lowtide.ir.errors import InputError
from lowtide.ir.literal import DTYPES
from lowtide.ir.shape import Shape
from lowtide.ir.thunk import ConditionalThunk, CopyThunk, KernelThunk, Thunk, WhileThunk
from lowtide.runtime.cpu.arguments import as_array, in_memory_order, major_to_minor
from lowtide.runtime.cpu.program import Bytes, nested
from lowtide.runtime.gpu.driver import DeviceMemoryError, Driver
from lowtide.runtime.gpu.program import GpuProgram
from lowtide.runtime.gpu.streams import StreamStep, Touched, in_streams

STREAMS: Final = 4
"""How many streams a program has."""


class _Step(NamedTuple):
    """Work of a sequence: what puts it into a stream, and the bytes that it touches."""

    start: Callable[[int], None]
    touched: Touched


_Planned: TypeAlias = "tuple[tuple[_Step, ...], tuple[StreamStep, ...]]"


@final
class LoadedGpuProgram:
    """A program on a device, which a call at a time runs.

    A call takes arrays, one for each array of the parameters, and returns what the program does. It
    has its memory on the device until it is closed.
    """

    def __init__(self, program: GpuProgram, driver: Driver, streams: int = STREAMS) -> None:
        self.program, self.driver = program, driver
        driver.use()
        self._functions = driver.load(program)
        self._streams = [driver.stream() for _ in range(streams)]
        self._bases: list[int] = []
        self._events: list[int] = []
        self._planned: dict[tuple[int, int], _Planned] = {}
        self._seen: Callable[[KernelThunk | CopyThunk, list[Bytes]], None] | None = None
        self._lock = Lock()
        try:
            for memory in program.interface.memories:
                self._bases.append(driver.allocate(memory.nbytes) if memory.nbytes else 0)
        except DeviceMemoryError:
            self.close()
            raise DeviceMemoryError(_too_little(program, driver)) from None
        except BaseException:
            self.close()
            raise
        for index, values in program.constants:
            driver.upload(self._bases[index], values, self._streams[0])
        driver.synchronize(self._streams[0])

    def close(self) -> None:
        """Give the memory on the device back."""
        self.driver.use()
        for base in filter(None, self._bases):
            self.driver.free(base)
        self._bases = []

    def __call__(self, *arrays: Any) -> Any:
        """Run the program; raises InputError for arguments that do not fit, DriverError."""
        with self._lock:
            self._place(arrays)
            self._run(self.program.thunks)
            return self.fetch()

    def place(self, *arrays: Any) -> None:
        """Copy arguments to the device, the first third of a call; raises as a call does."""
        self._place(arrays)
        self.wait()  # The bytes of the caller are read by then.

    def _place(self, arrays: Sequence[Any]) -> None:
        self.driver.use()
        given = self._given(arrays)
        self._run_steps([self._upload(allocation, data) for allocation, data in given])

    def run(self) -> None:
        """Start what a call does between its copies, on arguments that are there or what is left.

        It does not wait for the end; a program that overwrites its arguments goes on with that.
        """
        self._run(self.program.thunks)

    def run_in_turn(self, seen: Callable[[KernelThunk | CopyThunk, list[Bytes]], None]) -> None:
        """Do what `run` does step by step, each after all is done; show what each has written."""
        self._seen = seen
        try:
            self._run(self.program.thunks)
        finally:
            self._seen = None

    def fetch(self) -> Any:
        """Return the results of what was run last, nested as a call returns them."""
        interface = self.program.interface
        made = [np.empty(x.place.nbytes, np.uint8) for x in interface.results]
        self._run_steps(
            [
                self._download(data, x.place)
                for x, data in zip(interface.results, made, strict=True)
                if x.place.nbytes
            ]
        )
        self.wait()
        results = [_array(data, x.shape) for x, data in zip(interface.results, made, strict=True)]
        return nested(interface.structure, results)

    def wait(self) -> None:
        """Return once all that was started is done; raises DriverError for what failed."""
        for stream in self._streams:
            self.driver.synchronize(stream)

    def _given(self, arrays: Sequence[Any]) -> list[tuple[int, Bytes]]:
        """The allocation and the bytes of each argument that the program reads."""
        arguments = self.program.interface.arguments
        if len(arrays) != len(arguments):
            count = len(arguments)
            raise InputError(f"the program takes {count} arrays, {len(arrays)} were given")
        found = []
        for argument, given in zip(arguments, arrays, strict=True):
            array = as_array(argument, given)
            if argument.allocation >= 0 and array.nbytes:
                laid = in_memory_order(argument, array)
                found.append((argument.allocation, laid.reshape(-1).view(np.uint8)))
        return found

    # -- sequences -----------------------------------------------------------------------------

    def _run(self, thunks: Sequence[Thunk]) -> None:
        """Run thunks; what the host decides stands between stretches without such decisions."""
        start = 0
        for at, thunk in enumerate((*thunks, None)):
            if isinstance(thunk, KernelThunk | CopyThunk):
                continue
            if start < at:
                self._run_stretch(thunks, start, at)
            start = at + 1
            match thunk:
                case WhileThunk():
                    self._run(thunk.condition)
                    while self._read(thunk.predicate)[0]:
                        self._run(thunk.body)
                        self._run(thunk.condition)
                case ConditionalThunk():
                    self._run(thunk.branches[self._branch(thunk)])
                case None:
                    pass
                case _:
                    raise AssertionError(thunk)

    def _run_stretch(self, thunks: Sequence[Thunk], start: int, end: int) -> None:
        if self._seen is not None:
            for thunk in thunks[start:end]:
                assert isinstance(thunk, KernelThunk | CopyThunk)
                self._step(thunk).start(self._streams[0])
                self._seen(thunk, [self._read(x) for x in written_by(thunk)])
            return
        key = id(thunks), start  # The program holds its thunks, so that none take their place.
        planned = self._planned.get(key)
        if planned is None:
            steps = [self._step(x) for x in thunks[start:end]]
            planned = tuple(steps), in_streams([x.touched for x in steps], len(self._streams))
            self._planned[key] = planned
        self._start(*planned)

    def _run_steps(self, steps: Sequence[_Step]) -> None:
        self._start(steps, in_streams([x.touched for x in steps], len(self._streams)))

    def _start(self, steps: Sequence[_Step], places: Sequence[StreamStep]) -> None:
        """Put steps into streams, with an event where one has to wait for another."""
        driver = self.driver
        needed = {x for place in places for x in place.waits}
        while len(self._events) < len(needed) + len(self._streams):
            self._events.append(driver.event())
        free = iter(self._events)
        events = {x: next(free) for x in sorted(needed)}
        used = dict.fromkeys([x.stream for x in places])
        for number, (step, place) in enumerate(zip(steps, places, strict=True)):
            stream = self._streams[place.stream]
            for other in place.waits:
                driver.wait(events[other], stream)
            step.start(stream)
            if number in events:
                driver.record(events[number], stream)
        self._join([self._streams[x] for x in used], free)

    def _join(self, used: Sequence[int], events: Any) -> None:
        """Have all streams go on after what is in those that were used."""
        ends = []
        for stream in used:
            event = next(events)
            self.driver.record(event, stream)
            ends.append((event, stream))
        for stream in self._streams:
            for event, other in ends:
                if stream != other:
                    self.driver.wait(event, stream)

    # -- steps ---------------------------------------------------------------------------------

    def _address(self, place: BufferSlice) -> int:
        return self._bases[place.allocation] + place.offset if place.nbytes else 0

    def _step(self, thunk: Thunk) -> _Step:
        driver = self.driver
        if isinstance(thunk, CopyThunk):
            target, source = self._address(thunk.target), self._address(thunk.source)
            nbytes = thunk.source.nbytes

            def copy(stream: int) -> None:
                driver.copy(target, source, nbytes, stream)

            return _Step(copy, Touched((thunk.source,), (thunk.target,)))
        assert isinstance(thunk, KernelThunk)
        scratch = () if thunk.scratch is None else (thunk.scratch,)
        addresses = [self._address(x) for x in (*thunk.buffers, *scratch)]
        addresses += [0] * (len(thunk.buffers) + 1 - len(addresses))
        launches = [
            (self._functions[x.function], (x.blocks, x.threads))
            for x in self.program.kernels[thunk.kernel].launches
        ]

        def launch(stream: int) -> None:
            for function, grid in launches:
                driver.launch(function, grid, addresses, stream)

        reads, writes = thunk.buffers[: thunk.results], thunk.buffers[thunk.results :]
        return _Step(launch, Touched(reads, (*writes, *scratch)))

    def _upload(self, allocation: int, data: Bytes) -> _Step:
        base, driver = self._bases[allocation], self.driver

        def upload(stream: int) -> None:
            driver.upload(base, data, stream)

        return _Step(upload, Touched((), (BufferSlice(allocation, 0, data.nbytes),)))

    def _download(self, data: Bytes, place: BufferSlice) -> _Step:
        address, driver = self._address(place), self.driver

        def download(stream: int) -> None:
            driver.download(data, address, stream)

        return _Step(download, Touched((place,), ()))

    # -- decisions of the host -----------------------------------------------------------------

    def _read(self, place: BufferSlice) -> Bytes:
        """The bytes of a place once all that was started is done."""
        data = np.empty(place.nbytes, np.uint8)
        if not place.nbytes:
            return data
        self.driver.download(data, self._address(place), self._streams[0])
        self.driver.synchronize(self._streams[0])
        return data

    def _branch(self, thunk: ConditionalThunk) -> int:
        selector = self._read(thunk.selector)
        if thunk.is_predicate:
            return 0 if selector[0] else 1
        number = int(selector.view(np.int32)[0])
        last = len(thunk.branches) - 1
        return number if 0 <= number <= last else last


def written_by(thunk: KernelThunk | CopyThunk) -> tuple[BufferSlice, ...]:
    """Return the slices that a step writes, its scratch left out."""
    return thunk.buffers[thunk.results :] if isinstance(thunk, KernelThunk) else (thunk.target,)


def _too_little(program: GpuProgram, driver: Driver) -> str:
    """What to tell of a program that does not fit."""
    given = (AllocationKind.ARGUMENT, AllocationKind.CONSTANT)
    memories = program.interface.memories
    fixed = sum([x.nbytes for x in memories if x.kind in given])
    arena = sum([x.nbytes for x in memories if x.kind not in given])
    free, whole = driver.room()
    said = (
        f"{driver.name} has {free:,} bytes free of {whole:,}; {program.name} takes {fixed:,} for "
        f"arguments and constants and {arena:,} for its arena"
    )
    if fixed >= free:
        return f"{said}: no plan fits"
    return f"{said}; --memory {free - fixed} makes a plan that fits, if there is one"


def _array(data: Bytes, shape: Shape) -> Any:
    """The bytes of a result as an array of its logical dimensions."""
    if not shape.element_count:
        return np.zeros(shape.dimensions, DTYPES[shape.element_type])
    order = major_to_minor(shape)
    sizes = [shape.dimensions[d] for d in order]
    back = np.argsort(order) if order else ()
    return data.view(DTYPES[shape.element_type]).reshape(sizes).transpose(back)
