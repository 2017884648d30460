"""Constants whose values the text leaves out, in a program that is to run: each is 0 there."""

from __future__ import annotations

from dataclasses import replace

from lowtide.ir import Module, Opcode
from lowtide.ir.attributes import Constant
from lowtide.ir.literal import Literal


def make_elided_alike(module: Module) -> int:
    """Have elided constants of equal shapes count as equal; return how many there are.

    They run as zeros. That they are 0 is not used: a program takes as long as with other values.
    """
    changes = 0
    for computation in module.computations.values():
        for x in computation.instructions.values():
            if x.opcode is not Opcode.CONSTANT:
                continue
            constant = x.attributes_as(Constant)
            literal = constant.literal
            if literal.is_unique:
                alike = Literal(literal.shape, literal.value, elided=True, alike=True)
                x.set_attributes(replace(constant, literal=alike))
                changes += 1
    return changes
