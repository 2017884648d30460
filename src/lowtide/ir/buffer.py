"""Allocations and slices: where every value of a scheduled program lies in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from lowtide.ir.shape import HOST_MEMORY
from lowtide.records import dataclass

if TYPE_CHECKING:
    from lowtide.ir.computation import Computation
    from lowtide.ir.instruction import Instruction
    from lowtide.ir.shape import ShapeIndex


class AllocationKind(StrEnum):
    """The provider of a stretch of memory, and the time for which it lasts."""

    ARGUMENT = "argument"
    """The caller; overwritten only where `Allocation.output` says by what."""
    CONSTANT = "constant"
    """The executable; never written."""
    OUTPUT = "output"
    """Each call, for the caller to keep. Temporaries may lie in it before the output is written."""
    ARENA = "arena"
    """Each call. It holds outputs, for the caller to keep, and temporaries, which lie anywhere in
    it, also where outputs are not written yet."""
    THREAD_LOCAL = "thread-local"
    """Whoever runs a reducer, a comparator or another computation applied per element."""


@dataclass(frozen=True, slots=True)
class Allocation:
    """One contiguous stretch of memory of `nbytes` bytes in the memory space `colour`.

    Of an argument, `parameter` is the number of the parameter and the index of its element, and
    `output` the index of the element of the result which overwrites it, None for none. `constant`
    is the instruction whose value it holds. `is_tuple` says that it holds a table of the addresses
    of a tuple's elements. `maybe_live_out` says that an output lies in it.
    """

    index: int
    kind: AllocationKind
    nbytes: int
    colour: int = 0
    parameter: tuple[int, ShapeIndex] | None = None
    output: ShapeIndex | None = None
    constant: Instruction | None = None
    is_tuple: bool = False
    maybe_live_out: bool = False


@dataclass(frozen=True, slots=True)
class BufferSlice:
    """`nbytes` bytes of the allocation of index `allocation`, from `offset` on.

    Offsets are multiples of the largest power of two, at most 64, that divides `nbytes`.
    """

    allocation: int
    offset: int
    nbytes: int


NO_BYTES: Final = BufferSlice(-1, 0, 0)
"""The slice of a value without bytes: a token, an empty array."""


@dataclass(frozen=True, slots=True)
class CallSite:
    """One place from which a computation runs.

    `caller` is the calling instruction and `parent` the number of the call site that it runs in;
    None and -1 for the entry, which is call site 0. `slices` says for each instruction of the
    computation where the leaves of its result lie, depth first. An instruction that is missing
    there, or a leaf that is None, passes on a value of its operands or of the caller. `tables` are
    the slices of tables of addresses, for plans that have those, by instruction and index of the
    tuple. `scratch` is what instructions need while they run, beyond operands and results.
    """

    computation: Computation
    caller: Instruction | None
    parent: int
    slices: Mapping[Instruction, tuple[BufferSlice | None, ...]]
    tables: Mapping[tuple[Instruction, ShapeIndex], BufferSlice] = field(default_factory=dict)
    scratch: Mapping[Instruction, BufferSlice] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AssignedValue:
    """A value that has memory: made by `instruction` at element `index`, in call site `site`.

    The site is -1 in a computation that is applied per element.

    Values with equal `buffer` are meant to replace one another in one place (the state of a loop,
    an operand and the result written over it). A phi stands for one of several values: the state
    of a loop, the result of a conditional. `live` are the positions of the definition and the last
    use in the flat schedule, both included; None where the plan does not say.
    """

    number: int
    site: int
    instruction: Instruction
    index: ShapeIndex
    place: BufferSlice
    buffer: int
    is_phi: bool = False
    live: tuple[int, int] | None = None


class HeapEventKind(StrEnum):
    """Events of a value while the heap of a program is simulated."""

    ALLOCATE = "alloc"
    FREE = "free"
    SHARE = "share"
    """The value takes over the place of another one, which ends there."""


@dataclass(frozen=True, slots=True)
class HeapEvent:
    """One step of a heap simulation; `shares_with` is the value whose place is taken over."""

    kind: HeapEventKind
    value: int
    computation: str
    instruction: str
    shares_with: int | None = None


@dataclass(frozen=True, slots=True)
class HeapTrace:
    """The simulation that laid out one allocation, of one computation or the whole module."""

    allocation: int
    whole_module: bool
    events: tuple[HeapEvent, ...]


@dataclass(frozen=True, slots=True)
class BufferAssignment:
    """Places of the values of a scheduled module.

    The code of a computation is one; where its values lie is a table per call site. `outputs` are
    the slices of the leaves of the result. Of the arena, `kept_bytes` are those of the outputs that
    overwrite no argument; they lie at its front where that makes it no larger. `peak_values` are,
    per index of an allocation, the numbers of the values that lie in it when it is fullest. Values,
    traces and peaks may be left out.
    """

    allocations: tuple[Allocation, ...]
    call_sites: tuple[CallSite, ...]
    outputs: tuple[BufferSlice, ...]
    kept_bytes: int = 0
    values: tuple[AssignedValue, ...] = ()
    heap_traces: tuple[HeapTrace, ...] = ()
    peak_values: Mapping[int, tuple[int, ...]] = field(default_factory=dict)

    @property
    def arena_bytes(self) -> int:
        """The size of the arena, in each memory space but the host's: outputs and temporaries."""
        return self._bytes(AllocationKind.ARENA)

    @property
    def host_arena_bytes(self) -> int:
        """The size of the arena in the host's memory."""
        arenas = [x for x in self.allocations if x.kind is AllocationKind.ARENA]
        return sum([x.nbytes for x in arenas if x.colour == HOST_MEMORY])

    @property
    def temp_bytes(self) -> int:
        """The size of the arena without the outputs."""
        return self.arena_bytes - self.kept_bytes

    @property
    def constant_bytes(self) -> int:
        """The size of all constants but those in the host's memory."""
        return self._bytes(AllocationKind.CONSTANT)

    def _bytes(self, kind: AllocationKind) -> int:
        found = [x for x in self.allocations if x.kind is kind and x.colour != HOST_MEMORY]
        return sum([x.nbytes for x in found])
