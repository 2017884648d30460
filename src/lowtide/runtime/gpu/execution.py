"""Programs of graphics processors on a device: memory once, then copies and launches in streams.

What the host has to decide, the trips of a loop, the branch that is taken, and what needs other
devices stand between sequences: the streams join before it, and go on after it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, Final, TypeAlias, final

import numpy as np

from lowtide.ir.buffer import AllocationKind, BufferSlice
from lowtide.ir.errors import InputError
from lowtide.ir.literal import DTYPES
from lowtide.ir.shape import Shape
from lowtide.ir.thunk import (
    CollectiveThunk,
    ConditionalThunk,
    CopyThunk,
    KernelThunk,
    Thunk,
    WhileThunk,
)
from lowtide.runtime.cpu.arguments import as_array, in_memory_order, major_to_minor
from lowtide.runtime.cpu.program import Bytes, nested
from lowtide.runtime.gpu.collectives import DeviceCollectives
from lowtide.runtime.gpu.device_array import DeviceArray, Resident, resident
from lowtide.runtime.gpu.driver import DeviceMemoryError, Driver
from lowtide.runtime.gpu.program import GpuProgram
from lowtide.runtime.gpu.sequences import DeviceStep, PlannedSteps, Sequences
from lowtide.runtime.gpu.streams import Touched

STREAMS: Final = 4
"""How many streams a program has."""

Seen: TypeAlias = "Callable[[KernelThunk | CopyThunk, list[Bytes]], None]"
"""Is shown what a step has written."""


@final
class LoadedGpuProgram:
    """A program on a device, which a call at a time runs.

    A call takes arrays, one for each array of the parameters, and returns what the program does. It
    has its memory on the device until it is closed. With `graphs` sequences of steps become graphs
    of the device when they are run again.
    """

    def __init__(
        self, program: GpuProgram, driver: Driver, streams: int = STREAMS, graphs: bool = True
    ) -> None:
        self.program, self.driver = program, driver
        driver.use()
        self._functions = driver.load(program)
        self._sequences = Sequences(driver, streams, graphs)
        self._bases: list[int] = []
        self._planned: dict[tuple[int, int], PlannedSteps] = {}
        self._given: dict[int, Bytes | Resident] = {}
        """By allocation the argument of the call."""
        self._made: list[Bytes | int] = []
        """Of each result the bytes on the host, or the address on the device, that it goes to."""
        self._seen: Seen | None = None
        self._lock = Lock()
        self._collectives: DeviceCollectives | None = None
        try:
            self._allocate()
        except DeviceMemoryError:
            self.close()
            raise DeviceMemoryError(_too_little(program, driver)) from None
        except BaseException:
            self.close()
            raise
        for index, values in program.constants:
            driver.upload(self._bases[index], values, self._first)
        driver.synchronize(self._first)
        places = [
            BufferSlice(x.allocation, 0, x.shape.nbytes)
            for x in program.interface.arguments
            if x.allocation >= 0 and x.shape.nbytes
        ]
        results = [(i, x.place) for i, x in enumerate(program.interface.results) if x.place.nbytes]
        plan = self._sequences.planned
        self._uploads = plan([self._upload(x) for x in places], is_fixed=False)
        self._downloads = plan([self._download(i, x) for i, x in results], is_fixed=False)

    def _allocate(self) -> None:
        for memory in self.program.interface.memories:
            self._bases.append(self.driver.allocate(memory.nbytes) if memory.nbytes else 0)
        if self.program.first_collective:
            functions, first = self._functions, self._first
            self._collectives = DeviceCollectives(self.program, self.driver, functions, first)

    @property
    def _first(self) -> int:
        return self._sequences.streams[0]

    def close(self) -> None:
        """Give the memory on the device back."""
        self.driver.use()
        for base in filter(None, self._bases):
            self.driver.free(base)
        self._bases = []
        if self._collectives is not None:
            self._collectives.close()

    def __call__(self, *arrays: Any, keep: bool = False) -> Any:
        """Run the program; raises InputError for arguments that do not fit, DriverError.

        Arguments may lie on the device. With `keep` results stay there, as `DeviceArray`s.
        """
        with self._lock:
            self._place(arrays)
            self._run(self.program.thunks)
            return self.fetch(keep=keep)

    def place(self, *arrays: Any) -> None:
        """Copy arguments to the device, the first third of a call; raises as a call does."""
        self._place(arrays)
        self.wait()  # The bytes of the caller are read by then.

    def _place(self, arrays: Sequence[Any]) -> None:
        self.driver.use()
        self._given = self._checked(arrays)
        self._sequences.start(self._uploads)

    def run(self) -> None:
        """Start what a call does between its copies, on arguments that are there or what is left.

        It does not wait for the end; a program that overwrites its arguments goes on with that.
        """
        self._run(self.program.thunks)

    def run_in_turn(self, seen: Seen) -> None:
        """Do what `run` does step by step, each after all is done; show what each has written."""
        self._seen = seen
        try:
            self._run(self.program.thunks)
        finally:
            self._seen = None

    def fetch(self, *, keep: bool = False) -> Any:
        """Return the results of what was run last, nested as a call returns them."""
        interface, driver = self.program.interface, self.driver
        sizes = [x.place.nbytes for x in interface.results]
        self._made = [
            (driver.allocate(x) if x else 0) if keep else np.empty(x, np.uint8) for x in sizes
        ]
        self._sequences.start(self._downloads)
        self.wait()
        made, self._made, self._given = self._made, [], {}
        results = [
            DeviceArray(driver, x, result.shape) if isinstance(x, int) else _array(x, result.shape)
            for result, x in zip(interface.results, made, strict=True)
        ]
        return nested(interface.structure, results)

    def wait(self) -> None:
        """Return once all that was started is done; raises DriverError for what failed."""
        self._sequences.wait()

    def _checked(self, arrays: Sequence[Any]) -> dict[int, Bytes | Resident]:
        """By allocation each argument that the program reads; raises InputError."""
        arguments = self.program.interface.arguments
        if len(arrays) != len(arguments):
            count = len(arguments)
            raise InputError(f"the program takes {count} arrays, {len(arrays)} were given")
        found: dict[int, Bytes | Resident] = {}
        for argument, given in zip(arguments, arrays, strict=True):
            there = resident(argument, given, self.driver)
            if there is not None:
                found[argument.allocation] = there
                continue
            array = as_array(argument, given)
            if argument.allocation >= 0 and array.nbytes:
                laid = in_memory_order(argument, array)
                found[argument.allocation] = laid.reshape(-1).view(np.uint8)
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
                case CollectiveThunk():
                    self.wait()
                    assert self._collectives is not None
                    self._collectives.run(thunk, self._address)
                case None:
                    pass
                case _:
                    raise AssertionError(thunk)

    def _run_stretch(self, thunks: Sequence[Thunk], start: int, end: int) -> None:
        if self._seen is not None:
            for thunk in thunks[start:end]:
                assert isinstance(thunk, KernelThunk | CopyThunk)
                self._step(thunk).start(self._first)
                self._seen(thunk, [self._read(x) for x in written_by(thunk)])
            return
        key = id(thunks), start  # The program holds its thunks, so that none take their place.
        planned = self._planned.get(key)
        if planned is None:
            steps = [self._step(x) for x in thunks[start:end]]
            planned = self._planned[key] = self._sequences.planned(steps, is_fixed=True)
        self._sequences.start(planned)

    # -- steps ---------------------------------------------------------------------------------

    def _address(self, place: BufferSlice) -> int:
        return self._bases[place.allocation] + place.offset if place.nbytes else 0

    def _step(self, thunk: Thunk) -> DeviceStep:
        driver = self.driver
        if isinstance(thunk, CopyThunk):
            target, source = self._address(thunk.target), self._address(thunk.source)
            nbytes = thunk.source.nbytes

            def copy(stream: int) -> None:
                driver.copy(target, source, nbytes, stream)

            return DeviceStep(copy, Touched((thunk.source,), (thunk.target,)))
        assert isinstance(thunk, KernelThunk)
        scratch = () if thunk.scratch is None else (thunk.scratch,)
        addresses = [self._address(x) for x in (*thunk.buffers, *scratch)]
        addresses += [0] * (len(thunk.buffers) + 1 - len(addresses))
        launches = [
            (self._functions[x.function], x.grid)
            for x in self.program.kernels[thunk.kernel].launches
        ]

        def launch(stream: int) -> None:
            for function, grid in launches:
                driver.launch(function, grid, addresses, stream)

        reads, writes = thunk.buffers[: thunk.results], thunk.buffers[thunk.results :]
        return DeviceStep(launch, Touched(reads, (*writes, *scratch)))

    def _upload(self, place: BufferSlice) -> DeviceStep:
        base, driver = self._bases[place.allocation], self.driver

        def upload(stream: int) -> None:
            given = self._given[place.allocation]
            if isinstance(given, Resident):
                driver.copy(base, given.address, given.nbytes, stream)
            else:
                driver.upload(base, given, stream)

        return DeviceStep(upload, Touched((), (place,)))

    def _download(self, number: int, place: BufferSlice) -> DeviceStep:
        address, driver = self._address(place), self.driver

        def download(stream: int) -> None:
            made = self._made[number]
            if isinstance(made, int):
                driver.copy(made, address, place.nbytes, stream)
            else:
                driver.download(made, address, stream)

        return DeviceStep(download, Touched((place,), ()))

    # -- decisions of the host -----------------------------------------------------------------

    def _read(self, place: BufferSlice) -> Bytes:
        """The bytes of a place once all that was started is done."""
        data = np.empty(place.nbytes, np.uint8)
        if not place.nbytes:
            return data
        self.driver.download(data, self._address(place), self._first)
        self.driver.synchronize(self._first)
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
