"""A scheduled module as one sequence, each computation once, as XLA flattens it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lowtide.analysis.call_graph import executed_callees
from lowtide.ir import Computation, Instruction, InvalidModuleError, Schedule
from lowtide.records import dataclass


@dataclass(frozen=True, slots=True)
class ComputationSpan:
    """When a computation runs: the time of its first instruction, and that of its caller.

    The entry ends at the time behind its last instruction.
    """

    start: int
    end: int


@dataclass(frozen=True, eq=False, slots=True)
class FlatSequence:
    """The instructions that run, by time from 0, and when each computation runs.

    What an instruction runs stands just before it; of a while, the condition, then the body.
    """

    instructions: tuple[Instruction, ...]
    time: Mapping[Instruction, int]
    spans: Mapping[Computation, ComputationSpan]

    @property
    def end(self) -> int:
        """The time behind the last instruction, at which the entry ends."""
        return len(self.instructions)


def flat_sequence(entry: Computation, schedule: Schedule) -> FlatSequence:
    """Return the sequence of all that `entry` runs.

    Raises InvalidModuleError where a computation runs from two places, which
    `transforms.flatten_call_graph` mends, or has no order.
    """
    instructions: list[Instruction] = []
    time: dict[Instruction, int] = {}
    spans: dict[Computation, ComputationSpan] = {}
    starts = {entry: 0}
    stack = [_steps(entry, schedule)]
    computations = [entry]
    while stack:
        step = next(stack[-1], None)
        if step is None:
            stack.pop()
            done = computations.pop()
            spans[done] = ComputationSpan(starts[done], len(instructions))
        elif isinstance(step, Instruction):
            time[step] = len(instructions)
            instructions.append(step)
        else:
            if step in starts:
                raise InvalidModuleError(
                    f"computation {step.name} runs from several places; expected a flat call graph"
                )
            starts[step] = len(instructions)
            stack.append(_steps(step, schedule))
            computations.append(step)
    return FlatSequence(tuple(instructions), time, spans)


def _steps(computation: Computation, schedule: Schedule) -> Iterator[Instruction | Computation]:
    """Yield the instructions in order, what each runs before itself."""
    if computation not in schedule.sequences:
        raise InvalidModuleError(f"computation {computation.name} has no order of execution")
    for instruction in schedule.sequence(computation):
        for _, callee in executed_callees(instruction):
            yield callee
        yield instruction
