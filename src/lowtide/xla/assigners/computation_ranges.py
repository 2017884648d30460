"""Live ranges within one computation that has a total order, in steps of its own."""

from __future__ import annotations

from collections.abc import Iterable

from lowtide.ir import Computation, Instruction, Opcode
from lowtide.xla.analysis.hlo_alias import HloBuffer
from lowtide.xla.analysis.hlo_value import HloValue
from lowtide.xla.analysis.ordering import Ordering
from lowtide.xla.assigners.heap_simulation import Ranges


def computation_ranges(
    computation: Computation, ordering: Ordering, buffers: Iterable[HloBuffer]
) -> Ranges:
    """Return the ranges of the values of some buffers, both ends included.

    Parameters are live from the first step, what leaves the computation to the end. What happens
    in a called computation happens when the caller runs. A buffer with values of other computations
    is live from the first to the last of its values.
    """
    order = ordering.sequential_order(computation) or ()
    time = {instruction: i for i, instruction in enumerate(order)}
    last = len(order)
    ranges: dict[HloValue, tuple[int, int]] = {}
    for buffer in buffers:
        for value in buffer.values:
            start = _time(value.instruction, time, ordering)
            is_parameter = value.instruction.opcode is Opcode.PARAMETER
            if start is None or (is_parameter and value.instruction in time):
                start = 0
            ranges[value] = start, max(start, _end(value, time, ordering, last))
    return ranges


def _end(value: HloValue, time: dict[Instruction, int], ordering: Ordering, last: int) -> int:
    moments = [_time(use.instruction, time, ordering) for use in value.uses]
    for position in value.positions:
        instruction = position.instruction
        moments.append(last if instruction.is_root else _time(instruction, time, ordering))
    return max([last if moment is None else moment for moment in moments], default=0)


def _time(instruction: Instruction, time: dict[Instruction, int], ordering: Ordering) -> int | None:
    """When an instruction runs, or what calls it; None where the computation is not a caller."""
    found: Instruction | None = instruction
    while found is not None and found not in time:
        call = ordering.tree.call_of(found.parent)
        found = None if call is None else call.caller
    return None if found is None else time[found]
