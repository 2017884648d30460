"""The rules of all operations whose elements are computed one by one."""

from __future__ import annotations

from typing import Final

from lowtide.codegen.elements.control import CONTROL_RULES
from lowtide.codegen.elements.elements import ElementRule
from lowtide.codegen.elements.loops import LOOP_RULES
from lowtide.codegen.elements.operations import elementwise_rule
from lowtide.codegen.elements.parts import no_rule
from lowtide.codegen.elements.ragged import RAGGED_RULES
from lowtide.codegen.elements.rules import RULES
from lowtide.ir import Instruction, Opcode
from lowtide.ops.table import TABLE

_RULES: Final[dict[Opcode, ElementRule]] = {
    **{opcode: elementwise_rule for opcode, x in TABLE.items() if x.elementwise},
    **LOOP_RULES,
    **CONTROL_RULES,
    **RAGGED_RULES,
    **RULES,
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
