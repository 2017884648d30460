"""The ways to run one instruction, written out."""

from __future__ import annotations

import hashlib
from typing import Final

from lowtide.codegen.cpu.kernels import scratch_of, written
from lowtide.codegen.kernel import KernelPlan
from lowtide.ir import Instruction, Shape
from lowtide.ir.thunk import KernelEntry
from lowtide.llvm.objects import environment
from lowtide.llvm.target import Target
from lowtide.records import dataclass

MOST: Final = 4
"""Ways to run one instruction that are looked at, the first one included."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way: its plan, the kernel, and the module that defines the kernel's functions."""

    plan: KernelPlan
    entry: KernelEntry
    text: str

    @property
    def seconds(self) -> float:
        """About how long it takes on one thread."""
        return sum([x.units * x.unit_seconds for x in self.entry.phases])


def candidate_of(plan: KernelPlan) -> Candidate:
    """Return a way to run something, written out."""
    return Candidate(plan, *written(plan))


@dataclass(frozen=True, slots=True)
class Tunable:
    """An instruction with several ways to run: of those alike the first one, and how many.

    `first` is the way that is taken without measuring. `runs` counts what is in loops several
    times.
    """

    instruction: Instruction
    first: Candidate
    runs: int

    @property
    def seconds(self) -> float:
        """About how long a program spends on it, on one thread."""
        return self.first.seconds * self.runs

    def candidates(self) -> tuple[Candidate, ...]:
        """Return the distinct ways, the first one first."""
        found = {self.first.text: self.first}
        for plan in self.first.plan.others()[: MOST - 1]:
            candidate = candidate_of(plan)
            found.setdefault(candidate.text, candidate)
        return tuple(found.values())

    @property
    def arrays(self) -> tuple[tuple[Shape, ...], tuple[Shape, ...]]:
        """The arrays that are read, and those that are written, depth first."""
        results = [x for _, x in self.instruction.shape.leaves() if x.is_array]
        operands = [x for y in self.instruction.operands for _, x in y.shape.leaves() if x.is_array]
        return tuple(operands), tuple(results)

    def nbytes(self, threads: int) -> int:
        """Return the bytes of all arrays and of the first way's scratch."""
        operands, results = self.arrays
        return sum([x.nbytes for x in (*operands, *results)]) + scratch_of(self.first.plan, threads)


def key_of(candidates: tuple[Candidate, ...], target: Target, threads: int) -> str:
    """Return what a measurement is remembered by: the code of all ways, the target, the threads."""
    digest = hashlib.sha256(f"{environment(target)} {threads}".encode())
    for x in candidates:
        digest.update(b"\0" + x.text.encode())
    return digest.hexdigest()[:40]
