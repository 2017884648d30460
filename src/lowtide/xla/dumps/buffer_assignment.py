"""`...-buffer-assignment.txt`: allocations and values in them, in XLA's spelling."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from lowtide.ir import Instruction, Module, ShapeIndex
from lowtide.ir.buffer import Allocation, AllocationKind, AssignedValue, BufferAssignment
from lowtide.ir.shape import index_text

_UNITS: Final = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def value_name(instruction: Instruction, index: ShapeIndex) -> str:
    """Return the name of a value: that of its instruction, and the index within a tuple."""
    if instruction.shape.is_tuple:
        return instruction.name + index_text(index)
    return instruction.name


def value_text(value: AssignedValue, colour: int) -> str:
    """Return a value as `<7 while.3{1} (phi) @0>`: number, name, memory space."""
    phi = " (phi)" if value.is_phi else ""
    return f"<{value.number} {value_name(value.instruction, value.index)}{phi} @{colour}>"


def bytes_text(nbytes: int) -> str:
    """Return a size as `768B`, `1.2KiB` or `3.45MiB`."""
    if nbytes < 1024:
        return f"{nbytes}B"
    unit = 0
    while nbytes >= 1 << 20:
        nbytes >>= 10
        unit += 1
    return f"{nbytes / 1024:.{1 if unit == 0 else 2}f}{_UNITS[unit]}"


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
