"""From filled allocations to the plan as data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from lowtide.analysis.call_graph import executed_callees
from lowtide.ir import Computation, Instruction, Module, ShapeIndex
from lowtide.ir.buffer import (
    NO_BYTES,
    AssignedValue,
    BufferAssignment,
    BufferSlice,
    CallSite,
    HeapTrace,
)
from lowtide.xla.assigners.allocation_table import AllocationTable
from lowtide.xla.assigners.options import Demand

V = TypeVar("V", bound=Demand)

ValuesAt = Callable[[Instruction, ShapeIndex], Sequence[V]]
"""The values that may be at a position."""


class Labels(NamedTuple):
    """What a plan says about a value beside its place; see `ir.buffer.AssignedValue`."""

    buffer: int
    is_phi: bool
    live: tuple[int, int] | None


def assignment_of(
    module: Module,
    table: AllocationTable[V],
    labels: Mapping[V, Labels],
    values_at: ValuesAt[V],
    number: Mapping[V, int],
) -> BufferAssignment:
    """Return the plan of a module in which one place calls each computation.

    Values of computations that are applied per element have call site -1. `number` has the numbers
    by which the plan names values.
    """
    sites = _sites(module)
    number_of = {site[0]: number for number, site in enumerate(sites)}
    places = dict(table.places())
    values = [
        AssignedValue(
            number[value],
            number_of.get(value.instruction.parent, -1),
            value.instruction,
            value.index,
            place,
            *labels[value],
        )
        for value, place in places.items()
    ]

    def place_at(instruction: Instruction, index: ShapeIndex) -> BufferSlice | None:
        found = [places.get(value) for value in values_at(instruction, index)]
        return found[0] if len(found) == 1 else None

    outputs = [
        place_at(module.entry.root, index) or NO_BYTES
        for index, _ in module.entry.root.shape.leaves()
    ]
    return BufferAssignment(
        table.frozen(),
        tuple([CallSite(*site, *_slices(site[0], place_at)) for site in sites]),
        tuple(outputs),
        values=tuple(sorted(values, key=lambda x: x.number)),
        heap_traces=tuple(_traces(table)),
        peak_values={
            index: tuple([number[value] for value in allocation.peak])
            for index, allocation in enumerate(table.allocations)
            if allocation.peak
        },
    )


def _traces(table: AllocationTable[V]) -> Iterator[HeapTrace]:
    for index, allocation in enumerate(table.allocations):
        for whole_module, events in allocation.traces:
            yield HeapTrace(index, whole_module, events)


def _sites(module: Module) -> list[tuple[Computation, Instruction | None, int]]:
    """The call sites, numbered as they begin: a computation, its caller, the caller's site."""
    sites: list[tuple[Computation, Instruction | None, int]] = []
    stack: list[tuple[Computation, Instruction | None, int]] = [(module.entry, None, -1)]
    while stack:
        site = stack.pop()
        number = len(sites)
        sites.append(site)
        called = [
            (callee, caller, number)
            for caller in _in_order(module, site[0])
            for _, callee in executed_callees(caller)
        ]
        stack += reversed(called)
    return sites


def _in_order(module: Module, computation: Computation) -> Iterable[Instruction]:
    sequences = {} if module.schedule is None else module.schedule.sequences
    return sequences.get(computation, tuple(computation.instructions.values()))


def _slices(
    computation: Computation, place_at: Callable[[Instruction, ShapeIndex], BufferSlice | None]
) -> tuple[
    dict[Instruction, tuple[BufferSlice | None, ...]],
    dict[tuple[Instruction, ShapeIndex], BufferSlice],
]:
    """The slices of the leaves of each result, and those of tables of addresses."""
    slices: dict[Instruction, tuple[BufferSlice | None, ...]] = {}
    tables: dict[tuple[Instruction, ShapeIndex], BufferSlice] = {}
    for instruction in computation.instructions.values():
        leaves: list[BufferSlice | None] = []
        for index, shape in instruction.shape.subshapes():
            place = place_at(instruction, index)
            if not shape.is_tuple:
                leaves.append(place if shape.nbytes else NO_BYTES)
            elif place is not None:
                tables[instruction, index] = place
        slices[instruction] = tuple(leaves)
    return slices, tables
