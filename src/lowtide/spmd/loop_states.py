"""Leaves of the state of a loop that its body returns as they were, or only adds to."""

from __future__ import annotations

from lowtide.ir import Instruction, Opcode
from lowtide.ir.attributes import GetTupleElement


def unchanged(loop: Instruction) -> frozenset[int]:
    """Return the leaves of the state that the body of a loop returns as it got them."""
    body = loop.called_computations[1]
    root = body.root
    if root.opcode is not Opcode.TUPLE or any(s.is_tuple for s in loop.shape.tuple_shapes):
        return frozenset()
    return frozenset(
        [
            place
            for place, x in enumerate(root.operands)
            if x.opcode is Opcode.GET_TUPLE_ELEMENT
            and x.operands[0] is body.parameters[0]
            and x.attributes_as(GetTupleElement).index == place
        ]
    )


def accumulated(loop: Instruction) -> dict[int, Instruction]:
    """Return the leaves of the state that the body of a loop only adds something to, and what."""
    condition, body = loop.called_computations
    root = body.root
    if root.opcode is not Opcode.TUPLE or any(s.is_tuple for s in loop.shape.tuple_shapes):
        return {}
    state = body.parameters[0]
    read = {_place(x) for x in condition.parameters[0].users}
    given = {_place(x) for x in state.users}
    if None in read or None in given:
        return {}
    found = {}
    for place, total in enumerate(root.operands):
        if total.opcode is not Opcode.ADD or place in read or len(total.users) > 1:
            continue
        readers = [y for x in state.users if _place(x) == place for y in x.users]
        addends = [y for y in total.operands if _place(y) != place or y.operands[0] is not state]
        if readers == [total] and len(addends) == 1:
            found[place] = addends[0]
    return found


def _place(x: Instruction) -> int | None:
    """Return the element of the state that an instruction reads, None for all of it."""
    is_element = x.opcode is Opcode.GET_TUPLE_ELEMENT
    return x.attributes_as(GetTupleElement).index if is_element else None
