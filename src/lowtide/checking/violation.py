"""Findings of the plan verifier."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from lowtide.ir import LowtideError
from lowtide.ir.buffer import BufferSlice


class ViolationKind(StrEnum):
    """Which rule of a plan is broken."""

    OVERLAP = "overlap"
    """A value is overwritten before its last read, or in a step that still reads it otherwise."""
    SIZE = "size"
    """A slice or an allocation has another size than the value in it needs."""
    BOUNDS = "bounds"
    """A slice reaches out of its allocation."""
    ALIGNMENT = "alignment"
    """An offset is no multiple of the largest power of two, at most 64, that divides the size."""
    READ_ONLY = "read-only"
    """Something lies in, and is written to, memory that the program may only read."""
    ALIAS = "alias"
    """An output is not where the module or the caller wants it."""
    COLOCATION = "colocation"
    """What has to be in one place is not: the state of a loop, the results of branches."""
    MISPLACED = "misplaced"
    """One value has two places."""
    MISSING = "missing"
    """A value with bytes has no place."""
    MEMORY_SPACE = "memory space"
    """Values of two memory spaces lie in one allocation."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule.

    `names` are the values and instructions concerned, with the calls on the way to them in front
    (`while.3/add.7{1}`), `steps` their positions in the flattened schedule, `places` the slices.
    """

    kind: ViolationKind
    message: str
    names: tuple[str, ...] = ()
    steps: tuple[int, ...] = ()
    places: tuple[BufferSlice, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


class PlanMismatchError(LowtideError):
    """A plan does not belong to the module: it cannot even be checked."""
