"""The contents of an allocation when it is fullest, the largest first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lowtide.ir.buffer import AssignedValue, BufferAssignment
from lowtide.xla.dumps.buffer_assignment import bytes_text, value_text

_RULE: Final = "=" * 24


def peak_text(assignment: BufferAssignment) -> str:
    """Return, per allocation that has `peak_values`, its values with size, source and shape.

    Allocations of a single value at their peak are left out, since there is nothing to say of them.
    """
    values = {x.number: x for x in assignment.values}
    lines = []
    for index, numbers in sorted(assignment.peak_values.items()):
        if len(numbers) < 2:
            continue
        found = sorted([values[x] for x in numbers], key=lambda x: (-x.place.nbytes, x.number))
        lines += _allocation(assignment, index, found)
    return "\n".join(lines) + "\n" if lines else ""


def _allocation(
    assignment: BufferAssignment, index: int, values: Sequence[AssignedValue]
) -> list[str]:
    allocation = assignment.allocations[index]
    total = sum([x.place.nbytes for x in values])
    lines = [
        f"Peak buffers of allocation {index}: {bytes_text(total)} of "
        f"{bytes_text(allocation.nbytes)}"
    ]
    for number, value in enumerate(values, 1):
        lines += _value(number, value, allocation.colour)
    return lines


def _value(number: int, value: AssignedValue, colour: int) -> list[str]:
    maker = value.instruction
    lines = [f"  Buffer {number}:", f"    Size: {bytes_text(value.place.nbytes)}"]
    if maker.metadata.op_name:
        lines.append(f"    Operator: {maker.metadata.op_name}")
    source = maker.source
    if source is not None:
        lines.append(f"    Source: {source.file}:{source.line}")
    lines.append(f"    XLA label: {maker.opcode.value}, {value_text(value, colour)}")
    lines.append(f"    Shape: {maker.shape.at(value.index)}")
    lines.append(f"    {_RULE}")
    return lines
