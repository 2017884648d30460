"""The way from a product to what is computed of it: which elements of results belong to which sum.

An epilogue has one element of the product at hand. All that reads the product before a result must
therefore read that element, whatever way it takes: the sum of a product and of its transpose reads
two.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elements.parts import bitcast_index, reshaped
from lowtide.codegen.indexing import Index
from lowtide.ir import Instruction, Opcode
from lowtide.ir.attributes import Dimensions
from lowtide.ir.traversal import post_order
from lowtide.ops.overwriting import is_in_order
from lowtide.ops.table import TABLE

Form: TypeAlias = "tuple[Instruction, ...]"
"""What moved or renamed the elements of the product on the way to a value, first things first."""

SAME: Final[Form] = ()
"""The form of what has each element where the product has it."""


def forms_behind(dot: Instruction) -> dict[Instruction, Form | None]:
    """Return the form of all that depends on a product, in its computation.

    None stands for what needs more of the product than one element for each of its own, or two
    elements that lie in different places.
    """
    forms: dict[Instruction, Form | None] = {dot: SAME}
    for x in post_order(dot.parent):
        known = [y for y in x.operands if y in forms]
        if known and x is not dot:
            forms[x] = _form(x, known, forms)
    return forms


def _form(
    x: Instruction, known: list[Instruction], forms: dict[Instruction, Form | None]
) -> Form | None:
    """The form of an instruction some of whose operands depend on the product."""
    found = forms[known[0]]
    if found is None or any(forms[y] != found for y in known):
        return None
    if not all(_keeps_apart(x, y) for y in known):
        return None
    return found if TABLE[x.opcode].elementwise else (*found, x)


def _keeps_apart(step: Instruction, source: Instruction) -> bool:
    """Whether an operation makes each of its elements of one element of an operand."""
    if step.opcode is Opcode.TRANSPOSE:
        return True
    if step.opcode in (Opcode.RESHAPE, Opcode.BITCAST, Opcode.BROADCAST):
        before, after = source.shape, step.shape
        if before.element_count != after.element_count:
            return False
        is_ordered = step.opcode is not Opcode.BROADCAST or is_in_order(step)
        return before.element_type is after.element_type and is_ordered
    return TABLE[step.opcode].elementwise and source.shape.dimensions == step.shape.dimensions


def index_of(elements: Elements, dot: Instruction, index: Index, result: Instruction) -> Index:
    """Return the index of a result where it is computed of the product at `index`."""
    form = forms_behind(dot).get(result)
    if form is None:
        if result.shape.dimensions == dot.shape.dimensions:
            return index
        return reshaped(elements, index, dot.shape.dimensions, result.shape.dimensions)
    for step in form:
        index = _after(elements, index, step)
    return index


def _after(elements: Elements, index: Index, step: Instruction) -> Index:
    """Return the index behind an operation that moves or renames elements."""
    if step.opcode is Opcode.TRANSPOSE:
        return tuple([index[d] for d in step.attributes_as(Dimensions).dimensions])
    if step.opcode is Opcode.BITCAST:
        return bitcast_index(elements, index, step.operands[0].shape, step.shape)
    sizes = step.operands[0].shape.dimensions
    return reshaped(elements, index, sizes, step.shape.dimensions)
