"""Allocations while they are being filled."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from typing import Generic, TypeVar, final

from lowtide.ir import Instruction, ShapeIndex
from lowtide.ir.buffer import Allocation, AllocationKind, BufferSlice, HeapEvent
from lowtide.planning.heap.steps import round_up
from lowtide.records import dataclass
from lowtide.xla.assigners.options import Demand

V = TypeVar("V", bound=Demand)


@dataclass(eq=False, slots=True)
class OpenAllocation(Generic[V]):
    """An allocation, and what lies in it by offset; see `ir.buffer.Allocation`."""

    kind: AllocationKind
    nbytes: int
    colour: int
    parameter: tuple[int, ShapeIndex] | None = None
    output: ShapeIndex | None = None
    constant: Instruction | None = None
    is_tuple: bool = False
    live_out: bool = False
    offsets: dict[V, int] = field(default_factory=dict)
    """Where the values begin."""
    traces: list[tuple[bool, tuple[HeapEvent, ...]]] = field(default_factory=list)
    """The simulations that laid it out, and whether each was one of the whole module."""
    peak: tuple[V, ...] = ()

    @property
    def is_written(self) -> bool:
        """Whether the program may write to it."""
        if self.kind is AllocationKind.ARGUMENT:
            return self.output is not None
        return self.kind is not AllocationKind.CONSTANT

    @property
    def is_reusable(self) -> bool:
        """Whether other values may lie in it at other times."""
        local = self.kind is AllocationKind.THREAD_LOCAL
        return self.is_written and not self.is_tuple and not local

    @property
    def is_temporary(self) -> bool:
        """Whether it is neither an argument, an output, a constant nor local to a thread."""
        return self.kind is AllocationKind.ARENA


@final
class AllocationTable(Generic[V]):
    """All allocations, and which one each value lies in."""

    def __init__(self) -> None:
        self.allocations: list[OpenAllocation[V]] = []
        self.of_value: dict[V, OpenAllocation[V]] = {}

    def open(
        self, kind: AllocationKind, nbytes: int, colour: int, values: Iterable[V] = ()
    ) -> OpenAllocation[V]:
        """Add an allocation with values at its beginning."""
        allocation: OpenAllocation[V] = OpenAllocation(kind, nbytes, colour)
        self.allocations.append(allocation)
        for value in values:
            self.put(value, allocation)
        return allocation

    def put(self, value: V, allocation: OpenAllocation[V], offset: int = 0) -> None:
        """Let a value lie in an allocation; raises ValueError where it has a place already."""
        if value in self.of_value:
            raise ValueError(f"{value} has a place already")
        self.of_value[value] = allocation
        allocation.offsets[value] = offset

    def mark_outputs(self, live_out: Iterable[V]) -> None:
        """Mark what is part of the result of the program; it is no temporary then."""
        for value in live_out:
            allocation = self.of_value.get(value)
            if allocation is None:
                continue
            allocation.live_out = True
            if allocation.kind is AllocationKind.ARENA:
                allocation.kind = AllocationKind.OUTPUT

    def find_peaks(self) -> None:
        """Note the largest value of each allocation that was not laid out by a simulation."""
        for allocation in self.allocations:
            if not allocation.peak and allocation.offsets:
                allocation.peak = (max(allocation.offsets, key=_size_then_first),)

    def combine_temporaries(self, alignment: Callable[[int], int]) -> None:
        """Make one allocation of all temporaries of a colour, behind all other allocations.

        The others keep their places but for those that move to the place of a temporary, from the
        end. Temporaries lie end to end.
        """
        temporaries = self._move_temporaries_back()
        combined: dict[int, OpenAllocation[V]] = {}
        for part in temporaries:
            whole = combined.setdefault(part.colour, part)
            if whole is not part:
                self._append(whole, part, alignment(part.colour))
        self.allocations += combined.values()

    def _move_temporaries_back(self) -> list[OpenAllocation[V]]:
        """Take the temporaries out, by exchanging the first with the last that is none."""
        found = self.allocations
        low, high = 0, len(found)
        while True:
            while low < high and not found[low].is_temporary:
                low += 1
            while low < high and found[high - 1].is_temporary:
                high -= 1
            if low >= high:
                break
            found[low], found[high - 1] = found[high - 1], found[low]
        self.allocations = found[:low]
        return found[low:]

    def _append(self, whole: OpenAllocation[V], part: OpenAllocation[V], alignment: int) -> None:
        base = round_up(whole.nbytes, alignment)
        whole.nbytes = base + part.nbytes
        for value, offset in part.offsets.items():
            whole.offsets[value] = base + offset
            self.of_value[value] = whole
        whole.traces += part.traces
        whole.peak += part.peak
        whole.is_tuple = False

    # -- results -------------------------------------------------------------------------------

    def frozen(self) -> tuple[Allocation, ...]:
        """Return the allocations as data."""
        return tuple(
            [
                Allocation(
                    index,
                    x.kind,
                    x.nbytes,
                    x.colour,
                    x.parameter,
                    x.output,
                    x.constant,
                    x.is_tuple,
                    x.live_out,
                )
                for index, x in enumerate(self.allocations)
            ]
        )

    def places(self) -> Iterator[tuple[V, BufferSlice]]:
        """Yield each value and its slice."""
        for index, allocation in enumerate(self.allocations):
            for value, offset in allocation.offsets.items():
                yield value, BufferSlice(index, offset, value.nbytes)


def _size_then_first(value: Demand) -> tuple[int, int]:
    return value.nbytes, -value.number
