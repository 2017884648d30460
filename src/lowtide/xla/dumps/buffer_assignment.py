"""`...-buffer-assignment.txt`: all allocations and the values in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lowtide.ir import Module
from lowtide.ir.buffer import Allocation, AllocationKind, AssignedValue, BufferAssignment
from lowtide.ir.shape import index_text
from lowtide.xla.dumps.values import value_text


def buffer_assignment_text(module: Module, assignment: BufferAssignment) -> str:
    """Return the allocations by index, each with its values by number, as XLA dumps a plan."""
    members = values_by_allocation(assignment)
    lines = ["BufferAssignment:"]
    for allocation in assignment.allocations:
        values = members[allocation.index]
        lines.append(_header(module, allocation, values))
        lines += _value_lines(allocation, values)
    return "\n".join(lines) + "\n"


def values_by_allocation(assignment: BufferAssignment) -> Mapping[int, list[AssignedValue]]:
    """Return the values in each allocation, by number."""
    members: dict[int, list[AssignedValue]] = {x.index: [] for x in assignment.allocations}
    for value in sorted(assignment.values, key=lambda x: x.number):
        members[value.place.allocation].append(value)
    return members


def is_temporary(allocation: Allocation) -> bool:
    """Whether an allocation is what XLA calls a preallocated temporary buffer."""
    return allocation.kind is AllocationKind.ARENA and not allocation.maybe_live_out


def _header(module: Module, allocation: Allocation, values: Sequence[AssignedValue]) -> str:
    parts = [f"allocation {allocation.index}: size {allocation.nbytes}"]
    if allocation.colour:
        parts.append(f"color {allocation.colour}")
    if allocation.parameter is not None:
        number, index = allocation.parameter
        shape = module.entry.parameters[number].shape.at(index)
        parts.append(f"parameter {number}")
        parts.append(f"shape |{shape.text(layout=False)}| at ShapeIndex {index_text(index)}")
    root = module.entry.root
    if any(x.instruction is root and not x.index for x in values):
        parts.append(f"output shape is |{root.shape.text(layout=False)}|")
    if allocation.kind is AllocationKind.CONSTANT:
        parts.append("constant")
    if allocation.kind is AllocationKind.THREAD_LOCAL:
        parts.append("thread-local")
    if allocation.maybe_live_out:
        parts.append("maybe-live-out")
    if is_temporary(allocation):
        parts.append("preallocated-temp")
    return ", ".join(parts) + ":"


def _value_lines(allocation: Allocation, values: Sequence[AssignedValue]) -> Iterator[str]:
    for value in values:
        place = value.place
        shape = value.instruction.shape.at(value.index)
        yield (
            f" value: {value_text(value, allocation.colour)} "
            f"(size={place.nbytes},offset={place.offset}): {shape}"
        )
