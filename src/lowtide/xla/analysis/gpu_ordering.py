"""The order on a device that runs several streams at once, as TensorFlow 1.14 had it.

Launches are ordered on each stream, and an instruction waits for what it reads. In one point it
differs from TensorFlow: an instruction for which nothing is launched does not order those around
it, since nothing waits for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from lowtide.ir import Computation, Instruction, Module, Opcode
from lowtide.ir.schedule import PartialOrder, Schedule
from lowtide.xla.analysis.ordering import PredecessorOrdering
from lowtide.xla.analysis.reachability import direct_predecessors

NOT_LAUNCHED: Final = frozenset(
    {
        Opcode.ADD_DEPENDENCY,
        Opcode.AFTER_ALL,
        Opcode.BITCAST,
        Opcode.CONSTANT,
        Opcode.DOMAIN,
        Opcode.GET_TUPLE_ELEMENT,
        Opcode.OPTIMIZATION_BARRIER,
        Opcode.PARAMETER,
        Opcode.TUPLE,
    }
)
"""Operations for which a device has nothing to do."""


def launch_partial_order(
    computation: Computation,
    launch_order: Sequence[Instruction],
    streams: Mapping[Instruction, int],
) -> PartialOrder:
    """Return what each instruction waits for: what it needs, and the launch before on its stream.

    `launch_order` has all instructions, each after what it needs; `streams` all that are launched.
    """
    needed = direct_predecessors(computation)
    last: dict[int, Instruction] = {}
    found: dict[Instruction, tuple[Instruction, ...]] = {}
    for instruction in launch_order:
        before = needed[instruction]
        if instruction.opcode not in NOT_LAUNCHED:
            stream = streams[instruction]
            previous = last.get(stream)
            if previous is not None and previous not in before:
                before = (*before, previous)
            last[stream] = instruction
        found[instruction] = before
    return PartialOrder(computation, found)


def gpu_ordering(
    module: Module,
    launch_order: Sequence[Instruction],
    streams: Mapping[Instruction, int],
    schedule: Schedule | None = None,
) -> PredecessorOrdering:
    """Return the ordering of a module whose entry is launched on streams.

    With one stream, the sequence of the entry is `launch_order`; with several it has none. Called
    computations run in the order of `schedule`; without one they have dependencies only, as in
    TensorFlow 1.14, which tells their order to nobody.
    """
    entry = module.entry
    sequences = {} if schedule is None else dict(schedule.sequences)
    sequences.pop(entry, None)
    if len(set(streams.values())) > 1:
        order = launch_partial_order(entry, launch_order, streams)
        return PredecessorOrdering(module, order, schedule=Schedule(sequences))
    sequences[entry] = tuple(launch_order)
    return PredecessorOrdering(module, schedule=Schedule(sequences))
