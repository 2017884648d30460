"""Schedule: the order of execution of each computation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from lowtide.records import dataclass

if TYPE_CHECKING:
    from lowtide.ir.computation import Computation
    from lowtide.ir.instruction import Instruction


@dataclass(frozen=True, slots=True)
class Schedule:
    """A total order of the instructions of each computation that runs as control flow.

    Fused computations have no entry. A sequence holds each instruction once, operands and
    control predecessors before the instructions that wait for them.
    """

    sequences: Mapping[Computation, tuple[Instruction, ...]] = field(default_factory=dict)

    def sequence(self, computation: Computation) -> tuple[Instruction, ...]:
        """Return the order of one computation; raises KeyError where it is not scheduled."""
        return self.sequences[computation]


@dataclass(frozen=True, slots=True)
class PartialOrder:
    """Instructions that end before one of the entry begins; all else may run at once.

    `predecessors` has, for each instruction of the computation, those that it waits for directly:
    at least its operands and control predecessors. Called computations run in sequence, each within
    the instruction that calls it.
    """

    computation: Computation
    predecessors: Mapping[Instruction, tuple[Instruction, ...]]
