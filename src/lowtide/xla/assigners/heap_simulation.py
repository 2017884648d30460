"""Replaying a program on a heap: when values come and go, and which take over operands' places."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import TypeVar, final

from lowtide.ir.buffer import HeapEvent, HeapEventKind
from lowtide.planning.heap.steps import HeapStep, HeapStepKind
from lowtide.records import dataclass
from lowtide.xla.analysis.hlo_alias import HloAliasAnalysis, HloBuffer
from lowtide.xla.analysis.hlo_value import HloValue
from lowtide.xla.assigners.options import Demand, OperandSharing

Ranges = Mapping[HloValue, tuple[int, int]]
"""When values are live, in steps of a total order, both ends included."""


@dataclass(frozen=True, slots=True)
class HeapRun:
    """The events of a program, as the heap takes them and as a trace tells them."""

    steps: tuple[HeapStep, ...]
    events: tuple[HeapEvent, ...]


def simulate_heap(
    values: Iterable[HloValue],
    ranges: Ranges,
    alias: HloAliasAnalysis,
    sharing: OperandSharing,
    number: Mapping[HloValue, int],
) -> HeapRun:
    """Return the events of the values to place.

    At each step all values that begin come first, then those that end. Values of one buffer share
    a place. A value whose instruction reads an operand for the last time takes over its place,
    where both are alone in their buffers and the operation allows it. `number` breaks ties and
    names values in the events.
    """
    return _Simulation(list(values), ranges, alias, sharing, number).run()


@final
class _Simulation:
    def __init__(
        self,
        values: list[HloValue],
        ranges: Ranges,
        alias: HloAliasAnalysis,
        sharing: OperandSharing,
        number: Mapping[HloValue, int],
    ) -> None:
        self.ranges = ranges
        self.number = number
        self.alias = alias
        self.sharing = sharing
        self.steps: list[HeapStep] = []
        self.events: list[HeapEvent] = []
        self.first_of: dict[HloBuffer, HloValue] = {}
        self.begin: dict[int, list[HloValue]] = {}
        self.end: dict[int, dict[HloValue, None]] = {}
        for value in sorted(values, key=lambda x: (*ranges[x], number[x])):
            first, last = ranges[value]
            self.begin.setdefault(first, []).append(value)
            self.end.setdefault(last, {})[value] = None

    def run(self) -> HeapRun:
        for step in sorted({*self.begin, *self.end}):
            ending = self.end.get(step, {})
            for value in self.begin.get(step, ()):
                self._begin(value, ending)
            for value in ending:
                self._record(HeapEventKind.FREE, value)
        return HeapRun(tuple(self.steps), tuple(self.events))

    def _begin(self, value: HloValue, ending: dict[HloValue, None]) -> None:
        buffer = self.alias.buffer_of(value)
        first = self.first_of.get(buffer)
        if first is not None:
            self._record(HeapEventKind.SHARE, value, first)
            return
        operand = self._operand_to_take_over(value, buffer, ending)
        if operand is None:
            self._record(HeapEventKind.ALLOCATE, value)
            self.first_of[buffer] = value
            return
        self._record(HeapEventKind.FREE, operand)
        del ending[operand]
        self._record(HeapEventKind.SHARE, value, operand)

    def _operand_to_take_over(
        self, value: HloValue, buffer: HloBuffer, ending: Container[HloValue]
    ) -> HloValue | None:
        """The first value of an operand that ends here and may be overwritten."""
        if len(buffer.values) > 1:
            return None
        dataflow = self.alias.dataflow
        operands = value.instruction.operands
        for operand in operands:
            for found in dataflow.value_set(operand):
                alone = len(self.alias.buffer_of(found).values) == 1
                if not (alone and found in ending and found.instruction in operands):
                    continue
                if self.sharing.may_take_over(value, (found.defining,)):
                    return found
        return None

    def _record(
        self, kind: HeapEventKind, value: HloValue, shares_with: HloValue | None = None
    ) -> None:
        nbytes = self.alias.buffer_of(value).nbytes
        other = -1 if shares_with is None else self.number[shares_with]
        self.steps.append(HeapStep(HeapStepKind(kind.value), self.number[value], nbytes, other))
        instruction = value.instruction
        self.events.append(
            HeapEvent(
                kind,
                self.number[value],
                instruction.parent.name,
                instruction.name,
                None if shares_with is None else other,
            )
        )


V = TypeVar("V", bound=Demand)


def values_at_peak(events: Iterable[HeapEvent], values: Mapping[int, V]) -> list[V]:
    """Return the values in use when most bytes are, the first time, in order of their numbers.

    Values in one place count once at a time.
    """
    place: dict[int, int] = {}
    users: dict[int, int] = {}
    live: dict[int, None] = {}
    peak: list[int] = []
    nbytes = most = 0
    for event in events:
        number = event.value
        if event.kind is HeapEventKind.FREE:
            del live[number]
            users[place[number]] -= 1
            nbytes -= 0 if users[place[number]] else values[number].nbytes
            continue
        live[number] = None
        shared = event.shares_with
        place[number] = number if shared is None else place[shared]
        users[place[number]] = users.get(place[number], 0) + 1
        nbytes += values[number].nbytes if users[place[number]] == 1 else 0
        if nbytes > most:
            most, peak = nbytes, sorted(live)
    return [values[number] for number in peak]
