"""The order in which the host launches the instructions of the entry, and what it orders."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from lowtide.analysis.dataflow import dataflow
from lowtide.ir import Computation, Instruction, Module
from lowtide.ir.schedule import PartialOrder
from lowtide.scheduling.module_scheduler import schedule_module
from lowtide.xla.analysis.gpu_ordering import launch_partial_order
from lowtide.xla.analysis.ordering import in_sequence
from lowtide.xla.analysis.reachability import direct_predecessors
from lowtide.xla.streams.streams import StreamAssignment, assign_streams


def breadth_first_order(computation: Computation) -> tuple[Instruction, ...]:
    """Return the instructions by layers: first what needs nothing, then what needs only that.

    Each one follows as soon as the last thing that it needs is there; of several that one
    instruction lets start, the first user. So no stream waits for another one longer than it has
    to.
    """
    needed = direct_predecessors(computation)
    waits = {instruction: len(before) for instruction, before in needed.items()}
    ready = deque([instruction for instruction, count in waits.items() if not count])
    order: list[Instruction] = []
    while ready:
        instruction = ready.popleft()
        order.append(instruction)
        for follower in dict.fromkeys((*instruction.users, *instruction.control_successors)):
            waits[follower] -= 1
            if not waits[follower]:
                ready.append(follower)
    return tuple(order)


def launch_order(
    assignment: StreamAssignment, sequence: Sequence[Instruction] | None = None
) -> tuple[Instruction, ...]:
    """Return the order of launches of the entry, as TensorFlow 1.14 chooses it.

    On one stream it is `sequence`: by default that of the module, where it is scheduled, else the
    best that the schedulers find for its memory. On several streams it is breadth first.
    """
    if assignment.count > 1:
        return breadth_first_order(assignment.computation)
    if sequence is not None:
        return tuple(sequence)
    return _least_memory(assignment.computation.module)


def partial_orders(
    module: Module, assignment: StreamAssignment | None = None, *, follow_schedule: bool = False
) -> Mapping[str, PartialOrder]:
    """Return what three ways to run the entry order: "sequential", "launch" and "dependency".

    "sequential" is the order of the module's schedule, or the best for memory that the schedulers
    find. "launch" is the launch order on the streams of `assignment`, by default those of
    `assign_streams`; with `follow_schedule` instructions are launched in the sequential order,
    which then is one of those that "launch" allows. "dependency" is what instructions need, which
    the others contain.
    """
    streams = assign_streams(module) if assignment is None else assignment
    entry = module.entry
    sequence = _least_memory(module)
    launches = sequence if follow_schedule else launch_order(streams, sequence)
    return {
        "sequential": PartialOrder(entry, in_sequence(sequence)),
        "launch": launch_partial_order(entry, launches, streams.streams),
        "dependency": PartialOrder(entry, direct_predecessors(entry)),
    }


def _least_memory(module: Module) -> tuple[Instruction, ...]:
    if module.schedule is not None:
        return module.schedule.sequence(module.entry)
    flows = dataflow(module.entry)
    return schedule_module(module, flows).sequence(module.entry)
