"""Constants whose values the text leaves out, taken for the zeros that a run puts there."""

from __future__ import annotations

from lowtide.ir import Module
from lowtide.ir.attributes import Constant
from lowtide.ir.literal import Literal


def fill_elided_values(module: Module) -> int:
    """Give constants without values zeros that passes may count on; return how many there were.

    For modules that run: what only plans memory does not know the values, and must not use them.
    """
    changes = 0
    for computation in module.computations.values():
        for x in computation.instructions.values():
            attributes = x.attributes
            if isinstance(attributes, Constant) and attributes.literal.elided:
                literal = attributes.literal
                x.set_attributes(Constant(Literal(literal.shape, literal.value)))
                changes += 1
    return changes
