"""Allocations and slices: where every value of a scheduled program lies in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from lowtide.ir.computation import Computation
    from lowtide.ir.instruction import Instruction


class AllocationKind(StrEnum):
    """Who provides a stretch of memory, and how long it lasts."""

    ARGUMENT = "argument"
    """The caller; overwritten only where `Allocation.output` says by what."""
    CONSTANT = "constant"
    """The executable; never written."""
    ARENA = "arena"
    """Each call: outputs first, for the caller to keep, behind them what may be released at the
    end. Temporaries lie anywhere in it, also where outputs are not written yet."""


@dataclass(frozen=True, slots=True)
class Allocation:
    """One contiguous stretch of memory of `nbytes` bytes.

    `parameter` and `output` are, of an argument, the numbers of the leaves of the parameters and of
    the result which it holds, depth first, -1 for none. `constant` is the instruction whose value
    it holds.
    """

    index: int
    kind: AllocationKind
    nbytes: int
    parameter: int = -1
    output: int = -1
    constant: Instruction | None = None


@dataclass(frozen=True, slots=True)
class Slice:
    """`nbytes` bytes of the allocation of index `allocation`, from `offset` on."""

    allocation: int
    offset: int
    nbytes: int


NO_BYTES: Final = Slice(-1, 0, 0)
"""The slice of a value without bytes: a token, an empty array, an array in host memory."""


@dataclass(frozen=True, slots=True)
class CallSite:
    """One place from which a computation runs.

    `caller` is the calling instruction and `parent` the number of the call site that it runs in;
    None and -1 for the entry, which is call site 0. `slices` says for each instruction of the
    computation where the leaves of its result lie, depth first.
    """

    computation: Computation
    caller: Instruction | None
    parent: int
    slices: Mapping[Instruction, tuple[Slice, ...]]


class CopyMoment(StrEnum):
    """When a copy between buffers runs, seen from the call site that it belongs to."""

    LOOP_ENTRY = "loop entry"
    """Before the loop of which the call site is the body."""
    ITERATION_END = "iteration end"
    """After each run of the call site, a loop body."""
    BRANCH_END = "branch end"
    """After the run of the call site, a branch."""
    RETURN = "return"
    """After the run of the entry."""


@dataclass(frozen=True, slots=True)
class BufferCopy:
    """`source` is copied to `target`; copies of one moment and call site run in their order."""

    moment: CopyMoment
    call_site: int
    source: Slice
    target: Slice


@dataclass(frozen=True, slots=True)
class BufferAssignment:
    """Where the values of a module lie.

    The code of a computation is one; where its values lie is a table per call site. `steps` is the
    flattened schedule: the number of a call site and an instruction of its computation. `outputs`
    are the slices of the leaves of the result. The outputs that overwrite no argument take the
    first `kept_bytes` of the arena.
    """

    allocations: tuple[Allocation, ...]
    call_sites: tuple[CallSite, ...]
    steps: tuple[tuple[int, Instruction], ...]
    copies: tuple[BufferCopy, ...]
    outputs: tuple[Slice, ...]
    kept_bytes: int

    @property
    def arena_bytes(self) -> int:
        """The size of the arena: outputs, each rounded up to the alignment, and temporaries."""
        return sum([x.nbytes for x in self.allocations if x.kind is AllocationKind.ARENA])

    @property
    def temp_bytes(self) -> int:
        """The size of the arena behind the outputs."""
        return self.arena_bytes - self.kept_bytes

    @property
    def constant_bytes(self) -> int:
        """The size of all constants."""
        return sum([x.nbytes for x in self.allocations if x.kind is AllocationKind.CONSTANT])
