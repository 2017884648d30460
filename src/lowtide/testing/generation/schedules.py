"""Random orders of execution."""

from __future__ import annotations

from lowtide.ir.computation import Computation
from lowtide.ir.instruction import Instruction
from lowtide.ir.module import Module
from lowtide.ir.schedule import Schedule
from lowtide.ir.traversal import fused_computations
from lowtide.testing.generation.recipe import Choices


def random_schedule(module: Module, choices: Choices) -> Schedule:
    """Return an order for each computation that is not fused, any of those that are legal."""
    fused = fused_computations(module)
    return Schedule(
        {x: _any_order(x, choices) for x in module.computations.values() if x not in fused}
    )


def _any_order(computation: Computation, choices: Choices) -> tuple[Instruction, ...]:
    waits = {x: len(_predecessors(x)) for x in computation.instructions.values()}
    ready = [instruction for instruction, count in waits.items() if not count]
    order: list[Instruction] = []
    while ready:
        chosen = choices.integer(0, len(ready) - 1)
        ready[chosen], ready[-1] = ready[-1], ready[chosen]
        order.append(ready.pop())
        for follower in dict.fromkeys((*order[-1].users, *order[-1].control_successors)):
            waits[follower] -= 1
            if not waits[follower]:
                ready.append(follower)
    return tuple(order)


def _predecessors(instruction: Instruction) -> dict[Instruction, None]:
    return dict.fromkeys((*instruction.operands, *instruction.control_predecessors))
