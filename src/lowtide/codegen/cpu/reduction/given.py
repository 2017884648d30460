"""Elements of which some are given by the kernel while it runs along rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from lowtide.codegen.elements.elements import Element, Elements, Index, Mask, Request
from lowtide.ir import Instruction
from lowtide.llvm.function import Function
from lowtide.llvm.target import Target

Giver: TypeAlias = "Callable[[Index, Mask | None], Element]"


class GivenElements(Elements):
    """Elements that come from `given` where it has a rule for the instruction."""

    def __init__(self, function: Function, target: Target, lanes: int) -> None:
        super().__init__(function, target, lanes)
        self.given: dict[Instruction, Giver] = {}

    def provided(self, request: Request) -> Element | None:
        """Return what the rule says about an instruction, None where there is none."""
        rule = self.given.get(request.instruction)
        if rule is None:
            return super().provided(request)
        return rule(request.at, request.mask)
