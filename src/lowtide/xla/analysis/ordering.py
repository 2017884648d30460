"""Orderings: which values may be live at once, as far as the order of execution is known.

The questions are those of XLA's HloOrdering (OpenXLA, hlo_ordering): under a total order of each
computation, under given predecessors, or under dependencies alone. The fewer things are ordered,
the more values may be live at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, final

from lowtide.ir import Computation, Instruction, LowtideError, Module, Opcode
from lowtide.ir.schedule import PartialOrder, Schedule
from lowtide.ops.may_share import may_share
from lowtide.xla.analysis.execution_order import (
    BEFORE,
    Constraint,
    DirectPredecessors,
    ExecutionOrder,
)
from lowtide.xla.analysis.hlo_value import HloValue, Use
from lowtide.xla.analysis.reachability import (
    Reachability,
    closure,
    direct_predecessors,
    reachability,
)

_FORWARDING: Final = frozenset({Opcode.WHILE, Opcode.CONDITIONAL})
_OTHER_BRANCH: Final = frozenset({Constraint.EXCLUSIVE_BEFORE, Constraint.EXCLUSIVE_AFTER})


class Ordering(ExecutionOrder):
    """An order of execution and what it says about values, which are those of `hlo_dataflow`."""

    def is_defined_before(self, first: HloValue, second: HloValue) -> bool:
        """Whether `first` is there before `second`, in each run that has both.

        Arguments of the program come first, and the state of a loop comes before all that the loop
        makes of it. Of the values of two branches, those of the earlier one come first.
        """
        a, b = first.instruction, second.instruction
        if a is b or self._starts_computation(second, a):
            return False
        return self._starts_computation(first, b) or self.executes_before(a, b)

    def uses_before_value_definition(self, uses: Iterable[Use], value: HloValue) -> bool:
        """Whether all uses are over when `value` is defined, or in a branch that excludes it.

        A use by what defines the value is over in time where the value may overwrite the operand.
        What a loop, call or conditional is given is read when it starts.
        """
        return all(self._is_over(use, value) for use in uses)

    def live_range_strictly_before(self, first: HloValue, second: HloValue) -> bool:
        """Whether `second` may lie where `first` lies, since no run needs `first` any more.

        What leaves a computation is needed up to the end of it, what leaves the program for good.
        The state of a loop is needed while its condition runs, which changes none of it.
        """
        if not self.is_defined_before(first, second):
            return False
        definition = second.instruction
        for position in first.positions:
            holder = position.instruction
            if self.tree.keeps(holder) and self.tree.within(definition, holder.parent):
                return False
        return self.uses_before_value_definition(first.uses, second)

    def may_interfere(self, first: HloValue, second: HloValue) -> bool:
        """Whether two different values may be needed at the same time; False of one and itself.

        Raises LowtideError where a computation has several call sites.
        """
        if first is second or self.live_range_strictly_before(first, second):
            return False
        return not self.live_range_strictly_before(second, first)

    def _starts_computation(self, value: HloValue, other: Instruction) -> bool:
        """Whether a value is given to a computation of which `other` is a part."""
        maker = value.instruction
        return maker.opcode is Opcode.PARAMETER and self.tree.within(other, maker.parent)

    def _is_over(self, use: Use, value: HloValue) -> bool:
        user, definition = use.instruction, value.instruction
        if user is definition:
            return user.opcode in _FORWARDING or overwrites(use, value)
        if self.tree.encloses(user, definition):
            return True
        if self._starts_computation(value, user):
            return False
        constraint = self.execution_constraint(user, definition)
        return constraint in BEFORE or constraint in _OTHER_BRANCH


def overwrites(use: Use, value: HloValue) -> bool:
    """Whether what defines a value may put it in the place of the operand of a use of its own."""
    pair = ((use.operand_number, use.operand_index), value.index)
    return pair in may_share(use.instruction)


@final
class DependencyOrdering(Ordering):
    """Only operands and control predecessors come first: everything else may run at once."""

    def __init__(self, module: Module) -> None:
        super().__init__(module)
        self._closures: dict[Computation, Reachability] = {}

    def precedes(self, first: Instruction, second: Instruction) -> bool:
        """Whether, of two instructions of one computation, the second waits for the first."""
        known = self._closures.get(first.parent)
        if known is None:
            known = self._closures[first.parent] = reachability(first.parent)
        return first is not second and known.reaches(first, second)

    def predecessors(self, computation: Computation) -> DirectPredecessors:
        """Return the operands and control predecessors of each instruction."""
        return direct_predecessors(computation)


@final
class SequentialOrdering(Ordering):
    """Each computation runs in one order: that of `schedule`, by default that of the module.

    Raises LowtideError where there is no schedule.
    """

    def __init__(self, module: Module, schedule: Schedule | None = None) -> None:
        super().__init__(module)
        self.schedule: Final = _needed(module, schedule)
        self._places: dict[Computation, dict[Instruction, int]] = {}

    def precedes(self, first: Instruction, second: Instruction) -> bool:
        """Whether, of two instructions of one computation, the first is scheduled earlier."""
        places = self._places.get(first.parent)
        if places is None:
            order = self._sequence(first.parent)
            places = self._places[first.parent] = {x: i for i, x in enumerate(order)}
        return places[first] < places[second]

    def predecessors(self, computation: Computation) -> DirectPredecessors:
        """Return for each instruction what it needs, and the one that runs just before it."""
        return in_sequence(self._sequence(computation))

    def sequential_order(self, computation: Computation) -> tuple[Instruction, ...] | None:
        """Return the order of a computation; None where the schedule does not have it."""
        return self.schedule.sequences.get(computation)

    def _sequence(self, computation: Computation) -> tuple[Instruction, ...]:
        return _sequence_of(self.schedule, computation)


def _needed(module: Module, schedule: Schedule | None) -> Schedule:
    found = module.schedule if schedule is None else schedule
    if found is None:
        raise LowtideError(f"module {module.name} has no schedule: a total order needs one")
    return found


def _sequence_of(schedule: Schedule, computation: Computation) -> tuple[Instruction, ...]:
    sequence = schedule.sequences.get(computation)
    if sequence is None:
        raise LowtideError(f"the schedule leaves out %{computation.name}")
    return sequence


@final
class PredecessorOrdering(Ordering):
    """Given predecessors for some computations, e.g. the entry.

    Others run in the order of `schedule`; those that it leaves out have their dependencies only.
    Raises InvalidModuleError for orders with cycles or gaps.
    """

    def __init__(
        self, module: Module, *orders: PartialOrder, schedule: Schedule | None = None
    ) -> None:
        super().__init__(module)
        self._orders = {order.computation: order for order in orders}
        self._schedule = Schedule() if schedule is None else schedule
        self._closures: dict[Computation, Reachability] = {}
        for order in orders:
            self._closures[order.computation] = closure(order.computation, order.predecessors)
        self._rest = DependencyOrdering(module)
        named = self._schedule.sequences
        self._sequential = SequentialOrdering(module, self._schedule) if named else self._rest

    def precedes(self, first: Instruction, second: Instruction) -> bool:
        """Whether, of two instructions of one computation, the second waits for the first."""
        known = self._closures.get(first.parent)
        if known is None:
            return self._other(first.parent).precedes(first, second)
        return first is not second and known.reaches(first, second)

    def predecessors(self, computation: Computation) -> DirectPredecessors:
        """Return what each instruction waits for directly."""
        order = self._orders.get(computation)
        if order is None:
            return self._other(computation).predecessors(computation)
        return order.predecessors

    def sequential_order(self, computation: Computation) -> tuple[Instruction, ...] | None:
        """Return the order of a computation that the schedule orders, None of any other."""
        if computation in self._orders:
            return None
        return self._schedule.sequences.get(computation)

    def _other(self, computation: Computation) -> Ordering:
        scheduled = computation in self._schedule.sequences
        return self._sequential if scheduled else self._rest


def in_sequence(sequence: tuple[Instruction, ...]) -> DirectPredecessors:
    """Return the predecessors of a total order: those of each instruction and the one before it."""
    found: dict[Instruction, tuple[Instruction, ...]] = {}
    previous: tuple[Instruction, ...] = ()
    for instruction in sequence:
        own = (*instruction.operands, *instruction.control_predecessors)
        found[instruction] = tuple(dict.fromkeys((*own, *previous)))
        previous = (instruction,)
    return found


def to_partial_order(ordering: Ordering, computation: Computation) -> PartialOrder:
    """Return what an ordering says about one computation, by itself."""
    return PartialOrder(computation, ordering.predecessors(computation))
