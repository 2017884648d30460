"""The results of a fusion that scatters: what scatters make, and values beside it."""

from __future__ import annotations

from collections.abc import Iterable

from lowtide.codegen.elements.operands import roots_of
from lowtide.ir import Instruction, Opcode
from lowtide.ir.attributes import GetTupleElement
from lowtide.records import dataclass


@dataclass(frozen=True, slots=True)
class UpdatedResults:
    """What makes the results of a fusion: scatters, with the results of each, and plain values."""

    scatters: dict[Instruction, dict[int, int]]
    plain: dict[int, Instruction]


def updated_results(fusion: Instruction) -> UpdatedResults | None:
    """Return what makes the results, None where more than names is made of what scatters make."""
    scatters: dict[Instruction, dict[int, int]] = {}
    plain: dict[int, Instruction] = {}
    number = 0
    for root in roots_of(fusion.called_computations[0].root):
        source, part = root, 0
        while source.opcode in (Opcode.BITCAST, Opcode.GET_TUPLE_ELEMENT):
            if source.opcode is Opcode.GET_TUPLE_ELEMENT:
                part = source.attributes_as(GetTupleElement).index
            source = source.operands[0]
        if source.opcode is not Opcode.SCATTER:
            plain[number] = root
            number += 1
            continue
        parts = range(len(source.operands) // 2) if root.shape.is_tuple else [part]
        for each in parts:
            if each in scatters.setdefault(source, {}):
                return None
            scatters[source][each] = number
            number += 1
    complete = all(len(x.operands) // 2 == len(found) for x, found in scatters.items())
    return UpdatedResults(scatters, plain) if complete and not _reads_any(scatters) else None


def _reads_any(scatters: Iterable[Instruction]) -> bool:
    """Whether more than names is made of what scatters make."""
    made = list(scatters)
    for x in made:
        for user in x.users:
            if user.opcode in (Opcode.BITCAST, Opcode.GET_TUPLE_ELEMENT):
                made.append(user)
            elif user.opcode is not Opcode.TUPLE:
                return True
    return False
