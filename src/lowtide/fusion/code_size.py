"""The number of pieces of code for a value in one kernel: one for each index it is read at.

A slice, a concatenate or a gather makes code of its own for what it reads. Where several of them
follow each other the pieces multiply, though there are few instructions, and with them the times
that the value is computed for one element of the root. Only of the operands of a concatenate, a pad
and an update one alone is computed for each element.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

from lowtide.fusion.access import Access, access_of, composed, identity
from lowtide.ir import Instruction, Opcode

_Frame: TypeAlias = "tuple[Instruction, int] | None"
"""An operand that is read at an index of its own; None for the root's own index."""


class ValueNeeds(NamedTuple):
    """At how many different indices a value is needed for a root, and how often it is computed.

    `times` is per element of the root, an average over all of them.
    """

    pieces: int
    times: float


def needs(members: Mapping[Instruction, None], root: Instruction) -> dict[Instruction, ValueNeeds]:
    """Return what members and what they read are needed for by a root.

    Two indices are the same where one operation at one index of its own asks for both along equal
    dimensions.
    """
    known: dict[Instruction, ValueNeeds] = {}
    frames: dict[Instruction, dict[tuple[_Frame, Access], None]] = {
        root: {(None, identity(root.shape.dimensions)): None}
    }
    for reader in _readers_first(members, root):
        known[reader] = _sum(frames[reader], known)
        for number, operand in enumerate(reader.operands):
            access = access_of(reader, number)
            found = frames.setdefault(operand, {})
            if access is None:
                found[(reader, number), identity(operand.shape.dimensions)] = None
                continue
            for frame, outer in frames[reader]:
                found[frame, composed(outer, access)] = None
    for value, found in frames.items():
        if value not in known:
            known[value] = _sum(found, known)
    return {value: known[value] for value in frames}


def most_pieces(found: Mapping[Instruction, ValueNeeds]) -> int:
    """Return at how many different indices any one value is needed, at most."""
    return max([x.pieces for x in found.values()])


def _sum(
    frames: Mapping[tuple[_Frame, Access], None], known: Mapping[Instruction, ValueNeeds]
) -> ValueNeeds:
    if len(frames) == 1:
        ((frame, _),) = frames
        return _ONE if frame is None else _through(frame, known)
    pieces, times = 0, 0.0
    for frame, _ in frames:
        found = _ONE if frame is None else _through(frame, known)
        pieces, times = pieces + found.pieces, times + found.times
    return ValueNeeds(pieces, times)


_ONE: Final = ValueNeeds(1, 1.0)


def _through(frame: tuple[Instruction, int], known: Mapping[Instruction, ValueNeeds]) -> ValueNeeds:
    """What an operand is needed for by one reader, which has an index of its own for it."""
    reader, number = frame
    found = known[reader]
    if reader.opcode not in _BRANCHES:
        return found
    return ValueNeeds(found.pieces, found.times * share(reader, number))


_BRANCHES: Final[dict[Opcode, int | None]] = {
    Opcode.CONCATENATE: None,
    Opcode.PAD: 0,
    Opcode.DYNAMIC_UPDATE_SLICE: 1,
}
"""By opcode the operand that is computed for some of the elements only; None for all of them."""


def share(reader: Instruction, number: int) -> float:
    """Return the part of the elements of an instruction for which an operand is computed."""
    opcode = reader.opcode
    if opcode not in _BRANCHES or _BRANCHES[opcode] not in (None, number):
        return 1.0
    elements = max(1, reader.shape.element_count)
    return min(1.0, reader.operands[number].shape.element_count / elements)


def _readers_first(members: Mapping[Instruction, None], root: Instruction) -> list[Instruction]:
    """The members that a root is made of, each after all that read it."""
    order: list[Instruction] = []
    seen = {root}
    stack = [(root, iter(root.operands))]
    while stack:
        member, operands = stack[-1]
        for x in operands:
            if x in members and x not in seen:
                seen.add(x)
                stack.append((x, iter(x.operands)))
                break
        else:
            order.append(member)
            stack.pop()
    return order[::-1]
