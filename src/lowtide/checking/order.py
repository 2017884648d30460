"""The order of a program: which computations run, at which steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from lowtide.checking.violation import PlanMismatchError
from lowtide.ir import Computation, Instruction, Module, Opcode

_RUNS: Final = frozenset({Opcode.CALL, Opcode.WHILE, Opcode.CONDITIONAL, Opcode.ASYNC_START})


def callees(instruction: Instruction) -> tuple[Computation, ...]:
    """Return the computations that an instruction runs as control flow, in that order."""
    return instruction.called_computations if instruction.opcode in _RUNS else ()


def computations(entry: Computation) -> list[Computation]:
    """Return all computations that run as control flow, callees before callers."""
    order: list[Computation] = []
    seen = {entry}
    stack = [(entry, _called_by(entry))]
    while stack:
        computation, remaining = stack[-1]
        callee = next(remaining, None)
        if callee is None:
            stack.pop()
            order.append(computation)
        elif callee not in seen:
            seen.add(callee)
            stack.append((callee, _called_by(callee)))
    return order


def _called_by(computation: Computation) -> Iterator[Computation]:
    for instruction in computation.instructions.values():
        yield from callees(instruction)


class CheckedOrder:
    """The steps of the flattened program: callees run at their callers, just before these.

    A loop's condition stands before its body; the branches of a conditional follow one another.
    """

    def __init__(self, module: Module) -> None:
        """Raise PlanMismatchError where the module has no schedule, or one that cannot be."""
        if module.schedule is None:
            raise PlanMismatchError(
                f"{module.name} has no schedule, so there is no order to check a plan against; "
                "a module with is_scheduled=true has one"
            )
        self.sequences: dict[Computation, Sequence[Instruction]] = {}
        self.length: dict[Computation, int] = {}
        self.offset: dict[Instruction, int] = {}
        """The steps between the begin of an instruction's computation and the instruction."""
        self.computations = computations(module.entry)
        for computation in self.computations:
            sequence = module.schedule.sequences.get(computation)
            if sequence is None:
                raise PlanMismatchError(f"the schedule has no order for {computation.name}")
            _check_sequence(computation, sequence)
            self.sequences[computation] = sequence
            self._count(computation, sequence)

    def _count(self, computation: Computation, sequence: Sequence[Instruction]) -> None:
        step = 0
        for instruction in sequence:
            step += sum([self.length[callee] for callee in callees(instruction)])
            self.offset[instruction] = step
            step += 1
        self.length[computation] = step

    def start(self, caller: Instruction, number: int) -> int:
        """The steps between the begin of the caller's computation and that of callee `number`."""
        called = callees(caller)
        behind = sum([self.length[callee] for callee in called[number:]])
        return self.offset[caller] - behind


def _check_sequence(computation: Computation, sequence: Sequence[Instruction]) -> None:
    done: set[Instruction] = set()
    for instruction in sequence:
        where = f"the schedule of {computation.name}"
        if instruction.parent is not computation:
            raise PlanMismatchError(f"{where} has {instruction.name} of another computation")
        if instruction in done:
            raise PlanMismatchError(f"{where} has {instruction.name} twice")
        for before in (*instruction.operands, *instruction.control_predecessors):
            if before not in done:
                raise PlanMismatchError(f"{where} has {instruction.name} before {before.name}")
        done.add(instruction)
    if len(done) < len(computation.instructions):
        missing = next(x for x in computation.instructions.values() if x not in done)
        raise PlanMismatchError(f"the schedule of {computation.name} lacks {missing.name}")
