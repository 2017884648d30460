"""Likeness of instructions: those that are alike run the same code, by one plan."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from lowtide.ir import Instruction
from lowtide.ir.errors import UnsupportedOpError


def likeness(instruction: Instruction) -> Hashable:
    """Return what decides about the code of an instruction."""
    operands = instruction.operands
    return (
        instruction.opcode,
        instruction.attributes,
        instruction.shape,
        tuple([x.shape for x in operands]),
        tuple([operands.index(x) for x in operands]),
        instruction.called_computations,
        instruction.annotations.backend_config,
    )


PlanT = TypeVar("PlanT")
"""How an instruction runs on a target."""


class AlikePlans(Generic[PlanT]):
    """The plans that `make` makes of instructions, by their likeness."""

    def __init__(self, make: Callable[[Instruction], PlanT]) -> None:
        self._make = make
        self._plans: dict[Hashable, PlanT] = {}

    def plan(self, instruction: Instruction) -> PlanT:
        """Return how an instruction runs; raises UnsupportedOpError where it cannot."""
        key = likeness(instruction)
        found = self._plans.get(key)
        if found is None:
            found = self._plans[key] = self._make(instruction)
        return found

    def has_plan(self, instruction: Instruction) -> bool:
        """Whether the target has code for an instruction."""
        try:
            self.plan(instruction)
        except UnsupportedOpError:
            return False
        return True

    def prefer(self, instruction: Instruction, plan: PlanT) -> None:
        """Have an instruction, and all that are alike, run in another way than the first one."""
        self._plans[likeness(instruction)] = plan
