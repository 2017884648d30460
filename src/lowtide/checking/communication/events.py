"""Events of a device that others wait for, in the order in which it comes to them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from lowtide.checking.communication.participants import COLLECTIVES
from lowtide.checking.order import callees, computations
from lowtide.ir import Computation, Instruction, LowtideError, Module, Opcode
from lowtide.ir.traversal import post_order

MOST_EVENTS: Final = 1_000_000
"""So many of one device can be checked; calls of calls of calls have more."""

_STARTS: Final = frozenset({Opcode.ALL_GATHER_START, Opcode.ALL_REDUCE_START}) | {
    Opcode.COLLECTIVE_PERMUTE_START
}
_DONES: Final = frozenset(
    {Opcode.ALL_GATHER_DONE, Opcode.ALL_REDUCE_DONE, Opcode.COLLECTIVE_PERMUTE_DONE}
)

_CHANNELS: Final = frozenset({Opcode.SEND, Opcode.RECV, Opcode.SEND_DONE, Opcode.RECV_DONE})

Within = tuple["BranchChoice", ...]


@dataclass(frozen=True, slots=True)
class BranchChoice:
    """A loop, or a branch of a conditional, that a device may run or not.

    `branch` is the number of the branch; -1 stands for the body of a loop, -2 for its condition.
    """

    instruction: Instruction
    branch: int


@dataclass(frozen=True, slots=True)
class Event:
    """A device joins a collective, and waits for the others if `waits`, or only now waits.

    `within` are the loops and branches around it, the outermost first.
    """

    collective: Instruction
    joins: bool
    waits: bool
    within: Within


class DeviceEvents:
    """The events of one program, loops and all branches once, as every device of it runs them."""

    def __init__(self, module: Module) -> None:
        """Raise LowtideError where the program has too many events."""
        self.module = module
        self.unchecked: list[Instruction] = []
        """Sends and receives, whose partners a module does not say."""
        self._speaking = _speaking(module)
        self.events = tuple(self._events())

    def _events(self) -> list[Event]:
        found: list[Event] = []
        within: Within = ()
        waiting: list[tuple[Within, Iterator[Instruction]]] = [
            (within, iter(self._sequence(self.module.entry)))
        ]
        while waiting:
            within, sequence = waiting[-1]
            x = next(sequence, None)
            if x is None:
                waiting.pop()
                continue
            found += self._of(x, within)
            if len(found) > MOST_EVENTS:
                raise LowtideError(
                    f"{self.module.name} has more than {MOST_EVENTS:,} collectives with each call "
                    "written out: call less often, or loop"
                )
            called = [y for y in self._called(x) if y[0] in self._speaking]
            for computation, branch in reversed(called):
                choice = () if branch is None else (BranchChoice(x, branch),)
                waiting.append(((*within, *choice), iter(self._sequence(computation))))
        return found

    def _sequence(self, computation: Computation) -> Sequence[Instruction]:
        schedule = self.module.schedule
        if schedule is not None and computation in schedule.sequences:
            return schedule.sequences[computation]
        return post_order(computation)

    def _of(self, x: Instruction, within: Within) -> list[Event]:
        if x.opcode in _CHANNELS:
            self.unchecked.append(x)
        wrapped = _wrapped(x)
        if x.opcode is Opcode.ASYNC_START and wrapped is not None:
            return [Event(wrapped, joins=True, waits=False, within=within)]
        if x.opcode is Opcode.ASYNC_DONE and wrapped is not None:
            return [Event(wrapped, joins=False, waits=True, within=within)]
        if x.opcode in _DONES:
            return [Event(_start_of(x), joins=False, waits=True, within=within)]
        if x.opcode in COLLECTIVES:
            return [Event(x, joins=True, waits=x.opcode not in _STARTS, within=within)]
        return []

    def _called(self, x: Instruction) -> list[tuple[Computation, int | None]]:
        """The computations that an instruction runs, with the choice that each one is."""
        if _wrapped(x) is not None:
            return []
        if x.opcode is Opcode.WHILE:
            condition, body = x.called_computations
            return [(condition, -2), (body, -1)]
        if x.opcode is Opcode.CONDITIONAL:
            return [(y, i) for i, y in enumerate(x.called_computations)]
        return [(y, None) for y in callees(x)]


def _speaking(module: Module) -> set[Computation]:
    """The computations in which, or below which, a device speaks to others."""
    found: set[Computation] = set()
    for computation in computations(module.entry):
        for x in computation.instructions.values():
            is_own = x.opcode in COLLECTIVES or x.opcode in _CHANNELS
            if is_own or any(y in found for y in callees(x)):
                found.add(computation)
                break
    return found


def _wrapped(x: Instruction) -> Instruction | None:
    """The collective that an asynchronous instruction runs; None where it is none."""
    start = _start_of(x) if x.opcode in (Opcode.ASYNC_DONE, Opcode.ASYNC_UPDATE) else x
    if start.opcode is not Opcode.ASYNC_START:
        return None
    root = start.called_computations[0].root
    return root if root.opcode in COLLECTIVES else None


def _start_of(done: Instruction) -> Instruction:
    """The start that a done belongs to, behind updates and what only passes it on."""
    x = done.operands[0]
    while x.opcode in _PASSING:
        x = x.operands[0]
    return x


_PASSING: Final = frozenset({Opcode.ASYNC_UPDATE, Opcode.BITCAST, Opcode.COPY})
