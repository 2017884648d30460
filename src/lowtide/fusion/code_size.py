"""The number of pieces of code for a value in one kernel: one for each index it is read at.

A slice, a concatenate or a gather makes code of its own for what it reads. Where several of them
follow each other the pieces multiply, though there are few instructions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from lowtide.fusion.access import Access, access_of, composed, identity
from lowtide.ir import Instruction

_Frame: TypeAlias = "tuple[Instruction, int] | None"
"""An operand that is read at an index of its own; None for the root's own index."""


def pieces(members: Mapping[Instruction, None], root: Instruction) -> dict[Instruction, int]:
    """Return at how many different indices members and what they read are needed for a root.

    Two indices are the same where one operation at one index of its own asks for both along equal
    dimensions.
    """
    counts: dict[Instruction, int] = {}
    frames: dict[Instruction, dict[tuple[_Frame, Access], None]] = {
        root: {(None, identity(root.shape.dimensions)): None}
    }
    for reader in _readers_first(members, root):
        counts[reader] = _count(frames[reader], counts)
        for number, operand in enumerate(reader.operands):
            access = access_of(reader, number)
            found = frames.setdefault(operand, {})
            if access is None:
                found[(reader, number), identity(operand.shape.dimensions)] = None
                continue
            for frame, outer in frames[reader]:
                found[frame, composed(outer, access)] = None
    return {value: _count(found, counts) for value, found in frames.items()}


def _count(frames: Mapping[tuple[_Frame, Access], None], counts: Mapping[Instruction, int]) -> int:
    return sum([1 if frame is None else counts[frame[0]] for frame, _ in frames])


def _readers_first(members: Mapping[Instruction, None], root: Instruction) -> list[Instruction]:
    """The members that a root is made of, each after all that read it."""
    order: list[Instruction] = []
    seen = {root}
    stack = [(root, iter(root.operands))]
    while stack:
        member, operands = stack[-1]
        following = next((x for x in operands if x in members and x not in seen), None)
        if following is None:
            order.append(member)
            stack.pop()
            continue
        seen.add(following)
        stack.append((following, iter(following.operands)))
    return order[::-1]
