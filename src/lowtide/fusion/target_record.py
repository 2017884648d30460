"""The record of a target, by which modules are optimized and planned."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from lowtide.analysis.live_range import CACHE_LINE
from lowtide.cost.machine import H100, PCI_EXPRESS, X86_SERVER, HostLink, Machine
from lowtide.fusion.cluster import KernelKind
from lowtide.records import dataclass


@dataclass(frozen=True, eq=False, slots=True)
class TargetRecord:
    """The times of a target, the kernels that its code generation can make, and its alignment.

    Instructions are fused into kernels of `kinds` only. A kernel has at most `most_members`
    instructions and `most_arrays` operands and results. A concatenate with more than `most_joined`
    operands is not computed where it is read, nor is a value of which a kernel would hold more than
    `most_pieces` copies of code. `most_row_bytes` are those of a row that is read several times,
    and `most_rows` are the rows of scores that an attention computes at once; `most_key_bytes` are
    those of keys and values of one batch index, which it reads for each block of rows again.

    With `has_lapack` large matrices are factorized by calls of LAPACK, which code elsewhere lacks.

    Offsets of buffers are multiples of `alignment` bytes, or of the largest power of two in their
    size where that is less.

    Over `host_link` values may be stored in the host's memory and come back; None for a target that
    has no other memory.
    """

    machine: Machine
    alignment: int
    kinds: frozenset[KernelKind]
    most_members: int
    most_arrays: int
    most_joined: int
    most_pieces: int
    most_row_bytes: int
    most_rows: int
    most_key_bytes: int
    has_lapack: bool = False
    host_link: HostLink | None = None


CPU_TARGET: Final = TargetRecord(
    machine=X86_SERVER,
    alignment=CACHE_LINE,
    kinds=frozenset(KernelKind),
    most_members=200,
    most_arrays=48,
    most_joined=8,
    most_pieces=16,
    most_row_bytes=X86_SERVER.cache_bytes // 2,
    most_rows=16,
    most_key_bytes=1 << 25,
    has_lapack=True,
)
"""A processor with vectors, and SciPy in the process that runs its programs.

Registers spill and compile time grows with more members. A core can prefetch no more streams than
that many arrays. Each operand of a concatenate is a branch. As many pieces of code are written as
there are taps in windows that are written out. A row stays in the second-level cache, keys stay in
the last-level cache, and a kernel of a dot keeps that many rows in registers.
"""

CPU_ALONE: Final = replace(CPU_TARGET, has_lapack=False)
"""The same without SciPy: programs run by themselves."""

GPU_TARGET: Final = TargetRecord(
    machine=H100,
    alignment=CACHE_LINE,
    kinds=frozenset(KernelKind) - {KernelKind.ATTENTION},
    most_members=100,
    most_arrays=48,
    most_joined=8,
    most_pieces=16,
    most_row_bytes=1 << 15,
    most_rows=16,
    most_key_bytes=1 << 25,
    host_link=PCI_EXPRESS,
)
"""A graphics processor of a data centre.

Fewer members than on a processor: a thread has 255 registers at most, and more of them leave fewer
threads to hide latency. A row lies in the shared memory of a block.
"""
