"""Replaying a program on a heap instruction by instruction, as TensorFlow 1.14 did it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import final

from lowtide.analysis.call_graph import executed_callees
from lowtide.ir import Computation, Instruction
from lowtide.ir.buffer import HeapEvent, HeapEventKind
from lowtide.planning.heap.steps import HeapStep, HeapStepKind
from lowtide.xla.analysis.hlo_value import HloPosition
from lowtide.xla.analysis.points_to import LogicalBuffer, PointsToAnalysis
from lowtide.xla.analysis.value_uses import may_use
from lowtide.xla.assigners.heap_simulation import HeapRun
from lowtide.xla.assigners.options import OperandSharing

Sequences = Mapping[Computation, Sequence[Instruction]]


def simulate_sequence(
    computation: Computation,
    sequences: Sequences,
    buffers: Iterable[LogicalBuffer],
    points_to: PointsToAnalysis,
    sharing: OperandSharing,
) -> HeapRun:
    """Return the events of the buffers to place, in the order of a computation.

    A buffer begins with its instruction and ends with the last one that reads it, or at the end of
    the computation. Callees run within their caller, where `sequences` has them. A buffer may take
    over the place of an operand that ends there, and the heap sees only the place: it begins with
    the first buffer in it and ends with the last.
    """
    simulation = _Simulation(sequences, buffers, points_to, sharing)
    simulation.run(computation)
    return HeapRun(tuple(simulation.steps), tuple(simulation.events))


@final
class _Simulation:
    def __init__(
        self,
        sequences: Sequences,
        buffers: Iterable[LogicalBuffer],
        points_to: PointsToAnalysis,
        sharing: OperandSharing,
    ) -> None:
        self.sequences = sequences
        self.points_to = points_to
        self.sharing = sharing
        self.steps: list[HeapStep] = []
        self.events: list[HeapEvent] = []
        self.defined: dict[Instruction, list[LogicalBuffer]] = {}
        self.ends_at: dict[Instruction, list[LogicalBuffer]] = {}
        self.place: dict[LogicalBuffer, LogicalBuffer] = {}
        self.users: dict[LogicalBuffer, int] = {}
        self.taken_over: set[LogicalBuffer] = set()
        for buffer in sorted(buffers, key=_number):
            self.defined.setdefault(buffer.instruction, []).append(buffer)

    def run(self, root: Computation) -> None:
        """Walk the sequences, those of callees where they are called."""
        stack = [iter(self._moments(root))]
        while stack:
            moment = next(stack[-1], None)
            if moment is None:
                stack.pop()
            elif isinstance(moment, Computation):
                stack.append(iter(self._moments(moment)))
            elif moment[1]:
                self._begin(moment[0])
            else:
                self._end(moment[0])

    def _moments(self, computation: Computation) -> list[Computation | tuple[Instruction, bool]]:
        """The beginning of each instruction, what it runs, and its end."""
        sequence = self.sequences[computation]
        self._find_ends(sequence)
        moments: list[Computation | tuple[Instruction, bool]] = []
        for instruction in sequence:
            moments.append((instruction, True))
            callees = [callee for _, callee in executed_callees(instruction)]
            moments += [callee for callee in callees if callee in self.sequences]
            moments.append((instruction, False))
        return moments

    def _find_ends(self, sequence: Sequence[Instruction]) -> None:
        """Note with which instruction each buffer of a computation ends."""
        time = {instruction: i for i, instruction in enumerate(sequence)}
        for instruction in sequence:
            for buffer in self.defined.get(instruction, ()):
                last = max([time[instruction], *[time[x] for x in self._readers_of(buffer)]])
                if any(x.instruction.is_root for x in self.points_to.buffer_aliases(buffer)):
                    last = len(sequence) - 1
                self.ends_at.setdefault(sequence[last], []).append(buffer)

    def _readers_of(self, buffer: LogicalBuffer) -> list[Instruction]:
        return [
            user
            for alias in self.points_to.buffer_aliases(buffer)
            for user in alias.instruction.users
            if may_use(user, alias.index)
        ]

    def _begin(self, instruction: Instruction) -> None:
        ending = self.ends_at.get(instruction, [])
        for buffer in self.defined.get(instruction, ()):
            operand = self._operand_to_take_over(buffer, ending)
            if operand is None:
                self.place[buffer] = buffer
                self.users[buffer] = 1
                self.steps.append(HeapStep(HeapStepKind.ALLOCATE, buffer.number, buffer.nbytes))
                self._tell(HeapEventKind.ALLOCATE, buffer)
            else:
                place = self.place[buffer] = self.place[operand]
                self.users[place] += 1
                self._tell(HeapEventKind.SHARE, buffer, operand)

    def _operand_to_take_over(
        self, buffer: LogicalBuffer, ending: Iterable[LogicalBuffer]
    ) -> LogicalBuffer | None:
        for operand in ending:
            if operand is buffer or operand not in self.place or operand in self.taken_over:
                continue
            place = HloPosition(operand.instruction, operand.index)
            direct = operand.instruction in buffer.instruction.operands
            if direct and self.sharing.may_take_over(buffer, (place,)):
                self.taken_over.add(operand)
                return operand
        return None

    def _end(self, instruction: Instruction) -> None:
        for buffer in self.ends_at.get(instruction, ()):
            place = self.place[buffer]
            self.users[place] -= 1
            self._tell(HeapEventKind.FREE, buffer)
            if not self.users[place]:
                self.steps.append(HeapStep(HeapStepKind.FREE, place.number, place.nbytes))

    def _tell(
        self, kind: HeapEventKind, buffer: LogicalBuffer, other: LogicalBuffer | None = None
    ) -> None:
        instruction = buffer.instruction
        shares_with = None if other is None else other.number
        self.events.append(
            HeapEvent(kind, buffer.number, instruction.parent.name, instruction.name, shares_with)
        )


def _number(buffer: LogicalBuffer) -> int:
    return buffer.number


def places_of(run: HeapRun) -> dict[int, int]:
    """Return per buffer of a run the one that the heap knows its place by."""
    place: dict[int, int] = {}
    for event in run.events:
        if event.kind is HeapEventKind.ALLOCATE:
            place[event.value] = event.value
        elif event.shares_with is not None:
            place[event.value] = place[event.shares_with]
    return place
