"""Kernels and copies of a program as what puts them into a stream of a device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import final

from lowtide.ir.buffer import BufferSlice
from lowtide.ir.thunk import CopyThunk, KernelThunk
from lowtide.runtime.gpu.driver import Driver
from lowtide.runtime.gpu.program import GpuProgram
from lowtide.runtime.gpu.sequences import DeviceStep
from lowtide.runtime.gpu.streams import Touched


@final
class DeviceSteps:
    """The steps of a program whose allocations begin at `bases` and whose kernels are `functions`.

    Both are numbers of the driver; functions are known by their symbols.
    """

    def __init__(
        self,
        program: GpuProgram,
        driver: Driver,
        functions: Mapping[str, int],
        bases: Sequence[int],
    ) -> None:
        self.program, self.driver = program, driver
        self._functions, self._bases = functions, bases
        self._made: dict[int, DeviceStep] = {}

    def address(self, place: BufferSlice) -> int:
        """Return where bytes lie on the device, 0 where there are none."""
        return self._bases[place.allocation] + place.offset if place.nbytes else 0

    def step(self, thunk: KernelThunk | CopyThunk) -> DeviceStep:
        """Return what a kernel or a copy is on the device."""
        key = id(thunk)  # The program holds its thunks, so that none take their place.
        if key not in self._made:
            made = self._copy(thunk) if isinstance(thunk, CopyThunk) else self._launch(thunk)
            self._made[key] = made
        return self._made[key]

    def _copy(self, thunk: CopyThunk) -> DeviceStep:
        driver, nbytes = self.driver, thunk.source.nbytes
        target, source = self.address(thunk.target), self.address(thunk.source)

        def copy(stream: int) -> None:
            driver.copy(target, source, nbytes, stream)

        return DeviceStep(copy, Touched((thunk.source,), (thunk.target,)))

    def _launch(self, thunk: KernelThunk) -> DeviceStep:
        driver = self.driver
        scratch = () if thunk.scratch is None else (thunk.scratch,)
        addresses = [self.address(x) for x in (*thunk.buffers, *scratch)]
        addresses += [0] * (len(thunk.buffers) + 1 - len(addresses))
        launches = [
            (self._functions[x.function], x.grid)
            for x in self.program.kernels[thunk.kernel].launches
        ]

        def launch(stream: int) -> None:
            for function, grid in launches:
                driver.launch(function, grid, addresses, stream)

        return DeviceStep(launch, Touched(thunk.reads, (*thunk.writes, *scratch)))
