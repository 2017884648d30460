"""The interface of a target: its kernels, their scratch, and its programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol, TypeAlias, TypeVar

from lowtide.compiler import ModulePlan
from lowtide.fusion.target_record import TargetRecord
from lowtide.ir import Instruction

ProgramT = TypeVar("ProgramT", covariant=True)
"""What runs a module on a target."""

Progress: TypeAlias = "Callable[[int, int], None]"
"""Is told how many kernels are compiled, and of how many."""


Tell: TypeAlias = "Callable[[str], None]"
"""Is told in words what is being done, and what was found."""


class KernelSet(Protocol[ProgramT]):
    """Kernels of a target for the instructions of one module; those that are alike run alike."""

    def has_kernel(self, fusion: Instruction) -> bool:
        """Return whether one kernel can run a fusion; it is written out where none can."""

    def scratch_bytes(self, instruction: Instruction) -> int:
        """Return the bytes of the arena that an instruction needs while it runs.

        Raises UnsupportedOpError for an operation that the target does not have.
        """

    def program(self, plan: ModulePlan, progress: Progress | None = None) -> ProgramT:
        """Return the program of a plan that has the scratch of these kernels."""


class Backend(Protocol[ProgramT]):
    """A target: what is behind it knows of processors, vectors and LLVM, what is above does not.

    Its record says which instructions may be fused, what that saves, and how buffers are aligned.
    """

    @property
    def record(self) -> TargetRecord:
        """What optimizing and planning reckon with."""

    def kernels(self) -> KernelSet[ProgramT]:
        """Return the kernels that the cost model takes for the fastest, for one module."""

    def tuned_kernels(self) -> Iterator[KernelSet[ProgramT]]:
        """Yield kernels chosen by measuring, those first that should be tried first.

        The next ones are asked for where the plan with those before exceeds its memory; after the
        last one `kernels` is taken. A target that measures nothing yields none.
        """
