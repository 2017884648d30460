"""Collectives of a compiled program as ranks run them, read from its scheduled module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from lowtide.ir.attributes import Collective
from lowtide.ir.errors import place_of
from lowtide.ir.instruction import Instruction
from lowtide.ir.module import Module
from lowtide.ir.opcode import Opcode
from lowtide.ir.thunk import Thunk, collective_thunks
from lowtide.runtime.mpi.link import RankCollective

_WHOLE: Final[Mapping[Opcode, Opcode]] = {
    Opcode.ALL_GATHER_START: Opcode.ALL_GATHER,
    Opcode.ALL_REDUCE_START: Opcode.ALL_REDUCE,
    Opcode.COLLECTIVE_PERMUTE_START: Opcode.COLLECTIVE_PERMUTE,
}
"""Operations that are started, and the same in one step."""

_DONE: Final = frozenset(
    {Opcode.ALL_GATHER_DONE, Opcode.ALL_REDUCE_DONE, Opcode.COLLECTIVE_PERMUTE_DONE}
)


def instructions_named(module: Module) -> dict[str, Instruction]:
    """Return all instructions of a module by name."""
    computations = module.computations.values()
    return {name: x for y in computations for name, x in y.instructions.items()}


def place_in(given: Mapping[str, Instruction], instruction: Instruction) -> str:
    """Return where an instruction comes from: the program, or the text that was given.

    `given` are the instructions of the module before it was compiled.
    """
    known = given.get(instruction.name)
    if instruction.source is None and known is not None and known.opcode is instruction.opcode:
        return place_of(known)
    if instruction.source is None:
        return f"computation {instruction.parent.name} of module {instruction.parent.module.name}"
    return place_of(instruction)


def collectives_of(
    thunks: Sequence[Thunk], scheduled: Mapping[str, Instruction], given: Mapping[str, Instruction]
) -> dict[str, RankCollective]:
    """Return the collectives of a program by the names of their instructions in `scheduled`."""
    found = {}
    for thunk in collective_thunks(thunks):
        instruction, collective = scheduled[thunk.name], thunk.collective
        attributes = instruction.attributes
        called = instruction.called_computations
        found[thunk.name] = RankCollective(
            thunk.name,
            place_in(given, instruction),
            _WHOLE.get(instruction.opcode, instruction.opcode),
            collective.operands,
            collective.results,
            collective.groups,
            collective.pairs,
            attributes.dimension if isinstance(attributes, Collective) else None,
            called[0].root.opcode if called else None,
        )
    return found


def names_before(module: Module) -> dict[str, frozenset[str]]:
    """Return the operations that are started, each with what runs before it has to be finished.

    That is all before its end in the schedule of its computation.
    """
    assert module.schedule is not None
    found = {}
    for sequence in module.schedule.sequences.values():
        names: list[str] = []
        for x in sequence:
            if x.opcode in _DONE:
                found[x.operands[0].name] = frozenset(names)
            names.append(x.name)
    return found
