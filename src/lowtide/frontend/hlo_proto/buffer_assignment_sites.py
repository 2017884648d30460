"""The call sites of a module, and where the values that a result passes on were made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from lowtide.ir.attributes import GetTupleElement
from lowtide.ir.buffer import BufferSlice
from lowtide.ir.computation import Computation
from lowtide.ir.errors import LowtideError
from lowtide.ir.instruction import Instruction
from lowtide.ir.module import Module
from lowtide.ir.opcode import CALLERS, Opcode
from lowtide.ir.shape import ShapeIndex
from lowtide.records import dataclass

Position = tuple[Instruction, ShapeIndex]
"""An instruction and the index of an element of its result."""

_MOST_SITES: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class ModuleSite:
    """A computation run by `caller`, within the site of number `parent`; None and -1: the entry."""

    computation: Computation
    caller: Instruction | None
    parent: int


def sites_of(module: Module) -> tuple[ModuleSite, ...]:
    """Return the call sites of a module, numbered as they begin; the entry is number 0.

    Computations that are applied per element have none. Raises LowtideError for more than a million
    sites, which only calls of calls of calls have.
    """
    sites = [ModuleSite(module.entry, None, -1)]
    stack = [(0, _calls(module, module.entry))]
    known: dict[Computation, list[tuple[Instruction, Computation]]] = {}
    while stack:
        parent, calls = stack[-1]
        call = next(calls, None)
        if call is None:
            stack.pop()
            continue
        caller, callee = call
        if callee not in known:
            known[callee] = list(_calls(module, callee))
        stack.append((len(sites), iter(known[callee])))
        sites.append(ModuleSite(callee, caller, parent))
        if len(sites) > _MOST_SITES:
            raise LowtideError(f"{module.name} has more than {_MOST_SITES:,} call sites")
    return tuple(sites)


def _calls(module: Module, computation: Computation) -> Iterator[tuple[Instruction, Computation]]:
    """Yield the calls made in a computation, in order of execution."""
    sequences = {} if module.schedule is None else module.schedule.sequences
    for instruction in sequences.get(computation, computation.instructions.values()):
        if instruction.opcode in CALLERS:
            for callee in instruction.called_computations:
                yield instruction, callee


def is_phi(site: ModuleSite, instruction: Instruction) -> bool:
    """Whether a value made by an instruction stands for one of several, as in XLA's dataflow.

    What loops and conditionals return is such a value, and what a called computation gets, where
    that has a value of its own.
    """
    if instruction.opcode is Opcode.PARAMETER:
        return site.caller is not None
    return instruction.opcode in (Opcode.WHILE, Opcode.CONDITIONAL)


# -- following a value to where it is made -----------------------------------------------------


class Follower:
    """Finds the slices of values from the slices of the positions that make them, per site."""

    def __init__(
        self, sites: tuple[ModuleSite, ...], places: Mapping[tuple[int, Position], BufferSlice]
    ):
        self._sites = sites
        self._places = places
        self._callees: dict[tuple[int, Instruction], list[int]] = {}
        for number, site in enumerate(sites):
            if site.caller is not None:
                self._callees.setdefault((site.parent, site.caller), []).append(number)

    def place(self, site: int, instruction: Instruction, index: ShapeIndex) -> BufferSlice | None:
        """Return the slice of an element of a result; None where none of its sources has one.

        A loop or a conditional without a value of its own passes on what goes in.
        """
        here: tuple[int, Position] | None = (site, (instruction, index))
        while here is not None:
            place = self._places.get(here)
            if place is not None:
                return place
            here = self._step(here[0], *here[1])
        return None

    def _step(
        self, site: int, instruction: Instruction, index: ShapeIndex
    ) -> tuple[int, Position] | None:
        """Return the position that a position passes on; None where it makes a value."""
        opcode = instruction.opcode
        if opcode is Opcode.PARAMETER:
            return self._argument(site, instruction, index)
        if opcode in (Opcode.CALL, Opcode.CONDITIONAL) or _is_wrapped_result(opcode, index):
            callee = self._callees[site, instruction][0]
            inner = index[1:] if opcode is Opcode.ASYNC_START else index
            return callee, (self._sites[callee].computation.root, inner)
        found = forwarded(instruction, index)
        return None if found is None else (site, found)

    def _argument(
        self, site: int, parameter: Instruction, index: ShapeIndex
    ) -> tuple[int, Position] | None:
        caller, parent = self._sites[site].caller, self._sites[site].parent
        if caller is None:
            return None
        number = self._sites[site].computation.parameters.index(parameter)
        if caller.opcode is Opcode.CONDITIONAL:
            number = 1 + self._callees[parent, caller].index(site)
        return parent, (caller.operands[number], index)


def _is_wrapped_result(opcode: Opcode, index: ShapeIndex) -> bool:
    return opcode is Opcode.ASYNC_START and index[:1] == (1,)


def forwarded(instruction: Instruction, index: ShapeIndex) -> Position | None:
    """Return the operand's element that an element without a value of its own is; None for none."""
    opcode = instruction.opcode
    if opcode is Opcode.TUPLE:
        return (instruction.operands[index[0]], index[1:]) if index else None
    if opcode is Opcode.GET_TUPLE_ELEMENT:
        number = instruction.attributes_as(GetTupleElement).index
        return instruction.operands[0], (number, *index)
    if opcode in _SAME_INDEX or _is_annotation(instruction):
        return instruction.operands[0], index
    if opcode is Opcode.COPY:
        return (instruction.operands[0], index) if index else None
    if opcode in _TAKES:
        return instruction.operands[0], (_TAKES[opcode], *index)
    if opcode in _STARTS and index[:1] == (_STARTS[opcode],):
        return _started(instruction, index[1:])
    if opcode is Opcode.RECV_DONE and index[:1] == (0,):
        return instruction.operands[0], index
    return None


def _is_annotation(instruction: Instruction) -> bool:
    """Whether a custom call may be one that says something about its operand and passes it on."""
    if instruction.opcode is not Opcode.CUSTOM_CALL or len(instruction.operands) != 1:
        return False
    return instruction.shape.compatible(instruction.operands[0].shape)


def _started(instruction: Instruction, index: ShapeIndex) -> Position | None:
    """Return the operand's element at an index of the operands that a start passes on."""
    many = len(instruction.operands) > 1 or instruction.opcode is Opcode.ASYNC_START
    if not many or instruction.opcode is Opcode.SEND:
        return instruction.operands[0], index
    if not index or index[0] >= len(instruction.operands):
        return None
    return instruction.operands[index[0]], index[1:]


_SAME_INDEX: Final = frozenset(
    {
        Opcode.ADD_DEPENDENCY,
        Opcode.ALL_REDUCE_DONE,
        Opcode.ASYNC_UPDATE,
        Opcode.BITCAST,
        Opcode.DOMAIN,
        Opcode.OPTIMIZATION_BARRIER,
        Opcode.RESHAPE,
        Opcode.TRANSPOSE,
        Opcode.WHILE,
    }
)
"""What passes its operand on as it is, if it has no value of its own."""
_TAKES: Final = {
    Opcode.ALL_GATHER_DONE: 1,
    Opcode.ASYNC_DONE: 1,
    Opcode.COLLECTIVE_PERMUTE_DONE: 1,
    Opcode.COPY_DONE: 0,
}
"""Ends of asynchronous operations, and which element of their operand they return."""
_STARTS: Final = {
    Opcode.ALL_GATHER_START: 0,
    Opcode.ASYNC_START: 0,
    Opcode.COLLECTIVE_PERMUTE_START: 0,
    Opcode.COPY_START: 1,
    Opcode.SEND: 0,
}
"""Starts of asynchronous operations, and which element of their result is what they were given."""
