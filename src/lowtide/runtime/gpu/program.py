"""A compiled program of a graphics processor: kernels as text, thunks, memory; frozen."""

from __future__ import annotations

from lowtide.ir.thunk import LaunchedKernel, Thunk, collective_thunks
from lowtide.llvm.ptx import joined, ptx_of
from lowtide.llvm.target import Target
from lowtide.records import dataclass
from lowtide.runtime.cpu.program import Bytes, Interface
from lowtide.runtime.gpu.assembling import Cubin, CubinCache, assembled


@dataclass(frozen=True, slots=True, eq=False)
class GpuProgram:
    """A program for one architecture.

    `texts` are the modules in IR that define the functions of `kernels`, by number. `constants`
    has, per allocation that is a constant, its index and its bytes. It runs on `replicas` times
    `partitions` devices.
    """

    name: str
    target: Target
    thunks: tuple[Thunk, ...]
    kernels: tuple[LaunchedKernel, ...]
    texts: tuple[str, ...]
    interface: Interface
    constants: tuple[tuple[int, Bytes], ...] = ()
    replicas: int = 1
    partitions: int = 1

    @property
    def devices(self) -> int:
        """How many devices run it at once."""
        return self.replicas * self.partitions

    @property
    def first_collective(self) -> str:
        """The name of the first instruction that needs a rendezvous of all devices, or ""."""
        return next((x.name for x in collective_thunks(self.thunks)), "")

    def ptx(self) -> str:
        """Return all kernels in PTX, "" where there are none."""
        return ptx_of(joined(self.texts), self.target) if self.texts else ""

    def assembled(self, cached: CubinCache) -> Cubin:
        """Return the machine code of all kernels, each of which is within its limits.

        Raises AssemblerError where there is no ptxas, it refuses a kernel, or one takes too much.
        """
        text = self.ptx()
        if not text:
            return Cubin(b"", {})
        cubin = assembled(text, self.target.cpu, cached)
        for kernel in self.kernels:
            for launch in kernel.launches:
                cubin.check(launch, self.target.cpu)
        return cubin
