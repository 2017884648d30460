"""The order of execution between instructions, across computations.

What is known of one computation comes from elsewhere; here it becomes knowledge of the program.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from lowtide.analysis.call_graph import CallRole
from lowtide.ir import Computation, Instruction, Module
from lowtide.xla.analysis.call_tree import CallPair, CallTree, end_of

DirectPredecessors = Mapping[Instruction, tuple[Instruction, ...]]


class Constraint(StrEnum):
    """When one instruction runs, as seen from another one."""

    SAME = "same"
    BEFORE_START = "before start"
    """It ends before the other one starts."""
    BEFORE_END = "before end"
    """It is part of what the other one runs."""
    EXCLUSIVE_BEFORE = "exclusive before"
    """It is in another branch of one conditional, an earlier one; only one of both runs."""
    EXCLUSIVE_AFTER = "exclusive after"
    """It is in another branch of one conditional, a later one; only one of both runs."""
    AFTER = "after"
    """The other one ends before it starts, or is part of what it runs."""
    UNORDERED = "unordered"


BEFORE: Final = frozenset(
    {Constraint.BEFORE_START, Constraint.BEFORE_END, Constraint.EXCLUSIVE_BEFORE}
)


class ExecutionOrder(ABC):
    """What the order of each computation says about the whole program.

    The callee of an async-start runs at any time between it and its async-done; any other callee
    runs within its caller. Computations with several call sites raise LowtideError.
    """

    def __init__(self, module: Module) -> None:
        self.module = module
        self.tree = CallTree(module)

    @abstractmethod
    def precedes(self, first: Instruction, second: Instruction) -> bool:
        """Whether, of two instructions of one computation, the first ends before the second."""

    @abstractmethod
    def predecessors(self, computation: Computation) -> DirectPredecessors:
        """Return what each instruction waits for directly, operands among them."""

    def sequential_order(self, computation: Computation) -> tuple[Instruction, ...] | None:
        """Return the total order of a computation, None where there is none."""
        return None

    def execution_constraint(self, first: Instruction, second: Instruction) -> Constraint:
        """Return when `first` runs as seen from `second`; raises LowtideError, see the class."""
        if first is second:
            return Constraint.SAME
        meeting = self.tree.meeting(first, second)
        if meeting.first is meeting.second:
            return _within_one_caller(meeting)
        if self._ends_before(meeting):
            return Constraint.BEFORE_START
        a, call_a, b, call_b = meeting
        if self._ends_before(CallPair(b, call_b, a, call_a)):
            return Constraint.AFTER
        return Constraint.UNORDERED

    def executes_before(self, first: Instruction, second: Instruction) -> bool:
        """Whether `first` ends before `second` does: a strict partial order of all instructions.

        Of two branches, the earlier one counts as before the later one.
        """
        return self.execution_constraint(first, second) in BEFORE

    def _ends_before(self, meeting: CallPair) -> bool:
        end = end_of(meeting.first_call, meeting.first)
        return end is meeting.second or self.precedes(end, meeting.second)


def _within_one_caller(meeting: CallPair) -> Constraint:
    """Of two instructions that one instruction runs, or one of which is that instruction."""
    first, second = meeting.first_call, meeting.second_call
    if second is None:
        assert first is not None
        is_async = first.role is CallRole.ASYNC
        return Constraint.AFTER if is_async else Constraint.BEFORE_END
    if first is None:
        is_async = second.role is CallRole.ASYNC
        return Constraint.BEFORE_START if is_async else Constraint.AFTER
    if first.role is CallRole.BRANCH:
        earlier = first.number < second.number
        return Constraint.EXCLUSIVE_BEFORE if earlier else Constraint.EXCLUSIVE_AFTER
    return Constraint.BEFORE_START if first.number < second.number else Constraint.AFTER
