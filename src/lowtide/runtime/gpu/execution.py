"""Programs of graphics processors on a device: memory once, then copies and launches in streams."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Any, Final, final

import numpy as np

from lowtide.ir.buffer import AllocationKind, BufferSlice
from lowtide.ir.errors import InputError
from lowtide.ir.literal import DTYPES
from lowtide.ir.shape import Shape
from lowtide.ir.thunk import CopyThunk, KernelThunk
from lowtide.runtime.cpu.arguments import as_array, in_memory_order, major_to_minor
from lowtide.runtime.cpu.program import Bytes, nested
from lowtide.runtime.gpu.collectives import DeviceCollectives
from lowtide.runtime.gpu.device_array import DeviceArray, Resident, resident
from lowtide.runtime.gpu.device_steps import DeviceSteps
from lowtide.runtime.gpu.driver import DeviceMemoryError, Driver
from lowtide.runtime.gpu.program import GpuProgram
from lowtide.runtime.gpu.sequences import DeviceStep, Sequences
from lowtide.runtime.gpu.streams import Touched
from lowtide.runtime.gpu.walk import DeviceWalk, Seen

STREAMS: Final = 4
"""How many streams a program has."""


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
        self._given: dict[int, Bytes | Resident] = {}
        """By allocation the argument of the call."""
        self._made: list[Bytes | int] = []
        """Of each result the bytes on the host, or the address on the device, that it goes to."""
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
        self._steps = DeviceSteps(program, driver, self._functions, self._bases)
        self._walk = DeviceWalk(self._steps, self._sequences, self._collectives)
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
        self._bases.clear()
        if self._collectives is not None:
            self._collectives.close()

    def __call__(self, *arrays: Any, keep: bool = False) -> Any:
        """Run the program; raises InputError for arguments that do not fit, DriverError.

        Arguments may lie on the device. With `keep` results stay there, as `DeviceArray`s.
        """
        with self._lock:
            self._place(arrays)
            self._walk.run_program(self.program.thunks)
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
        self._walk.run_program(self.program.thunks)

    def run_in_turn(self, seen: Seen) -> None:
        """Do what `run` does step by step, each after all is done, and show each one then."""
        self._walk.seen = seen
        try:
            self._walk.run_program(self.program.thunks)
        finally:
            self._walk.seen = None

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

    # -- steps ---------------------------------------------------------------------------------

    def address(self, place: BufferSlice) -> int:
        """Return where bytes lie on the device, 0 where there are none."""
        return self._steps.address(place)

    def step(self, thunk: KernelThunk | CopyThunk) -> DeviceStep:
        """Return what a copy or a kernel is on the device."""
        return self._steps.step(thunk)

    def read(self, place: BufferSlice) -> Bytes:
        """Return the bytes of a place once all that was started is done."""
        return self._walk.read(place)[0].copy()

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
        address, driver = self._steps.address(place), self.driver

        def download(stream: int) -> None:
            made = self._made[number]
            if isinstance(made, int):
                driver.copy(made, address, place.nbytes, stream)
            else:
                driver.download(made, address, stream)

        return DeviceStep(download, Touched((place,), ()))


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
