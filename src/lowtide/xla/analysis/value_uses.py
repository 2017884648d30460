"""Uses of values by instructions: operations that only pass on do not count."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lowtide.ir import Instruction, Opcode, ShapeIndex
from lowtide.xla.analysis.hlo_value import HloPosition, HloValue, Use
from lowtide.xla.analysis.position_graph import PositionGraph
from lowtide.xla.analysis.reaching_values import ReachingValues

_READS_NOTHING: Final = frozenset({Opcode.DOMAIN, Opcode.TUPLE})
_READS_TABLE: Final = frozenset({Opcode.COPY, Opcode.GET_TUPLE_ELEMENT})
"""Operations that read the outermost table of a tuple and pass its elements on."""


def may_use(user: Instruction, index: ShapeIndex) -> bool:
    """Whether an operation reads an operand at `index`, as XLA counts.

    A call and a loop pass their operands on, but do count.
    """
    return user.opcode not in _READS_NOTHING and not (index and user.opcode in _READS_TABLE)


def collect_values(graph: PositionGraph, reaching: ReachingValues) -> list[HloValue]:
    """Return the values of a module with their positions and uses, numbered in order."""
    positions = _positions(graph, reaching)
    readers = _readers(graph)
    root = graph.module.entry.root
    values = []
    for number, start in enumerate(_order(positions, reaching.phis)):
        places = positions[start]
        shape = places[0].shape
        values.append(
            HloValue(
                number,
                places[0],
                start in reaching.phis,
                tuple(places),
                tuple(_uses(places, readers)),
                shape.memory_space,
                any(place.instruction is root for place in places),
            )
        )
    return values


def _order(positions: Mapping[int, object], phis: Mapping[int, None]) -> list[int]:
    """The values by their defining positions, phis behind the others: the order of XLA's ids."""
    return [*[x for x in positions if x not in phis], *phis]


def _positions(graph: PositionGraph, reaching: ReachingValues) -> dict[int, list[HloPosition]]:
    """Return the positions of each value, by the number of the defining one, which comes first."""
    found: dict[int, list[HloPosition]] = {}
    elsewhere: list[tuple[int, HloPosition]] = []
    at = reaching.at
    number = 0
    for instruction in graph.instructions:
        for index in graph.subshapes(instruction.shape).indices:
            place = HloPosition(instruction, index)
            if at[number] == number:
                found[number] = [place]
            else:
                elsewhere += [(value, place) for value in reaching.values(number)]
            number += 1
    for value, place in elsewhere:
        found[value].append(place)
    return found


def _readers(graph: PositionGraph) -> dict[Instruction, list[tuple[Instruction, int]]]:
    """Return the users of each instruction with the numbers of the operand."""
    readers: dict[Instruction, list[tuple[Instruction, int]]] = {}
    for user in graph.instructions:
        if user.opcode not in _READS_NOTHING:
            for number, operand in enumerate(user.operands):
                readers.setdefault(operand, []).append((user, number))
    return readers


def _uses(
    places: list[HloPosition], readers: dict[Instruction, list[tuple[Instruction, int]]]
) -> list[Use]:
    return [
        Use(user, number, place.index)
        for place in places
        for user, number in readers.get(place.instruction, ())
        if may_use(user, place.index)
    ]
