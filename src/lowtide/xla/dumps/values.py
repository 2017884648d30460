"""XLA's spelling of values, elements and sizes."""

from __future__ import annotations

from typing import Final

from lowtide.ir import Instruction, ShapeIndex
from lowtide.ir.buffer import AssignedValue
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
