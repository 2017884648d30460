"""Elements of operations that work element by element."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from lowtide.codegen import elementwise
from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elements.parts import all_of
from lowtide.codegen.elements.values import Element, Request, Rule
from lowtide.codegen.value import Value
from lowtide.ir import Instruction

Write: TypeAlias = "Callable[[Elements, Instruction, Sequence[Element], Sequence[Value]], Value]"
"""Writes an operation, given its operands as elements, and as values with the same lanes."""


def elementwise_rule(elements: Elements, request: Request) -> Rule:
    """Return what an operation makes of the elements of its operands at the same index."""
    return operation(elements, request, _emitted)


def _emitted(
    elements: Elements, instruction: Instruction, found: Sequence[Element], values: Sequence[Value]
) -> Value:
    return elementwise.emit(elements.function, elements.target, instruction, values)


def operation(elements: Elements, request: Request, write: Write) -> Rule:
    """Return what `write` makes of the elements of operands at the same index."""
    instruction = request.instruction
    found = yield from all_of(
        [
            Request(x, request.at if x.shape.rank else (), request.mask, request.frame)
            for x in instruction.operands
        ]
    )
    level = max([x.level for x in found], default=0)
    values = elements.vectors.all_lanes(found)
    place = elements.scopes.placed(level)
    with elements.scopes.at_level(place):
        result = write(elements, instruction, found, values)
    return Element((result,), place)
