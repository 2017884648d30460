"""Memory that an instruction needs only while it runs, as buffers of the plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from lowtide.analysis.colocation import Colocation, Segment
from lowtide.analysis.flat_schedule import FlatSchedule
from lowtide.ir import Instruction

ScratchBytes = Callable[[Instruction], int]
"""How many bytes an instruction needs while it runs, beyond operands and results."""


def with_scratch(
    colocation: Colocation, flat: FlatSchedule, scratch_bytes: ScratchBytes
) -> tuple[Colocation, dict[int, int]]:
    """Return the buffers with one more for each step that needs scratch, and its number by step."""
    nbytes: list[int] = []
    segments: list[tuple[Segment, ...]] = []
    buffer_of: dict[int, int] = {}
    for position, instruction in enumerate(flat.instructions):
        size = scratch_bytes(instruction)
        if size:
            buffer_of[position] = len(colocation.nbytes) + len(nbytes)
            nbytes.append(size)
            segments.append(((position, position, -1, -1),))
    none = (-1,) * len(nbytes)
    found = replace(
        colocation,
        nbytes=(*colocation.nbytes, *nbytes),
        segments=(*colocation.segments, *segments),
        output=(*colocation.output, *none),
        argument=(*colocation.argument, *none),
    )
    return found, buffer_of
