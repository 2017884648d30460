"""Pairs of values that may be live at the same time, found at once, under any ordering.

The answers are those of `Ordering.may_interfere`. The memory is a bit per instruction and value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

import numpy as np
import numpy.typing as npt

from lowtide.analysis.call_graph import CallRole, executed_callees
from lowtide.ir import Computation, Instruction, Module, Opcode
from lowtide.ir.schedule import PartialOrder, Schedule
from lowtide.ops.may_share import may_share
from lowtide.records import dataclass
from lowtide.xla.analysis.bit_rows import Bytes, packed, transposed
from lowtide.xla.analysis.call_tree import ControlFlowCall, end_of
from lowtide.xla.analysis.hlo_value import HloValue, Use
from lowtide.xla.analysis.ordering import Ordering, PredecessorOrdering
from lowtide.xla.analysis.reachability import topological_order

_FORWARDING: Final = frozenset({Opcode.WHILE, Opcode.CONDITIONAL})


@dataclass(frozen=True, eq=False, slots=True)
class Interference:
    """Which of `values` may be live at once; no value interferes with itself.

    Bit j of row i, lowest bits of each byte first, is set where values i and j interfere. Bits
    beyond the last value are clear.
    """

    values: tuple[HloValue, ...]
    rows: Bytes

    def between(self, first: int, second: int) -> bool:
        """Whether two values, by their places in `values`, may be live at once."""
        return bool(self.rows[first, second >> 3] >> (second & 7) & 1)

    def neighbours(self, value: int) -> npt.NDArray[np.int64]:
        """Return the places of all values that interfere with one, ascending."""
        return np.flatnonzero(np.unpackbits(self.rows[value], bitorder="little"))


def interference(ordering: Ordering, values: Sequence[HloValue]) -> Interference:
    """Return which of some values may be live at once.

    Raises LowtideError for values of computations with several call sites, and of those that run
    inside kernels.
    """
    count = len(values)
    before = packed(_Rows(ordering, values).all_before())
    apart = before | transposed(before) | packed([1 << i for i in range(count)])
    everything = packed([(1 << count) - 1] * count)
    return Interference(tuple(values), ~apart & everything)


def interference_under(
    module: Module,
    order: PartialOrder,
    values: Sequence[HloValue],
    schedule: Schedule | None = None,
) -> Interference:
    """Return which values may be live at once under a partial order of one computation.

    The others run in the order of `schedule`, by default that of the module.
    """
    rest = module.schedule if schedule is None else schedule
    return interference(PredecessorOrdering(module, order, schedule=rest), values)


@final
class _Rows:
    """Sets of values as integers: bit i stands for values[i]."""

    def __init__(self, ordering: Ordering, values: Sequence[HloValue]) -> None:
        self.ordering = ordering
        self.tree = ordering.tree
        self.values = values
        self.made: dict[Instruction, int] = {}
        """What each instruction defines."""
        self.numbers: dict[Instruction, list[int]] = {}
        for number, value in enumerate(values):
            maker = value.instruction
            self.tree.call_of(maker.parent)
            self.made[maker] = self.made.get(maker, 0) | 1 << number
            self.numbers.setdefault(maker, []).append(number)
        self.inside: dict[Computation, int] = {}
        """All that a computation defines, with what it calls."""
        self.nested: dict[Instruction, int] = {}
        """What the callees of each instruction define."""
        for computation in reversed(self.tree.computations):
            self._look_inside(computation)
        self.after: dict[Instruction, int] = {}
        """What is defined in the same computation, or its callees, when an instruction is over."""
        self.behind_use: dict[Computation, int] = {}
        """What is defined elsewhere when a use in a computation is over, or instead of it."""
        self.behind_definition: dict[Computation, int] = {}
        """What is defined elsewhere later than all that a computation defines."""
        for computation in self.tree.computations:
            self._look_behind(computation)

    # -- by computation ------------------------------------------------------------------------

    def _look_inside(self, computation: Computation) -> None:
        found = 0
        for instruction in computation.instructions.values():
            found |= self.made.get(instruction, 0)
            for _, callee in executed_callees(instruction):
                inner = self.inside[callee]
                self.nested[instruction] = self.nested.get(instruction, 0) | inner
                found |= inner
        self.inside[computation] = found

    def _look_behind(self, computation: Computation) -> None:
        self._look_after(computation)
        call = self.tree.call_of(computation)
        use = definition = 0
        if call is not None:
            end = end_of(call, call.caller)
            made = self.made.get(end, 0) | self.after[end]
            outer = end.parent
            use = made | self.behind_use[outer] | self._siblings(call, later=False)
            definition = made | self.behind_definition[outer] | self._siblings(call, later=True)
        self.behind_use[computation] = use
        self.behind_definition[computation] = definition

    def _look_after(self, computation: Computation) -> None:
        predecessors = self.ordering.predecessors(computation)
        sequence = self.ordering.sequential_order(computation)
        if sequence is None:
            sequence = topological_order(computation, predecessors)
        after = self.after
        for instruction in sequence:
            after[instruction] = 0
        for instruction in reversed(sequence):
            later = after[instruction] | self.nested.get(instruction, 0)
            if instruction.opcode is not Opcode.PARAMETER:
                later |= self.made.get(instruction, 0)
            for predecessor in predecessors[instruction]:
                after[predecessor] |= later

    def _siblings(self, call: ControlFlowCall, *, later: bool) -> int:
        """What other callees of the caller define: later ones, or all that exclude this one."""
        found = 0
        for number, (role, callee) in enumerate(executed_callees(call.caller)):
            excluded = role is CallRole.BRANCH and number != call.number and not later
            if number > call.number or excluded:
                found |= self.inside[callee]
        return found

    # -- by value ------------------------------------------------------------------------------

    def all_before(self) -> list[int]:
        """Return for each value those that may lie where it lies, since it is over."""
        return [self._before(value) for value in self.values]

    def _before(self, value: HloValue) -> int:
        found = self._defined_after(value.instruction)
        for position in value.positions:
            if self.tree.keeps(position.instruction):
                found &= ~self.inside[position.instruction.parent]
        for use in value.uses:
            if not found:
                break
            found &= self._over_after(use)
        return found

    def _defined_after(self, maker: Instruction) -> int:
        outside = self.behind_definition[maker.parent]
        if maker.opcode is not Opcode.PARAMETER:
            return outside | self.after[maker] | self._started_by(maker)
        given = 0
        for parameter in maker.parent.parameters:
            given |= self.made.get(parameter, 0)
        return outside | (self.inside[maker.parent] & ~given)

    def _started_by(self, maker: Instruction) -> int:
        """What the callee of an async-start defines, which runs after it."""
        return self.nested.get(maker, 0) if maker.opcode is Opcode.ASYNC_START else 0

    def _over_after(self, use: Use) -> int:
        user = use.instruction
        found = self.after[user] | self.behind_use[user.parent] | self.nested.get(user, 0)
        made = self.made.get(user, 0)
        if not made:
            return found
        return found | (made if user.opcode in _FORWARDING else self._overwriting(use))

    def _overwriting(self, use: Use) -> int:
        place = (use.operand_number, use.operand_index)
        outputs = [output for operand, output in may_share(use.instruction) if operand == place]
        found = 0
        for number in self.numbers[use.instruction]:
            if self.values[number].index in outputs:
                found |= 1 << number
        return found
