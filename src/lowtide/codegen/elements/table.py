"""The rules of all operations whose elements are computed one by one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Final, TypeAlias

from lowtide.codegen import elementwise
from lowtide.codegen.elements.elements import ElementRule, Elements
from lowtide.codegen.elements.parts import all_of, no_rule
from lowtide.codegen.elements.rules import RULES
from lowtide.codegen.elements.values import Element, Request, Rule
from lowtide.codegen.elementwise import integers, memory
from lowtide.codegen.elementwise.operation import is_short
from lowtide.codegen.value import Value
from lowtide.ir import ElementType, Instruction, Opcode
from lowtide.ops.table import TABLE
from lowtide.records.late import late_function

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
    scopes = elements.scopes
    place = scopes.placed(level)
    result = scopes.written_at(place, lambda: write(elements, instruction, found, values))
    return Element((result,), place)


def _circular(elements: Elements, request: Request) -> Rule:
    """A sine or cosine; both of an angle are found together, by one reduction of it."""
    return operation(elements, request, _one_of_both)


def _one_of_both(
    elements: Elements, instruction: Instruction, found: Sequence[Element], values: Sequence[Value]
) -> Value:
    (angle,) = values
    if angle.type not in (ElementType.F32, ElementType.F64):
        return _emitted(elements, instruction, found, values)

    def both() -> tuple[Value, ...]:
        (number,) = memory.numbers(elements.function, elements.target, angle)
        pair = _SINE_AND_COSINE(number, is_short(instruction))
        return tuple([Value((x.name,), angle.type, angle.lanes) for x in pair])

    key = "sine and cosine", angle
    values_of_both: tuple[Value, ...] = elements.scopes.once(key, found[0].level, both)
    return values_of_both[instruction.opcode is Opcode.COSINE]


def _select(elements: Elements, request: Request) -> Rule:
    """A choice; of one integer's remainder that is rounded down, by two products instead."""
    instruction = request.instruction
    is_word = instruction.shape.element_type is ElementType.S32
    may_be = is_word and instruction.operands[2].opcode is Opcode.REMAINDER
    is_on_device = elements.target.triple.startswith("nvptx")
    remainder = import_module(_FLOORING).floor_remainder(instruction) if may_be else None
    if remainder is None or is_on_device:
        return (yield from elementwise_rule(elements, request))
    dividend, divisor = remainder
    at = request.at if dividend.shape.rank else ()
    found = yield Request(dividend, at, request.mask, request.frame)
    (value,) = found.values
    if value.lanes or divisor == 1:
        return (yield from elementwise_rule(elements, request))
    place = elements.scopes.placed(found.level)
    with elements.scopes.at_level(place):
        (number,) = memory.numbers(elements.function, elements.target, value)
        rest = integers.floor_remainder(number, divisor)
    return Element((Value((rest.name,), value.type),), place)


_SINE_AND_COSINE: Final = late_function("lowtide.codegen.elementwise.repeated", "WRITERS", "both")

_FLOORING: Final = "lowtide.ops.flooring"
"""The file of remainders that are rounded down, which few programs have."""

HOMES: Final[Mapping[Opcode, str]] = {
    Opcode.CONDITIONAL: "control",
    Opcode.CONVOLUTION: "loops",
    Opcode.DOT: "loops",
    Opcode.RAGGED_DOT: "ragged",
    Opcode.REDUCE: "loops",
    Opcode.REDUCE_WINDOW: "loops",
    Opcode.WHILE: "control",
}
"""The files whose `RULES` have those of opcodes that few kernels compute element by element."""


_RULES: Final[dict[Opcode, ElementRule]] = {
    **{opcode: elementwise_rule for opcode, x in TABLE.items() if x.elementwise},
    **{
        opcode: late_function(f"lowtide.codegen.elements.{file}", "RULES", opcode)
        for opcode, file in HOMES.items()
    },
    **RULES,
    Opcode.COSINE: _circular,
    Opcode.SELECT: _select,
    Opcode.SINE: _circular,
}


def rule_of(instruction: Instruction) -> ElementRule:
    """Return the rule of an instruction; raises UnsupportedOpError where there is none."""
    rule = _RULES.get(instruction.opcode)
    if rule is None:
        raise no_rule(instruction)
    return rule


def has_rule(instruction: Instruction) -> bool:
    """Whether elements of an instruction can be computed one by one."""
    return instruction.opcode in _RULES
