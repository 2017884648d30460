"""Devices step by step, each until it has to wait: what nobody can end is a deadlock.

The members of a group meet in the order in which each of them comes: the k-th collective that one
starts in a group is the k-th of all others there. So it is with communicators, of MPI and NCCL.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lowtide.checking.communication.events import BranchChoice, Event
from lowtide.checking.communication.participants import groups_of
from lowtide.ir import Instruction, Opcode
from lowtide.ops.backend_config import known_trip_count

Group = tuple[int, ...]

MOST_FAULTS: Final = 20
"""So many are listed; behind the first, others are mostly its consequences."""


@dataclass(frozen=True, slots=True)
class CommunicationFault:
    """A collective that does not come about: on which device, which one, and why."""

    device: int
    instruction: str
    words: str

    def __str__(self) -> str:
        return f"device {self.device}, %{self.instruction}: {self.words}"


@dataclass(slots=True)
class _Device:
    """Where a device stands, and what it has started: per group how often, per collective when."""

    events: Sequence[Event]
    position: int
    joined: dict[Group, int]
    places: dict[Instruction, tuple[Group, int]]


class CollectiveMatching:
    """The collectives of all devices, and who has come to each."""

    def __init__(self, events: Sequence[Sequence[Event]]) -> None:
        self._devices = [_Device(x, 0, {}, {}) for x in events]
        self._first: dict[tuple[Group, int], tuple[int, Event]] = {}
        self._missing: dict[tuple[Group, int], int] = {}
        self._waiting: dict[tuple[Group, int], list[int]] = {}
        self._group_of: dict[tuple[Instruction, int], Group] = {}
        self._grouped: set[Instruction] = set()
        self._says: dict[Instruction, tuple[Any, ...]] = {}
        self.faults: list[CommunicationFault] = []

    def run(self) -> None:
        """Let all devices go as far as they can; what is left waits forever."""
        ready = list(range(len(self._devices)))
        while ready and len(self.faults) < MOST_FAULTS:
            ready += self._advance(ready.pop())
        if not self.faults:
            self.faults += self._stuck()

    def _advance(self, number: int) -> list[int]:
        """Let a device go until it waits; return those that go on because of it."""
        device = self._devices[number]
        released: list[int] = []
        while device.position < len(device.events):
            event = device.events[device.position]
            if event.joins:
                released += self._join(number, event)
            place = device.places.get(event.collective)
            if event.waits and place is not None and self._missing[place]:
                self._waiting.setdefault(place, []).append(number)
                device.position += 1
                return released
            device.position += 1
        return released

    def _join(self, number: int, event: Event) -> list[int]:
        group = self._group(event.collective, number)
        if group is None:
            return []
        device = self._devices[number]
        count = device.joined.get(group, 0)
        device.joined[group] = count + 1
        place = (group, count)
        device.places[event.collective] = place
        if place not in self._first:
            self._first[place] = (number, event)
            self._missing[place] = len(group)
        else:
            self._compare(number, event, *self._first[place])
        self._missing[place] -= 1
        return [] if self._missing[place] else self._waiting.pop(place, [])

    def _group(self, x: Instruction, number: int) -> Group | None:
        """The group of a device; None for one that a permutation leaves out."""
        if x not in self._grouped:
            self._grouped.add(x)
            for group in groups_of(x):
                for member in group:
                    self._group_of[x, member] = group
        return self._group_of.get((x, number))

    def _compare(self, number: int, event: Event, other: int, first: Event) -> None:
        """Note how a device's collective differs from that of who came first."""
        x, y = event.collective, first.collective
        if x is not y and self._said(x) != self._said(y):
            words = f"meets %{y.name} of device {other}, another operation: "
            for a, b in zip(self._said(x), self._said(y), strict=True):
                if a != b:
                    words += f"{a} here, {b} there"
                    break
            self.faults.append(CommunicationFault(number, x.name, words))
        elif _around(event) != _around(first):
            words = (
                f"is within {_around_text(event)}, but meets %{y.name} of device {other}, which is "
                f"within {_around_text(first)}"
            )
            self.faults.append(CommunicationFault(number, x.name, words))

    def _said(self, x: Instruction) -> tuple[Any, ...]:
        if x not in self._says:
            self._says[x] = tuple(signature(x))
        return self._says[x]

    def _stuck(self) -> Iterator[CommunicationFault]:
        for place, waiting in self._waiting.items():
            group, count = place
            _, event = self._first[place]
            absent = [x for x in group if self._devices[x].joined.get(group, 0) <= count]
            for number in waiting[:1]:
                yield CommunicationFault(
                    number, event.collective.name, f"waits for {self._where(absent)}"
                )

    def _where(self, absent: Sequence[int]) -> str:
        """Where the first of those who do not come stands instead."""
        number = absent[0]
        device = self._devices[number]
        more = f" and {len(absent) - 1} more" if len(absent) > 1 else ""
        if device.position >= len(device.events) and not self._is_waiting(number):
            return f"device {number}{more}, which has ended"
        at = device.events[device.position - 1].collective.name
        return f"device {number}{more}, which waits in %{at}"

    def _is_waiting(self, number: int) -> bool:
        return any(number in x for x in self._waiting.values())


def signature(x: Instruction) -> Iterator[str]:
    """Yield what all members of a group have to say alike, a phrase each."""
    yield _PLAIN.get(x.opcode, x.opcode).value
    yield "operands " + ", ".join([str(y.shape.without_layout()) for y in x.operands])
    dimension = getattr(x.attributes, "dimension", None)
    yield f"dimension {dimension}"
    yield f"channel_id {getattr(x.attributes, 'channel_id', None)}"
    pairs = getattr(x.attributes, "source_target_pairs", ())
    yield f"source_target_pairs {pairs}"
    reducers = [y for c in x.called_computations for y in c.instructions.values()]
    yield "reducer " + " ".join([y.opcode.value for y in reducers])


_PLAIN: Final = {
    Opcode.ALL_GATHER_START: Opcode.ALL_GATHER,
    Opcode.ALL_REDUCE_START: Opcode.ALL_REDUCE,
    Opcode.COLLECTIVE_PERMUTE_START: Opcode.COLLECTIVE_PERMUTE,
}


def _around(event: Event) -> tuple[tuple[str, int], ...]:
    return tuple([(_name(x), x.branch) for x in event.within])


def _name(choice: BranchChoice) -> str:
    """What tells a loop or conditional from others: how often it runs, where that is known."""
    x = choice.instruction
    count = known_trip_count(x) if x.opcode is Opcode.WHILE else None
    return f"%{x.name}" if count is None else f"a loop of {count}"


def _around_text(event: Event) -> str:
    return " of ".join([_name(x) for x in reversed(event.within)]) or "no loop or branch"
