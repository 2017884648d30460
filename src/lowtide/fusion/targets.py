"""What an update in place may read of the array that it overwrites."""

from __future__ import annotations

from lowtide.fusion.cluster import Cluster
from lowtide.ir import Instruction, Opcode
from lowtide.ir.attributes import Slice
from lowtide.ops.table import TABLE
from lowtide.passes.matching import scalar_value


def reads_target_elsewhere(producer: Cluster, update: Cluster) -> bool:
    """Whether an update with a loop that it reads would read what it may have overwritten.

    It may read of its target just the element that it writes next. A scatter may write an element
    twice, so it may read nothing.
    """
    hero = update.hero
    if hero is None or hero.operands[0] not in producer.inputs:
        return False
    if hero.opcode is not Opcode.DYNAMIC_UPDATE_SLICE:
        return True
    target, written, *starts = hero.operands
    stack = [(written, True), *[(x, False) for x in starts]]
    seen = set(stack)
    while stack:
        x, in_place = stack.pop()
        if x is target and not in_place:
            return True
        if x not in producer.members and x not in update.members:
            continue
        is_part = in_place and _is_part(x, hero)
        found = [
            (y, is_part if y is target else in_place and _keeps_places(y, x)) for y in x.operands
        ]
        stack += [y for y in found if y not in seen]
        seen.update(found)
    return False


def _is_part(x: Instruction, hero: Instruction) -> bool:
    """Whether an instruction has, of what an update overwrites, just that."""
    target, written, *starts = hero.operands
    if x.opcode is Opcode.DYNAMIC_SLICE:
        return list(x.operands[1:]) == starts and x.shape.dimensions == written.shape.dimensions
    if x.opcode is Opcode.SLICE:
        return x.shape.dimensions == written.shape.dimensions and _starts_there(x, hero)
    return _keeps_places(target, x) and target.shape.element_count == written.shape.element_count


def _starts_there(part: Instruction, hero: Instruction) -> bool:
    """Whether a slice without strides starts where an update does."""
    attributes = part.attributes_as(Slice)
    values = [scalar_value(x) for x in hero.operands[2:]]
    known = [int(x) for x in values if x is not None]
    if len(known) < len(values) or any(stride != 1 for stride in attributes.strides):
        return False
    sizes = zip(hero.shape.dimensions, part.shape.dimensions, strict=True)
    lasts = [whole - size for whole, size in sizes]
    starts = [min(max(x, 0), last) for x, last in zip(known, lasts, strict=True)]
    return starts == list(attributes.starts)


def _keeps_places(operand: Instruction, x: Instruction) -> bool:
    """Whether element i of a result needs element i of an operand only, in row-major order."""
    if x.opcode in (Opcode.RESHAPE, Opcode.BITCAST):
        return True
    return TABLE[x.opcode].elementwise and operand.shape.dimensions == x.shape.dimensions
